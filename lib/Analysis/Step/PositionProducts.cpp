//===- PositionProducts.cpp - Angles made of positions --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/PositionProducts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Tables of more elements are not looked at.
static constexpr int64_t kMaxTable = 1 << 16;

/// Whether @op computes each element of its result from those of its operands
/// at the same place, and keeps an error of theirs in its size.
static bool isArithmetic(Operation *op) {
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
             arith::NegFOp, arith::ExtFOp, arith::TruncFOp, arith::SelectOp,
             arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
             arith::MinNumFOp, math::AbsFOp>(op);
}

/// Whether an error of @op's operand is a relative one of its result, or worse.
static bool isSensitive(Operation *op) {
  return isa<math::SinOp, math::CosOp, math::TanOp, math::SincosOp, math::ExpOp,
             math::Exp2Op, math::ExpM1Op, math::PowFOp>(op);
}

/// Whether @op gives elements of its first operand other places.
static bool isMove(Operation *op) {
  return isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
             tensor::ExtractSliceOp, tensor::CastOp, tensor::PadOp>(op);
}

/// The op of linalg that has @block as its body and treats each element alone;
/// null where there is none.
static linalg::LinalgOp getElementwise(Block *block) {
  auto op = dyn_cast_or_null<linalg::LinalgOp>(block->getParentOp());
  return op && op.getBlock() == block && op.getNumReductionLoops() == 0
             ? op
             : linalg::LinalgOp();
}

/// What @value, an input's element in such a body or the result of such an op,
/// is one of; null for all else.
static Value getOrigin(Value value) {
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    linalg::LinalgOp op = getElementwise(arg.getOwner());
    OpOperand *operand = op ? op.getMatchingOpOperand(arg) : nullptr;
    return operand && op.isDpsInput(operand) ? operand->get() : Value();
  }
  Operation *op = value.getDefiningOp();
  if (isMove(op))
    return op->getOperand(0);
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  if (!linalgOp || !getElementwise(linalgOp.getBlock()))
    return {};
  return linalgOp.getBlock()->getTerminator()->getOperand(
      cast<OpResult>(value).getResultNumber());
}

/// The elements of @value's users that are those of @value.
static void appendCopies(Value value, SmallVectorImpl<Value> &copies) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isMove(user) || isa<tensor::InsertSliceOp, tensor::ConcatOp>(user))
      copies.push_back(user->getResult(0));
    else if (isa<linalg::YieldOp>(user)) {
      if (linalg::LinalgOp op = getElementwise(user->getBlock()))
        copies.push_back(op->getResult(use.getOperandNumber()));
    } else if (auto op = dyn_cast<linalg::LinalgOp>(user)) {
      if (getElementwise(op.getBlock()) && op.isDpsInput(&use))
        copies.push_back(op.getMatchingBlockArgument(&use));
    }
  }
}

/// Whether a function that is sensitive to errors reads what is computed from
/// @value by arithmetic.
static bool reachesSensitive(Value value) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  // Grows while it is walked.
  for (size_t i = 0; i < seen.size(); ++i) {
    SmallVector<Value> next;
    appendCopies(seen[i], next);
    for (Operation *user : seen[i].getUsers()) {
      if (isSensitive(user))
        return true;
      if (isArithmetic(user))
        llvm::append_range(next, user->getResults());
    }
    seen.insert_range(next);
  }
  return false;
}

/// The tensors that @op, a contraction or a convolution of floats, multiplies.
static SmallVector<Value> getFactors(Operation *op) {
  auto product = dyn_cast<linalg::LinalgOp>(op);
  if (!product || product.getNumDpsInputs() != 2 ||
      product->getNumResults() != 1 || product.getNumReductionLoops() == 0 ||
      (!linalg::isaContractionOpInterface(product) &&
       !linalg::isaConvolutionOpInterface(product)))
    return {};
  return product.getDpsInputs();
}

PositionProducts::PositionProducts(Operation *root, FloatType type)
    : precision(APFloat::semanticsPrecision(type.getFloatSemantics())),
      width(type.getWidth()) {
  root->walk([&](Operation *op) {
    // In the order of the program: what operands are is known by then, and
    // nothing recurs deeply.
    for (Value result : op->getResults())
      evaluate(result);
    SmallVector<Value> factors = getFactors(op);
    if (isa<arith::MulFOp, arith::DivFOp>(op))
      llvm::append_range(factors, op->getOperands());
    if (factors.empty())
      return;
    // Only the dividend of a division.
    for (unsigned i : {0, 1})
      if ((i == 0 || !isa<arith::DivFOp>(op)) && isPosition(factors[i]) &&
          evaluate(factors[1 - i]) == Kind::Other) {
        if (reachesSensitive(op->getResult(0)))
          products.push_back({op, factors[1 - i]});
        return;
      }
  });
}

/// Of arithmetic with these operands.
PositionProducts::Kind PositionProducts::join(ValueRange values) {
  Kind kind = Kind::Constant;
  for (Value value : values) {
    Kind other = evaluate(value);
    if (other == Kind::Other)
      return Kind::Other;
    if (other == Kind::Position)
      kind = Kind::Position;
  }
  return kind;
}

PositionProducts::Kind PositionProducts::evaluate(Value value) {
  auto known = kinds.find(value);
  if (known != kinds.end())
    return known->second;
  Kind kind = Kind::Other;
  if (Value origin = getOrigin(value))
    kind = evaluate(origin);
  else if (auto result = dyn_cast<OpResult>(value))
    kind = evaluateOp(result);
  return kinds[value] = kind;
}

PositionProducts::Kind PositionProducts::evaluateOp(OpResult value) {
  Operation *op = value.getOwner();
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op)) {
    Value integer = op->getOperand(0);
    while (isa_and_nonnull<arith::ExtUIOp, arith::ExtSIOp>(
        integer.getDefiningOp()))
      integer = integer.getDefiningOp()->getOperand(0);
    if (matchPattern(integer, m_Constant()))
      return Kind::Constant;
    return getElementTypeOrSelf(integer).getIntOrFloatBitWidth() > precision
               ? Kind::Position
               : Kind::Other;
  }
  // Of a value that was rounded so by the trace, more cannot be kept.
  if (isa<arith::TruncFOp>(op) &&
      getElementTypeOrSelf(value).getIntOrFloatBitWidth() <= width)
    return Kind::Other;
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return join({select.getTrueValue(), select.getFalseValue()});
  if (isArithmetic(op))
    return join(op->getOperands());
  Attribute attr;
  if (!matchPattern(op, m_Constant(&attr)))
    return Kind::Other;
  // A table of integers.
  auto table = dyn_cast<DenseFPElementsAttr>(attr);
  if (!table || table.isSplat() || table.getNumElements() > kMaxTable ||
      !llvm::all_of(table.getValues<APFloat>(),
                    [](const APFloat &x) { return x.isInteger(); }))
    return Kind::Constant;
  return llvm::any_of(
             table.getValues<APFloat>(),
             [&](const APFloat &x) { return ilogb(x) >= int(precision); })
             ? Kind::Position
             : Kind::Constant;
}

SmallVector<BlockArgument> PositionProducts::getSources(Value factor,
                                                        Block *block) {
  SmallVector<BlockArgument> sources;
  llvm::SetVector<Value> seen;
  seen.insert(factor);
  for (size_t i = 0; i < seen.size(); ++i) {
    Value value = seen[i];
    auto arg = dyn_cast<BlockArgument>(value);
    if (Value origin = getOrigin(value))
      seen.insert(origin);
    else if (arg && arg.getOwner() == block)
      sources.push_back(arg);
    else if (!arg && isArithmetic(value.getDefiningOp()))
      seen.insert_range(value.getDefiningOp()->getOperands());
  }
  return sources;
}
