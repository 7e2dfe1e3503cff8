//===- StepUnits.cpp - Which unit an op works for -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Assigns each op of a step the flat parameter that it works for: from the
// shards that the step reads on to gathers and kernels, then from the updates
// back to reductions and what they send.
//
//===----------------------------------------------------------------------===//

#include "StepUnits.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {
class UnitFinder {
public:
  UnitFinder(ProgramOp step, const ProgramStates &states) : states(states) {
    step.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op != step)
        ops.push_back(op);
    });
  }

  StepUnits run();

private:
  Id getUnit(StringRef name);
  Id getShardUnit(Value value);
  Id getReadUnit(Operation *op, Value operand);
  void assign(Operation *op, Id unit) {
    if (unit >= 0)
      result.ofOps.try_emplace(op, unit);
  }
  void assignReaders();
  void assignCopy(Operation *op);
  void assignReductions();
  void assignStarts();

  const ProgramStates &states;
  SmallVector<Operation *> ops;
  llvm::StringMap<Id> ids;
  StepUnits result;
};
} // namespace

Id UnitFinder::getUnit(StringRef name) {
  auto [it, isNew] = ids.try_emplace(name, result.names.size());
  if (isNew)
    result.names.push_back(name.str());
  return it->second;
}

/// The unit whose shard the argument @value is, or a copy of it from the host;
/// -1 for other values.
Id UnitFinder::getShardUnit(Value value) {
  if (auto copy = value.getDefiningOp<ReloadOp>())
    value = copy.getInput();
  auto arg = dyn_cast<BlockArgument>(value);
  auto shard = arg ? states.getShard(arg.getArgNumber()) : FlatSymbolRefAttr();
  return shard ? getUnit(shard.getValue()) : -1;
}

/// The unit that @op, a launch or a collective, reads as @operand.
Id UnitFinder::getReadUnit(Operation *op, Value operand) {
  Value whole = getWholeValue(operand);
  if (auto gather = whole.getDefiningOp<AllGatherOp>())
    return result.lookup(gather);
  // The cast before a gather.
  if (auto cast = whole.getDefiningOp<LaunchOp>(); cast && isa<AllGatherOp>(op))
    return result.lookup(cast);
  // What stays gathered.
  if (auto arg = dyn_cast<BlockArgument>(whole))
    if (auto flat = states.getParameter(arg.getArgNumber()))
      return getUnit(flat.getValue());
  return getShardUnit(whole);
}

/// A copy between the arenas works for what made the value, or for the state
/// that it copies.
void UnitFinder::assignCopy(Operation *op) {
  Value copied = getWholeValue(op->getOperand(0));
  if (Operation *maker = copied.getDefiningOp())
    return assign(op, result.lookup(maker));
  StateOp state = states.getRead(cast<BlockArgument>(copied).getArgNumber());
  if (state && state.getFlatParam())
    assign(op, getUnit(*state.getFlatParam()));
}

void UnitFinder::assignReaders() {
  for (Operation *op : ops) {
    if (isa<LaunchOp>(op))
      for (Value operand : op->getOperands())
        assign(op, getShardUnit(operand));
    if (isa<LaunchOp, CollectiveOpInterface>(op))
      for (Value operand : op->getOperands())
        assign(op, getReadUnit(op, operand));
    if (isa<OffloadOp, ReloadOp>(op))
      assignCopy(op);
  }
}

/// Whether @op is a kernel of what a reduction brought without adding it up.
static bool addsTerms(Operation *op) {
  return isa<LaunchOp>(op) && llvm::any_of(op->getOperands(), [](Value value) {
           Operation *def = getWholeValue(value).getDefiningOp();
           return def && isReduction(def) &&
                  getShape(cast<TransferOpInterface>(def).getKind()).work ==
                      ElementWork::Copies;
         });
}

/// What a reduction sends, and the kernel that adds up what it brought, work
/// for the unit of what reads the result: backwards, so that a chain of
/// reductions hands its unit up.
void UnitFinder::assignReductions() {
  for (Operation *reader : llvm::reverse(ops)) {
    if (!isa<LaunchOp>(reader) && !isReduction(reader))
      continue;
    for (Value operand : reader->getOperands())
      if (Operation *def = getWholeValue(operand).getDefiningOp();
          def && (isa<PackOp>(def) || isReduction(def) || addsTerms(def)))
        assign(def, result.lookup(reader));
  }
}

void UnitFinder::assignStarts() {
  for (Operation *op : ops)
    if (auto start = dyn_cast<StartOp>(op))
      assign(start, result.lookup(&*start.getTransfers().begin()));
}

StepUnits UnitFinder::run() {
  assignReaders();
  assignReductions();
  assignStarts();
  return std::move(result);
}

StepUnits fsdp::findUnits(ProgramOp step, const ProgramStates &states) {
  return UnitFinder(step, states).run();
}

std::vector<std::vector<std::string>>
fsdp::getUnitMembers(ProgramOp step, const StepUnits &units) {
  llvm::StringMap<FlatParamOp> flats;
  for (auto flat : step->getParentOfType<ModuleOp>().getOps<FlatParamOp>())
    flats[flat.getSymName()] = flat;
  std::vector<std::vector<std::string>> members(units.names.size());
  for (auto [unit, list] : llvm::zip_equal(units.names, members))
    if (FlatParamOp flat = flats.lookup(unit))
      for (auto member : flat.getMembers().getAsRange<MemberAttr>())
        list.push_back(member.getFqn().getValue().str());
  return members;
}
