//===- Control.cpp - Branches, calls, barriers, fences --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/KernelBuilder.h"
#include "instructions/Lanes.h"
#include "instructions/WarpInstructions.h"

namespace fsdp::emulator {

namespace {

void doNothing(Warp &, const Instruction &, LaneMask) {}

void decodeBranch(Decoder &decoder) {
  // bra.uni: all active lanes go the same way; a promise that is not needed.
  decoder.ignore({"uni"});
  decoder.expectOperands(1);
  decoder.instruction.flow = Flow::Branch;
  decoder.builder.branchTo(decoder.operand(0).name);
}

void decodeIndexedBranch(Decoder &decoder) {
  if (!decoder.take("idx"))
    decoder.reject("expected brx.idx");
  decoder.ignore({"uni"});
  decoder.expectOperands(2);
  decoder.instruction.flow = Flow::IndexedBranch;
  decoder.instruction.sources[0] = decoder.source(0, Type::B32);
  decoder.instruction.immediate =
      decoder.builder.branchTable(decoder.operand(1).name, decoder.syntax.line);
}

void decodeReturn(Decoder &decoder) {
  decoder.ignore({"uni"});
  decoder.expectOperands(0);
  if (decoder.builder.isInKernel()) {
    decoder.instruction.flow = Flow::Exit;
    return;
  }
  decoder.instruction.flow = Flow::Branch;
  decoder.builder.branchToReturn();
}

void decodeExit(Decoder &decoder) {
  decoder.expectOperands(0);
  decoder.instruction.flow = Flow::Exit;
}

/// call (results), function, (arguments); both lists may be missing.
void decodeCall(Decoder &decoder) {
  decoder.ignore({"uni"});
  decoder.expectOperands(1, 3);
  const OperandSyntax *results = nullptr, *arguments = nullptr;
  size_t index = 0;
  auto isList = [&](size_t i) {
    return i < decoder.operandCount() &&
           decoder.operand(i).form == OperandSyntax::Form::List;
  };
  if (isList(index))
    results = &decoder.operand(index++);
  std::string_view name = decoder.operand(index++).name;
  if (isList(index))
    arguments = &decoder.operand(index++);
  if (index != decoder.operandCount())
    decoder.reject("expected a direct call");
  const FunctionSyntax *callee = decoder.builder.findFunction(name);
  if (!callee || !callee->isDefined || callee->isEntry)
    decoder.reject("expected a function that the module defines, got '" +
                   std::string(name) + "'");
  decoder.builder.inlineCall(decoder.instruction, *callee, results, arguments);
}

void decodeTrap(Decoder &decoder) {
  decoder.expectOperands(0);
  decoder.instruction.execute = [](Warp &warp, const Instruction &instruction,
                                   LaneMask mask) {
    fail(warp, instruction, static_cast<unsigned>(std::countr_zero(mask)),
         FaultCode::LaunchFailed, "expected no trap, got one");
  };
}

void fence(Warp &warp, const Instruction &, LaneMask) {
  warp.block->order.fence(warp.index);
}

void decodeFence(Decoder &decoder) {
  decoder.ignore({"sc", "acq_rel", "acquire", "release"});
  // One for the block alone orders no blocks.
  if (!decoder.take("cta"))
    decoder.builder.result().hasFences = true;
  decoder.builder.result().hasThreadFences = true;
  decoder.ignore({"gl", "sys", "gpu", "cluster"});
  decoder.expectOperands(0);
  decoder.instruction.execute = fence;
}

void decodeNanosleep(Decoder &decoder) {
  decoder.expectType();
  decoder.expectOperands(1);
  decoder.source(0, Type::U32);
  decoder.instruction.execute = doNothing;
}

void waitForGrid(Warp &warp, const Instruction &, LaneMask mask) {
  warp.gridWaited |= mask;
  warp.block->hasGridWaited = true;
}

/// Launches of one stream run one after another here. What a kernel executes
/// before its wait sees parameters and shared memory alone, for an access to
/// global memory is a fault there: so it computes what it would if it had begun
/// before the kernel before.
void decodeGridDependency(Decoder &decoder) {
  if (decoder.builder.source().target < 90)
    decoder.reject("expected .target sm_90 or later");
  bool isWait = decoder.expectOneOf({"launch_dependents", "wait"}) == 1;
  decoder.expectOperands(0);
  decoder.instruction.execute = isWait ? waitForGrid : doNothing;
}

BarrierMode takeReduction(Decoder &decoder) {
  switch (decoder.expectOneOf({"popc", "and", "or"})) {
  case 0:
    return BarrierMode::CountTrue;
  case 1:
    return BarrierMode::AllTrue;
  default:
    return BarrierMode::AnyTrue;
  }
}

/// bar and barrier. Of `barrier`, only .aligned is for whole warps.
void decodeBarrier(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  bool isBar = decoder.syntax.opcode == "bar";
  if (decoder.take("warp")) {
    decodeWarpBarrier(decoder);
    return;
  }
  decoder.ignore({"cta"});
  unsigned kind = decoder.expectOneOf({"sync", "arrive", "red"});
  instruction.flag = decoder.take("aligned") || isBar;
  instruction.flow = Flow::Barrier;
  size_t first = 0;
  auto mode = kind == 1 ? BarrierMode::Arrive : BarrierMode::Synchronize;
  if (kind == 2) {
    mode = takeReduction(decoder);
    Type type = decoder.expectType();
    instruction.result = decoder.result(first++, type);
    decoder.expectOperands(3, 4);
    const OperandSyntax &last = decoder.operand(decoder.operandCount() - 1);
    if (last.isNegated)
      decoder.reject("expected a predicate without '!'");
    instruction.sources[2] = decoder.source(last, Type::Pred);
  }
  size_t most = first + (kind == 2 ? 3 : 2);
  decoder.expectOperands(first + 1, most);
  instruction.mode = static_cast<uint8_t>(mode);
  instruction.sources[0] = decoder.source(first, Type::B32);
  if (decoder.operandCount() == most) {
    instruction.sources[1] = decoder.source(first + 1, Type::B32);
    decoder.builder.result().hasPartialBarriers = true;
  } else if (kind == 1) {
    decoder.reject("expected a number of threads");
  }
}

constexpr Opcode opcodes[] = {
    {"bra", decodeBranch},          {"brx", decodeIndexedBranch},
    {"ret", decodeReturn},          {"exit", decodeExit},
    {"call", decodeCall},           {"trap", decodeTrap},
    {"membar", decodeFence},        {"fence", decodeFence},
    {"nanosleep", decodeNanosleep}, {"griddepcontrol", decodeGridDependency},
    {"bar", decodeBarrier},         {"barrier", decodeBarrier},
};

} // namespace

std::span<const Opcode> controlOpcodes() { return opcodes; }

} // namespace fsdp::emulator
