//===- StepStructure.cpp - Phases and parameter-only values ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::fsdp;

ProgramOp fsdp::getTrainProgram(ModuleOp module) {
  for (auto program : module.getOps<ProgramOp>())
    if (getTraits(program.getKind()).isStep)
      return program;
  return nullptr;
}

LogicalResult fsdp::expectUnscheduled(ProgramOp step) {
  auto starts = step.getOps<StartOp>();
  if (starts.empty())
    return success();
  return (*starts.begin())
      .emitOpError("expected a step that is not scheduled yet, got a transfer "
                   "on a queue");
}

/// Groups stay on transfers that stand beside each other, until they start.
static LogicalResult expectGroupsBesideEachOther(ProgramOp step) {
  llvm::DenseMap<int32_t, Operation *> last;
  for (Operation &op : step.getOps()) {
    std::optional<int32_t> number = getGroup(&op);
    if (!number)
      continue;
    Operation *&before = last[*number];
    if (before && before != op.getPrevNode()) {
      auto error = op.emitOpError("expected the collectives of ")
                   << names::kGroup << " " << *number
                   << " beside each other, got other ops between them (run "
                      "fsdp-group-collectives first)";
      error.attachNote(before->getLoc()) << "the one before it is here";
      return error;
    }
    before = &op;
  }
  return success();
}

LogicalResult fsdp::expectAppliedPlan(ProgramOp step) {
  constexpr std::pair<StringRef, StringRef> kAppliedBy[] = {
      {names::kKeep, "fsdp-keep-gathered"},
      {names::kCheckpoint, "fsdp-recompute-activations"},
      {names::kRecompute, "fsdp-recompute-activations"},
      {names::kOffload, "fsdp-offload-activations"}};
  WalkResult result = step.walk([&](Operation *op) {
    for (auto [name, pass] : kAppliedBy)
      if (op->hasAttr(name)) {
        op->emitOpError("expected a plan that has been applied, got ")
            << name << " (run " << pass << " first)";
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return success(!result.wasInterrupted() &&
                 succeeded(expectGroupsBesideEachOther(step)));
}

SmallVector<Value> fsdp::getReadValues(Operation *op) {
  llvm::SetVector<Value> values(op->operand_begin(), op->operand_end());
  if (op->getNumRegions() != 0)
    getUsedValuesDefinedAbove(op->getRegions(), values);
  return values.takeVector();
}

SmallVector<Operation *> fsdp::getReaders(Value value, Block *block) {
  llvm::SmallSetVector<Operation *, 4> readers;
  for (Operation *user : value.getUsers())
    if (Operation *ancestor = block->findAncestorOpInBlock(*user))
      readers.insert(ancestor);
  return readers.takeVector();
}

//===----------------------------------------------------------------------===//
// StepPhases
//===----------------------------------------------------------------------===//

StepPhases::StepPhases(Block *block, ArrayRef<Value> forwardRoots) {
  SmallVector<Value> worklist(forwardRoots);
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op || op->getBlock() != block || !forward.insert(op).second)
      continue;
    llvm::append_range(worklist, getReadValues(op));
  }
  // An assertion belongs where its condition is known.
  for (Operation &op : *block)
    if (op.getNumResults() == 0 && !op.hasTrait<OpTrait::IsTerminator>() &&
        llvm::all_of(getReadValues(&op), [&](Value value) {
          Operation *def = value.getDefiningOp();
          return !def || forward.contains(def) || isConstantValue(def);
        }))
      forward.insert(&op);
}

//===----------------------------------------------------------------------===//
// DerivedValues
//===----------------------------------------------------------------------===//

DerivedValues::DerivedValues(Block *block, ValueRange sources) {
  llvm::append_range(values, sources);
  derived.insert(sources.begin(), sources.end());
  // `values` grows while it is walked: each entry's readers are candidates.
  for (size_t i = 0; i < values.size(); ++i)
    for (Operation *op : getReaders(values[i], block)) {
      if (op->getNumResults() == 0 || derived.contains(op->getResult(0)) ||
          !isMemoryEffectFree(op) ||
          isa<CallOpInterface, AverageOp, ReduceGradOp>(op))
        continue;
      if (llvm::all_of(getReadValues(op), [&](Value value) {
            return derived.contains(value) || isConstant(value);
          })) {
        llvm::append_range(values, op->getResults());
        derived.insert(op->result_begin(), op->result_end());
      }
    }
}

bool DerivedValues::isConstant(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  auto [it, fresh] = constants.try_emplace(op, false);
  if (!fresh)
    return it->second;
  bool result = isMemoryEffectFree(op) &&
                llvm::all_of(getReadValues(op),
                             [&](Value read) { return isConstant(read); });
  return constants[op] = result;
}

//===----------------------------------------------------------------------===//
// Kinds of ops
//===----------------------------------------------------------------------===//

bool fsdp::isConstantValue(Operation *op) {
  if (op->hasTrait<OpTrait::ConstantLike>())
    return true;
  if (auto empty = dyn_cast<tensor::EmptyOp>(op))
    return empty.getDynamicSizes().empty();
  auto fill = dyn_cast<linalg::FillOp>(op);
  return fill && llvm::all_of(op->getOperands(), [](Value operand) {
           Operation *def = operand.getDefiningOp();
           return def && isConstantValue(def);
         });
}

/// Every loop parallel, one tensor read, and a body that at most casts.
static bool isMoveOrCast(linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 1 || op.getNumResults() != 1 ||
      op.getNumParallelLoops() != op.getNumLoops())
    return false;
  return llvm::all_of(op.getBody()->without_terminator(), [](Operation &inner) {
    return isa<CastOpInterface>(inner) && isMemoryEffectFree(&inner);
  });
}

bool fsdp::isViewOrCast(Operation *op) {
  if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
          tensor::ExtractSliceOp, tensor::CastOp, linalg::TransposeOp,
          linalg::BroadcastOp>(op))
    return true;
  // A cast of a whole tensor.
  if (isa<CastOpInterface>(op) && OpTrait::hasElementwiseMappableTraits(op))
    return true;
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic && isMoveOrCast(generic);
}
