//===- RecomputeActivations.cpp - Backward computes values again ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MarkedResults.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/ArenaPlaces.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/IR/IRMapping.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_RECOMPUTEACTIVATIONS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

namespace {
/// Repeats launches where backward first reads what they make.
class Repeater {
public:
  Repeater(Block &block, Operation *loss, const llvm::SetVector<Value> &marked);

  void run();
  /// Whether backward now reads something else than @value.
  bool isRepeated(Value value) const { return replacement.contains(value); }

private:
  Value resolve(Value value, Operation *reader);
  void repeat(LaunchOp launch, Operation *reader);
  LaunchOp prepare(LaunchOp launch, Operation *reader);
  void clone(LaunchOp launch, Operation *reader);
  Value getGathered(AllGatherOp gather, Operation *reader);

  Block &block;
  Operation *loss;
  const llvm::SetVector<Value> &marked;
  /// What backward reads instead of a value of forward.
  IRMapping replacement;
  llvm::DenseMap<Operation *, LaunchOp> clones;
  /// By gather of forward: that of backward.
  llvm::DenseMap<Operation *, AllGatherOp> later;
};
} // namespace

Repeater::Repeater(Block &block, Operation *loss,
                   const llvm::SetVector<Value> &marked)
    : block(block), loss(loss), marked(marked) {
  for (auto gather : block.getOps<AllGatherOp>())
    if (loss->isBeforeInBlock(gather))
      if (AllGatherOp earlier = getEarlierGather(gather);
          earlier && earlier->isBeforeInBlock(loss))
        later.try_emplace(earlier, gather);
}

/// Forward's gather is gone when backward runs; backward's own one may have to
/// come earlier than it did.
Value Repeater::getGathered(AllGatherOp gather, Operation *reader) {
  auto it = later.find(gather);
  if (it == later.end())
    return gather.getResult();
  AllGatherOp again = it->second;
  // With the cast and the copy from the host that it waits for.
  SmallVector<Operation *> chain;
  Operation *op = again;
  for (; op && !op->isBeforeInBlock(reader);
       op = op->getOperand(0).getDefiningOp())
    chain.push_back(op);
  for (Operation *moved : llvm::reverse(chain))
    moved->moveBefore(reader);
  return again.getResult();
}

/// @view of @whole, made of @again instead, before @reader.
static Value cloneViewsOf(Value whole, Value view, Value again,
                          Operation *reader) {
  OpBuilder builder(reader);
  IRMapping views;
  views.map(whole, again);
  return cloneViews(view, builder, views);
}

/// Has what @launch reads gathered before @reader, up to where it reads what
/// has to be repeated first: returns the launch that makes that, or null.
LaunchOp Repeater::prepare(LaunchOp launch, Operation *reader) {
  for (Value operand : launch.getInputs()) {
    Value whole = getWholeValue(operand);
    if (auto gather = whole.getDefiningOp<AllGatherOp>())
      getGathered(gather, reader);
    else if (marked.contains(whole) && !clones.contains(whole.getDefiningOp()))
      return whole.getDefiningOp<LaunchOp>();
  }
  return nullptr;
}

/// With what it needs before it, which may be a chain as long as forward.
void Repeater::repeat(LaunchOp launch, Operation *reader) {
  SmallVector<LaunchOp> work = {launch};
  while (!work.empty()) {
    LaunchOp first =
        clones.contains(work.back()) ? nullptr : prepare(work.back(), reader);
    if (first) {
      work.push_back(first);
      continue;
    }
    if (LaunchOp ready = work.pop_back_val(); !clones.contains(ready))
      clone(ready, reader);
  }
}

void Repeater::clone(LaunchOp launch, Operation *reader) {
  IRMapping operands;
  for (Value operand : launch.getInputs()) {
    Value whole = getWholeValue(operand);
    auto gather = whole.getDefiningOp<AllGatherOp>();
    Value again = gather ? getGathered(gather, reader) : resolve(whole, reader);
    operands.map(operand, again == whole
                              ? operand
                              : cloneViewsOf(whole, operand, again, reader));
  }
  OpBuilder builder(reader);
  auto clone = cast<LaunchOp>(builder.clone(*launch, operands));
  clone->removeAttr(names::kRecompute);
  // What goes to the host is what forward made.
  clone->removeAttr(names::kOffload);
  clones[launch] = clone;
  for (auto [old, again] : llvm::zip(launch->getResults(), clone->getResults()))
    if (marked.contains(old))
      replacement.map(old, again);
}

/// What @reader, of backward, reads where it read @value, which is no view.
Value Repeater::resolve(Value value, Operation *reader) {
  if (marked.contains(value))
    repeat(value.getDefiningOp<LaunchOp>(), reader);
  return replacement.lookupOrDefault(value);
}

void Repeater::run() {
  SmallVector<Operation *> backward;
  for (Operation *op = loss->getNextNode(); op; op = op->getNextNode())
    backward.push_back(op);
  for (Operation *op : backward) {
    // Read through when somebody reads it: a view alone needs nothing.
    if (isView(op))
      continue;
    for (OpOperand &operand : op->getOpOperands()) {
      Value whole = getWholeValue(operand.get());
      if (!marked.contains(whole))
        continue;
      operand.set(cloneViewsOf(whole, operand.get(), resolve(whole, op), op));
    }
  }
  // What only backward read is moved, not repeated.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (op.use_empty() && (isView(&op) || clones.contains(&op)))
      op.erase();
}

namespace {
struct RecomputeActivations
    : fsdp::impl::RecomputeActivationsBase<RecomputeActivations> {
  void runOnOperation() override {
    ProgramOp step = getOperation();
    Block &block = step.getBody().front();
    Operation *loss = getLossOp(step);
    auto marked = getMarkedResults(block, loss, names::kRecompute);
    if (failed(marked))
      return signalPassFailure();
    // What checkpoints ask is among what is marked.
    for (Operation &op : block)
      op.removeAttr(names::kCheckpoint);
    if (marked->empty())
      return markAllAnalysesPreserved();
    Repeater repeater(block, loss, *marked);
    repeater.run();
    for (Value value : *marked)
      if (!repeater.isRepeated(value))
        value.getDefiningOp()->emitWarning()
            << names::kRecompute << " has no effect: backward does not read "
            << "result " << cast<OpResult>(value).getResultNumber();
    for (Operation &op : block)
      op.removeAttr(names::kRecompute);
    removeArenaPlaces(step);
  }
};
} // namespace
