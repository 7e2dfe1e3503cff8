//===- HostStates.cpp - States that move to the host's memory -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostStates.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Passes/ArenaPlaces.h"

using namespace mlir;
using namespace mlir::fsdp;

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

/// One in a region reads where the region's op stands.
static Readers getReaders(BlockArgument arg) {
  llvm::SetVector<Operation *> readers;
  for (Operation *user : arg.getUsers())
    if (Operation *reader = arg.getOwner()->findAncestorOpInBlock(*user);
        !isa<fsdp::ReturnOp>(reader))
      readers.insert(reader);
  Readers sorted = readers.takeVector();
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sorted;
}

/// @arg becomes a value on the host, of which each of @copies finds one on the
/// device.
static void reload(BlockArgument arg, HostType type, ArrayRef<Readers> copies) {
  auto device = cast<RankedTensorType>(arg.getType());
  arg.setType(type);
  for (const Readers &readers : copies) {
    OpBuilder builder(readers.front());
    auto copy =
        ReloadOp::create(builder, readers.front()->getLoc(), device, arg);
    for (Operation *reader : readers)
      reader->walk(
          [&](Operation *op) { op->replaceUsesOfWith(arg, copy.getResult()); });
  }
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

static void moveStates(ProgramOp program, const Offloaded &offloaded,
                       ChooseCopies chooseCopies) {
  fsdp::ReturnOp ret = program.getReturn();
  // Before any type changes.
  SmallVector<std::pair<BlockArgument, SmallVector<Readers>>> copies;
  for (BlockArgument arg : program.getArguments())
    if (offloaded.contains(program.getReadState(arg.getArgNumber()))) {
      Readers readers = getReaders(arg);
      copies.push_back({arg, readers.empty()
                                 ? SmallVector<Readers>()
                                 : chooseCopies(program, arg, readers)});
    }
  for (auto &[arg, readers] : copies)
    reload(arg, offloaded.lookup(program.getReadState(arg.getArgNumber())),
           readers);
  for (OpOperand &use : ret->getOpOperands())
    if (HostType type =
            offloaded.lookup(program.getWrittenState(use.getOperandNumber())))
      offload(use, type);
  program.setFunctionType(FunctionType::get(
      program.getContext(), program.getBody().getArgumentTypes(),
      ret->getOperandTypes()));
  removeArenaPlaces(program);
}

bool fsdp::isOffloaded(StateOp state, HostPart part, bool isUsual) {
  auto flat = SymbolTable::lookupNearestSymbolFrom<FlatParamOp>(
      state, state.getFlatParamAttr());
  std::optional<HostPart> own = flat ? flat.getOffload() : std::nullopt;
  return own ? *own == part || *own == HostPart::all : isUsual;
}

LogicalResult fsdp::moveToHost(ModuleOp module, ArrayRef<StateOp> states,
                               ChooseCopies chooseCopies, bool &isChanged) {
  Offloaded offloaded;
  for (StateOp state : states) {
    if (isa<HostType>(state.getType()))
      continue;
    auto type = dyn_cast<RankedTensorType>(state.getType());
    if (!type)
      return state.emitOpError("expected a local tensor (run "
                               "convert-fsdp-logical-to-collectives first), "
                               "got ")
             << state.getType();
    offloaded[FlatSymbolRefAttr::get(state)] =
        HostType::get(type.getContext(), type);
  }
  isChanged = !offloaded.empty();
  if (!isChanged)
    return success();
  for (auto program : module.getOps<ProgramOp>()) {
    if (failed(checkReturned(program, offloaded)) ||
        failed(checkComputed(program, offloaded)))
      return failure();
    moveStates(program, offloaded, chooseCopies);
  }
  for (auto state : module.getOps<StateOp>()) {
    state.removeOffsetAttr();
    if (HostType type = offloaded.lookup(FlatSymbolRefAttr::get(state)))
      state.setType(type);
  }
  return success();
}
