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
// With narrow parameters a trace widens a product and its bias, adds them in
// f32 and rounds the sum where the next product reads it. That is an addition
// in the narrow type, bit for bit, and becomes one before, where nobody reads
// the sum in f32.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/Contraction.h"
#include "fsdp/Analysis/Kernels/StepGraph.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

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

/// What @value is made of by a loop op that converts each element, and does
/// nothing else; null where it is not.
template <typename ConversionOp>
static Value getConverted(Value value) {
  auto op = value.getDefiningOp<linalg::GenericOp>();
  if (!op || op.getInputs().size() != 1 || op.getOutputs().size() != 1 ||
      !isPointwise(op) ||
      !llvm::all_of(op.getIndexingMapsArray(),
                    [](AffineMap map) { return map.isIdentity(); }))
    return {};
  Block *body = op.getBlock();
  auto conversion =
      body->getTerminator()->getOperand(0).getDefiningOp<ConversionOp>();
  return conversion && conversion.getIn() == body->getArgument(0)
             ? op.getInputs().front()
             : Value();
}

/// Makes an addition in the narrow type of @rounding where it rounds the sum of
/// a product and a bias that are widened before, which nothing else reads.
static void narrowAddition(linalg::GenericOp rounding,
                           const llvm::DenseSet<Value> &products) {
  Value sum = rounding->getNumResults() == 1
                  ? getConverted<arith::TruncFOp>(rounding->getResult(0))
                  : Value();
  auto add = sum && sum.hasOneUse() ? sum.getDefiningOp<linalg::GenericOp>()
                                    : linalg::GenericOp();
  if (!add)
    return;
  for (Value wide : add.getInputs()) {
    std::optional<EpilogueAddition> addition = getEpilogueAddition(add, wide);
    if (!addition || !addition->isBias)
      continue;
    Value product = getConverted<arith::ExtFOp>(wide),
          bias = getConverted<arith::ExtFOp>(addition->other);
    auto type = cast<RankedTensorType>(rounding->getResult(0).getType());
    if (!product || !bias || !products.contains(lookThroughReshapes(product)) ||
        getElementTypeOrSelf(product) != type.getElementType() ||
        getElementTypeOrSelf(bias) != type.getElementType())
      continue;
    OpBuilder builder(rounding);
    Location loc = add.getLoc();
    bool isFirst = add.getInputs().front() == wide;
    SmallVector<Value> inputs = {product, bias};
    if (!isFirst)
      std::swap(inputs[0], inputs[1]);
    Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                          type.getElementType());
    auto narrow = linalg::GenericOp::create(
        builder, loc, type, inputs, empty, add.getIndexingMapsArray(),
        add.getIteratorTypesArray(),
        [&](OpBuilder &inner, Location, ValueRange args) {
          Type wideType = getElementTypeOrSelf(sum);
          Value lhs = arith::ExtFOp::create(inner, loc, wideType, args[0]);
          Value rhs = arith::ExtFOp::create(inner, loc, wideType, args[1]);
          Value both = arith::AddFOp::create(inner, loc, lhs, rhs);
          Value result =
              arith::TruncFOp::create(inner, loc, type.getElementType(), both);
          linalg::YieldOp::create(inner, loc, result);
        });
    rounding->replaceAllUsesWith(narrow);
    rounding->erase();
    return;
  }
}

/// The products of @block, where a rounding follows them: as that leaves them.
static llvm::DenseSet<Value> getProducts(Block &block) {
  ContractionPlans plans(&block);
  llvm::DenseSet<Value> products;
  for (Operation &op : block)
    if (const ContractionPlan *plan = plans.lookup(&op))
      products.insert(lookThroughReshapes(plan->result));
  return products;
}

namespace {
struct FuseEpilogues : fsdp::impl::FuseEpiloguesBase<FuseEpilogues> {
  void runOnOperation() override {
    ProgramOp step = getOperation();
    Block &block = step.getBody().front();
    Operation *loss = getForwardEnd(step);
    llvm::DenseSet<Value> products = getProducts(block);
    for (auto op :
         llvm::make_early_inc_range(block.getOps<linalg::GenericOp>()))
      narrowAddition(op, products);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
    SmallVector<Operation *> marked;
    ContractionPlans plans(&block);
    for (Operation &op : block)
      if (const ContractionPlan *plan = plans.lookup(&op))
        llvm::append_range(marked, getCandidates(*plan, loss));
    if (marked.empty())
      return;
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
