//===- OffloadOptimizer.cpp - Optimizer states wait on the host -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Passes/ArenaPlaces.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_OFFLOADOPTIMIZER
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Decision
//===----------------------------------------------------------------------===//

/// Those of a flat parameter. What all flat parameters share is a number that
/// is read more often than it is large.
static SmallVector<StateOp> getOffloaded(ModuleOp module) {
  return llvm::filter_to_vector(module.getOps<StateOp>(), [](StateOp state) {
    return state.getKind() == StateKind::optimizer && state.getFlatParamAttr();
  });
}

/// By name: the type on the host.
using Offloaded = llvm::SmallDenseMap<Attribute, HostType>;

/// offload_optimizer_c2: what @program returns without computing it, and is on
/// the host or is to be, is the value that the same state had.
static LogicalResult checkReturned(ProgramOp program,
                                   const Offloaded &offloaded) {
  for (OpOperand &use : program.getReturn()->getOpOperands()) {
    unsigned i = use.getOperandNumber();
    auto arg = dyn_cast<BlockArgument>(use.get());
    FlatSymbolRefAttr written = program.getWrittenState(i);
    FlatSymbolRefAttr read =
        arg ? program.getReadState(arg.getArgNumber()) : written;
    if (read != written &&
        (offloaded.contains(read) || offloaded.contains(written)))
      return program.emitOpError("expected result ")
             << i << " to be computed, or the value that its state had, got "
             << "argument " << arg.getArgNumber();
  }
  return success();
}

/// Whether a launch makes @value, of @arg.
static bool isComputedOf(Value value, BlockArgument arg) {
  Value made = getWholeValue(value);
  return made.getDefiningOp<LaunchOp>() &&
         llvm::any_of(arg.getUsers(),
                      [&](Operation *user) { return dependsOn(made, user); });
}

/// offload_optimizer_c3
static LogicalResult checkComputed(ProgramOp program,
                                   const Offloaded &offloaded) {
  for (auto [result, arg] : getReplacedArguments(program)) {
    FlatSymbolRefAttr state = program.getWrittenState(result);
    Value value = program.getReturn().getOperand(result);
    if (!offloaded.contains(state) || value == arg || isComputedOf(value, arg))
      continue;
    InFlightDiagnostic diag =
        program.emitOpError("expected a launch that computes the new value of ")
        << state << " of the old one, to keep it in the host's memory";
    diag.attachNote(value.getLoc()) << "the new value is here";
    return diag;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

/// @arg becomes a value on the host, which the first op that reads it on the
/// device finds there.
static void reload(BlockArgument arg, HostType type) {
  auto device = cast<RankedTensorType>(arg.getType());
  Operation *first = nullptr;
  for (Operation *reader : arg.getUsers())
    // One in a region reads where the region's op stands.
    if (Operation *user = arg.getOwner()->findAncestorOpInBlock(*reader);
        !isa<fsdp::ReturnOp>(user) && (!first || user->isBeforeInBlock(first)))
      first = user;
  arg.setType(type);
  if (!first)
    return;
  OpBuilder builder(first);
  auto copy = ReloadOp::create(builder, first->getLoc(), device, arg);
  arg.replaceUsesWithIf(copy.getResult(), [&](OpOperand &use) {
    return use.getOwner() != copy && !isa<fsdp::ReturnOp>(use.getOwner());
  });
}

/// What @use returns is copied to the host after the op that makes it.
static void offload(OpOperand &use, HostType type) {
  if (use.get().getType() == type)
    return;
  Operation *maker = use.get().getDefiningOp();
  OpBuilder builder(maker->getContext());
  builder.setInsertionPointAfter(maker);
  use.set(OffloadOp::create(builder, maker->getLoc(), type, use.get()));
}

static void moveStates(ProgramOp program, const Offloaded &offloaded) {
  fsdp::ReturnOp ret = program.getReturn();
  for (BlockArgument arg : program.getArguments())
    if (HostType type =
            offloaded.lookup(program.getReadState(arg.getArgNumber())))
      reload(arg, type);
  for (OpOperand &use : ret->getOpOperands())
    if (HostType type =
            offloaded.lookup(program.getWrittenState(use.getOperandNumber())))
      offload(use, type);
  program.setFunctionType(FunctionType::get(
      program.getContext(), program.getBody().getArgumentTypes(),
      ret->getOperandTypes()));
  removeArenaPlaces(program);
}

namespace {
struct OffloadOptimizer : fsdp::impl::OffloadOptimizerBase<OffloadOptimizer> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<StateOp> states = getOffloaded(module);
    // offload_optimizer_c1
    if (states.empty()) {
      module.emitError("expected an optimizer with a state for each element of "
                       "a parameter, to be in the host's memory, got none");
      return signalPassFailure();
    }
    Offloaded offloaded;
    for (StateOp state : states) {
      if (isa<HostType>(state.getType()))
        continue;
      auto type = dyn_cast<RankedTensorType>(state.getType());
      if (!type) {
        state.emitOpError("expected a local tensor (run "
                          "convert-fsdp-logical-to-collectives first), got ")
            << state.getType();
        return signalPassFailure();
      }
      offloaded[FlatSymbolRefAttr::get(state)] =
          HostType::get(type.getContext(), type);
    }
    if (offloaded.empty())
      return markAllAnalysesPreserved();
    for (auto program : module.getOps<ProgramOp>()) {
      if (failed(checkReturned(program, offloaded)) ||
          failed(checkComputed(program, offloaded)))
        return signalPassFailure();
      moveStates(program, offloaded);
    }
    for (auto state : module.getOps<StateOp>()) {
      state.removeOffsetAttr();
      if (HostType type = offloaded.lookup(FlatSymbolRefAttr::get(state)))
        state.setType(type);
    }
  }
};
} // namespace
