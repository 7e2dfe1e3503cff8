//===- FuseEpilogues.cpp - Products that add before they write ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuBLASLt multiplies, adds a bias and a matrix, and rounds the sum once:
//
//     D = A B + bias + C
//
// A bias added to a product, and the residual stream that its result is added
// to, need no kernel that reads and writes them again. Such additions get
// `fsdp.epilogue`; ContractionPlans makes them part of the product. In f32 that
// computes what the trace says. In narrower types the product and the sums of
// the trace are rounded, and here their last sum alone is, as in PyTorch's
// linear layers on GPUs (aten::addmm).
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/Contraction.h"
#include "fsdp/Analysis/Kernels/StepGraph.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_FUSEEPILOGUES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

/// Whether @op stands before @loss, or is it: all ops of backward stand after
/// it. An op that only backward reads may stand before it, too.
static bool isForward(Operation *op, Operation *loss) {
  return !loss || op == loss || op->isBeforeInBlock(loss);
}

/// Whether @op reads what @of makes, through any ops between the two.
static bool dependsOn(Operation *op, Operation *of) {
  llvm::SmallDenseSet<Operation *, 32> seen;
  SmallVector<Operation *> worklist{op};
  while (!worklist.empty())
    for (Value read : getReadValues(worklist.pop_back_val())) {
      Operation *def = read.getDefiningOp();
      if (def == of)
        return true;
      if (def && of->isBeforeInBlock(def) && seen.insert(def).second)
        worklist.push_back(def);
    }
  return false;
}

/// Whether a kernel before @product writes what @addition adds, with the
/// epilogue or without: so the epilogue adds no writes. Biases: parameters, and
/// results of reductions; an elementwise loop's could be fused with its reader.
/// Matrices: those that @product depends on.
static bool isWrittenAnyway(const EpilogueAddition &addition,
                            Operation *product) {
  Operation *op = lookThroughViews(addition.other).source.getDefiningOp();
  if (!op || isa<ViewOp>(op))
    return addition.isBias;
  if (addition.isBias)
    return getComputeKind(op) == ComputeKind::Reduction &&
           op->isBeforeInBlock(product);
  return dependsOn(product, op);
}

/// Whether the product of @plan has to wait for no other gather if it reads
/// @value.
static bool isOfItsUnit(Value value, const ContractionPlan &plan) {
  Value unit = getUnitOf(lookThroughViews(value).source);
  if (!unit)
    return true;
  return llvm::all_of(ArrayRef<Value>{plan.sourceA, plan.sourceB},
                      [&](Value factor) {
                        Value other = getUnitOf(factor);
                        return !other || other == unit;
                      });
}

//===----------------------------------------------------------------------===//
// Decision
//===----------------------------------------------------------------------===//

/// The additions to the result of @plan's product that could be its epilogue,
/// at most one of each kind, each the only reader of what it adds to.
static SmallVector<Operation *> getCandidates(const ContractionPlan &plan,
                                              Operation *loss) {
  SmallVector<Operation *> candidates;
  bool hasBias = false, hasAddend = false;
  Value value = plan.result;
  // PyTorch asks cuBLASLt for no epilogue of a vector, either.
  bool isMatrix = plan.shape.m > 1 && plan.shape.n > 1 && plan.shape.k > 1;
  while (plan.zeroInit && isMatrix && value.hasOneUse()) {
    Operation *reader = *value.user_begin();
    if (isReshape(reader)) {
      value = reader->getResult(0);
      continue;
    }
    std::optional<EpilogueAddition> addition =
        getEpilogueAddition(reader, value);
    if (!addition || isForward(reader, loss) != isForward(plan.op, loss) ||
        !isOfItsUnit(addition->other, plan) ||
        !isWrittenAnyway(*addition, plan.op) ||
        std::exchange(addition->isBias ? hasBias : hasAddend, true))
      break;
    candidates.push_back(reader);
    value = reader->getResult(0);
  }
  return candidates;
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

namespace {
struct FuseEpilogues : fsdp::impl::FuseEpiloguesBase<FuseEpilogues> {
  void runOnOperation() override {
    ProgramOp step = getOperation();
    Block &block = step.getBody().front();
    Operation *loss = getForwardEnd(step);
    SmallVector<Operation *> marked;
    ContractionPlans plans(&block);
    for (Operation &op : block)
      if (const ContractionPlan *plan = plans.lookup(&op))
        llvm::append_range(marked, getCandidates(*plan, loss));
    if (marked.empty())
      return markAllAnalysesPreserved();
    for (Operation *op : marked)
      op->setAttr(names::kEpilogue, UnitAttr::get(&getContext()));
    // What no stride describes stays an op of its own.
    llvm::DenseSet<Operation *> absorbed;
    ContractionPlans fused(&block);
    for (Operation &op : block)
      if (const ContractionPlan *plan = fused.lookup(&op))
        absorbed.insert(plan->absorbed.begin(), plan->absorbed.end());
    for (Operation *op : marked)
      if (!absorbed.contains(op))
        op->removeAttr(names::kEpilogue);
  }
};
} // namespace
