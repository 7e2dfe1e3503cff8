//===- WidenAccumulators.cpp - Narrow floats add up in f32 ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelUtils.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Kernels/Accumulations.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/Contraction.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_WIDENACCUMULATORS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

static Value castNumber(OpBuilder &builder, Location loc, Value value,
                        FloatType to) {
  FloatAttr constant;
  if (matchPattern(value, m_Constant(&constant))) {
    APFloat number = constant.getValue();
    bool losesInfo;
    number.convert(to.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                   &losesInfo);
    return arith::ConstantOp::create(builder, loc,
                                     builder.getFloatAttr(to, number));
  }
  if (cast<FloatType>(value.getType()).getWidth() < to.getWidth())
    return arith::ExtFOp::create(builder, loc, to, value);
  return arith::TruncFOp::create(builder, loc, to, value);
}

/// @value, a float or a tensor of floats, in elements of type @to. What a
/// tensor is filled with is cast instead of the tensor.
static Value castFloat(OpBuilder &builder, Location loc, Value value,
                       FloatType to) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return castNumber(builder, loc, value, to);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, loc, value);
  Value empty = tensor::EmptyOp::create(builder, loc, sizes, to);
  if (value.getDefiningOp<tensor::EmptyOp>())
    return empty;
  if (TypedAttr splat = getSplatConstant(value)) {
    Value number = arith::ConstantOp::create(builder, loc, splat);
    return linalg::FillOp::create(builder, loc,
                                  castNumber(builder, loc, number, to), empty)
        .getResult(0);
  }
  AffineMap identity = builder.getMultiDimIdentityMap(type.getRank());
  SmallVector<utils::IteratorType> iterators(type.getRank(),
                                             utils::IteratorType::parallel);
  return linalg::GenericOp::create(
             builder, loc, empty.getType(), value, empty, {identity, identity},
             iterators,
             [&](OpBuilder &b, Location loc, ValueRange args) {
               linalg::YieldOp::create(b, loc, castNumber(b, loc, args[0], to));
             })
      .getResult(0);
}

namespace {
/// Gives one op's accumulators their types.
class Widener {
public:
  Widener(Operation *root, const AccumulatorTypes &types)
      : root(root), types(types),
        wideElement(Float32Type::get(root->getContext())) {}

  void apply() {
    collectUses();
    for (auto &[value, narrow] : types.getWide())
      Value(value).setType(withElementType(narrow, wideElement));
    for (OpOperand *use : toWiden) {
      OpBuilder builder(use->getOwner());
      use->set(castFloat(builder, use->getOwner()->getLoc(), use->get(),
                         wideElement));
    }
    for (OpOperand *use : toNarrow)
      use->set(getNarrow(use->get()));
    adaptCasts();
  }

private:
  /// Before types change: uses of narrow values that read wide ones, and the
  /// other way round. (Casts follow what they read: adaptCasts.)
  void collectUses() {
    auto collect = [&](OpOperand &use) {
      Value value = use.get();
      if (!isNarrowFloat(value.getType()) || isFloatCast(use.getOwner()))
        return;
      bool readsWide = types.readsWide(use);
      if (readsWide && !types.isWide(value))
        toWiden.push_back(&use);
      if (!readsWide && types.isWide(value))
        toNarrow.push_back(&use);
    };
    root->walk([&](Operation *op) {
      llvm::for_each(op->getOpOperands(), collect);
      if (isFloatCast(op))
        casts.push_back(op);
    });
    for (OpOperand &use : root->getUses())
      if (types.isWide(use.get()))
        toNarrow.push_back(&use);
  }

  /// @value, which is wide now, rounded, right after it is there.
  Value getNarrow(Value value) {
    Value &narrow = narrowed[value];
    if (narrow)
      return narrow;
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    auto element = cast<FloatType>(
        getElementTypeOrSelf(types.getWide().find(value)->second));
    narrow = castFloat(builder, value.getLoc(), value, element);
    return narrow;
  }

  /// Casts go between the types that their operands and results have now, to a
  /// wider or narrower one, or not at all.
  void adaptCasts() {
    auto getWidth = [](Value value) {
      return getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth();
    };
    for (Operation *op : casts) {
      Value in = op->getOperand(0), out = op->getResult(0);
      bool widens = getWidth(in) < getWidth(out);
      if (in.getType() != out.getType() && widens == isa<arith::ExtFOp>(op))
        continue;
      OpBuilder builder(op);
      if (in.getType() == out.getType())
        out.replaceAllUsesWith(in);
      else if (widens)
        out.replaceAllUsesWith(
            arith::ExtFOp::create(builder, op->getLoc(), out.getType(), in));
      else
        out.replaceAllUsesWith(
            arith::TruncFOp::create(builder, op->getLoc(), out.getType(), in));
      op->erase();
    }
  }

  Operation *root;
  const AccumulatorTypes &types;
  FloatType wideElement;
  SmallVector<OpOperand *> toWiden, toNarrow;
  SmallVector<Operation *> casts;
  llvm::DenseMap<Value, Value> narrowed;
};

struct WidenAccumulators
    : fsdp::impl::WidenAccumulatorsBase<WidenAccumulators> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    bool changed = false;
    for (auto step : module.getOps<ProgramOp>()) {
      // A BLAS adds in f32 whatever it reads and writes.
      Block &block = step.getBody().front();
      ContractionPlans plans(&block);
      changed |= widen(block, [&](Operation *op) { return plans.lookup(op); });
    }
    for (func::FuncOp kernel : getKernels(module))
      if (!hasImplementation(kernel))
        changed |=
            widen(kernel.getBody().front(), [](Operation *) { return false; });
    if (!changed)
      markAllAnalysesPreserved();
  }

private:
  static bool widen(Block &block,
                    llvm::function_ref<bool(Operation *)> addsInF32) {
    bool changed = false;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (op.getNumRegions() == 0 || isBoundary(&op) || addsInF32(&op))
        continue;
      AccumulatorTypes types(&op);
      if (types.empty())
        continue;
      Widener(&op, types).apply();
      changed = true;
    }
    return changed;
  }
};
} // namespace
