//===- ComputeOps.cpp - What kinds of work a step is made of --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Every result a loop of its own or the constant 0.
static bool isSimpleMap(AffineMap map) {
  return map.isProjectedPermutation(/*allowZeroInResults=*/true);
}

/// A scalar expression that an emitter can evaluate for several elements at
/// once.
static bool isExpressionOp(Operation &op) {
  if (isa<linalg::YieldOp, linalg::IndexOp>(op))
    return true;
  if (auto extract = dyn_cast<tensor::ExtractOp>(op))
    return cast<RankedTensorType>(extract.getTensor().getType())
        .hasStaticShape();
  return op.getNumRegions() == 0 && op.getNumResults() == 1 &&
         isMemoryEffectFree(&op) &&
         (op.hasTrait<OpTrait::ConstantLike>() ||
          OpTrait::hasElementwiseMappableTraits(&op)) &&
         llvm::all_of(op.getResultTypes(),
                      [](Type type) { return type.isIntOrIndexOrFloat(); });
}

Operation *fsdp::getCombiner(linalg::GenericOp op, unsigned i) {
  SmallVector<Operation *, 2> combiners;
  if (!matchReduction(op.getRegionOutputArgs(), i, combiners) ||
      combiners.size() != 1)
    return nullptr;
  Operation *combiner = combiners.front();
  return isa<arith::AddFOp, arith::AddIOp, arith::MulFOp, arith::MulIOp,
             arith::MaximumFOp, arith::MaxNumFOp, arith::MaxSIOp,
             arith::MaxUIOp, arith::MinimumFOp, arith::MinNumFOp,
             arith::MinSIOp, arith::MinUIOp, arith::AndIOp, arith::OrIOp,
             arith::XOrIOp>(combiner)
             ? combiner
             : nullptr;
}

/// Whether the body adds the product of two elements as they are, or of two in
/// bf16 or f16 as they are in f32. (Upstream also takes other functions of them
/// for a contraction.)
static bool isSumOfProducts(linalg::GenericOp op) {
  Block *body = op.getBody();
  if (op.getInputs().size() != 2 || op->getNumResults() != 1)
    return false;
  SmallVector<Operation *> ops;
  Value elements[] = {body->getArgument(0), body->getArgument(1)};
  for (Operation &inner : body->without_terminator()) {
    auto widening = dyn_cast<arith::ExtFOp>(inner);
    Value *element =
        widening ? llvm::find(elements, widening.getIn()) : std::end(elements);
    Type from = widening ? widening.getIn().getType() : Type();
    if (element != std::end(elements) && widening.getType().isF32() &&
        (from.isBF16() || from.isF16()))
      *element = widening;
    else
      ops.push_back(&inner);
  }
  bool isWidened = elements[0] != body->getArgument(0);
  if (ops.size() != 2 || isWidened != (elements[1] != body->getArgument(1)))
    return false;
  Operation *product = ops[0], *sum = ops[1];
  auto combines = [](Operation *op, Value a, Value b) {
    return op->getNumOperands() == 2 &&
           ((op->getOperand(0) == a && op->getOperand(1) == b) ||
            (op->getOperand(0) == b && op->getOperand(1) == a));
  };
  return ((isa<arith::MulFOp>(product) && isa<arith::AddFOp>(sum)) ||
          (isa<arith::MulIOp>(product) && isa<arith::AddIOp>(sum))) &&
         combines(product, elements[0], elements[1]) &&
         combines(sum, product->getResult(0), body->getArgument(2)) &&
         body->getTerminator()->getOperand(0) == sum->getResult(0);
}

/// As upstream's getIndexingMapMatchingResult and hasPureTensorSemantics, which
/// make an attribute of the operands' segments whenever they are asked.
static AffineMap getResultMap(linalg::GenericOp op, unsigned i) {
  return cast<AffineMapAttr>(op.getIndexingMaps()[op.getInputs().size() + i])
      .getValue();
}
static bool isStaticOnTensors(linalg::GenericOp op) {
  return op->getNumResults() != 0 &&
         op->getNumResults() == op.getOutputs().size() &&
         llvm::all_of(op->getOperandTypes(), [](Type type) {
           auto shaped = dyn_cast<ShapedType>(type);
           return !shaped ||
                  (isa<RankedTensorType>(type) && shaped.hasStaticShape());
         });
}

static bool isLoop(AffineExpr expr) { return isa<AffineDimExpr>(expr); }

static ComputeKind getGenericKind(linalg::GenericOp op) {
  if (!isStaticOnTensors(op) ||
      llvm::any_of(op.getIndexingMaps().getAsValueRange<AffineMapAttr>(),
                   [](AffineMap map) { return !isSimpleMap(map); }) ||
      llvm::any_of(*op.getBody(),
                   [](Operation &inner) { return !isExpressionOp(inner); }))
    return ComputeKind::Opaque;
  // All results live at the same points.
  AffineMap out = getResultMap(op, 0);
  for (unsigned i = 1, e = op->getNumResults(); i != e; ++i)
    if (AffineMap map = getResultMap(op, i);
        map != out &&
        !llvm::equal(llvm::make_filter_range(map.getResults(), isLoop),
                     llvm::make_filter_range(out.getResults(), isLoop)))
      return ComputeKind::Opaque;
  unsigned loops = out.getNumDims();
  llvm::SmallBitVector written(loops);
  for (AffineExpr expr : llvm::make_filter_range(out.getResults(), isLoop))
    written.set(cast<AffineDimExpr>(expr).getPosition());
  bool reduces = false;
  for (unsigned i = 0; i != loops; ++i) {
    bool parallel = linalg::isParallelIterator(
        cast<linalg::IteratorTypeAttr>(op.getIteratorTypes()[i]).getValue());
    reduces |= !parallel;
    if (parallel != written.test(i) && op.getStaticLoopRanges()[i] != 1)
      return ComputeKind::Opaque;
  }
  if (!reduces)
    return ComputeKind::Elementwise;
  for (unsigned i = 0, e = op->getNumResults(); i != e; ++i)
    if (!getCombiner(op, i))
      return ComputeKind::Opaque;
  return ComputeKind::Reduction;
}

bool fsdp::hasNoElements(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() && tensor.getNumElements() == 0;
}

bool fsdp::hasEmptyLoop(linalg::LinalgOp op) {
  // Each loop walks a dimension of an operand.
  return llvm::any_of(op->getOperandTypes(), hasNoElements);
}

bool fsdp::isBoundary(Operation *op) {
  return op->hasTrait<OpTrait::IsTerminator>() ||
         (isa_and_nonnull<FSDPDialect>(op->getDialect()) &&
          !isa<AttentionOp, AttentionBackwardOp>(op));
}

bool fsdp::isGathered(Value value) {
  while (Operation *def = value.getDefiningOp()) {
    if (isa<AllGatherOp>(def))
      return true;
    if (!isa<ViewOp>(def) && getComputeKind(def) != ComputeKind::View)
      return false;
    value = def->getOperand(0);
  }
  return false;
}

/// Whether each loop of more than one iteration is a batch, row, column or
/// reduction loop of a matrix product. (A reduction loop that only one operand
/// has is none of these.)
static bool hasProductLoops(linalg::LinalgOp op) {
  FailureOr<linalg::ContractionDimensions> dims =
      linalg::inferContractionDims(op);
  if (failed(dims))
    return false;
  llvm::SmallBitVector known(op.getNumLoops());
  for (ArrayRef<unsigned> loops :
       {ArrayRef<unsigned>(dims->batch), ArrayRef<unsigned>(dims->m),
        ArrayRef<unsigned>(dims->n), ArrayRef<unsigned>(dims->k)})
    for (unsigned loop : loops)
      known.set(loop);
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  return llvm::all_of(llvm::seq<unsigned>(0, sizes.size()), [&](unsigned i) {
    return known.test(i) || sizes[i] == 1;
  });
}

bool fsdp::isContraction(Operation *op) {
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  if (!linalgOp)
    return false;
  // Strides and loops are found by dividing sizes; nothing is to be gained
  // where there are no elements.
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return (!generic || isSumOfProducts(generic)) && !hasEmptyLoop(linalgOp) &&
         linalg::isaContractionOpInterface(linalgOp) &&
         !linalgOp.hasDynamicShape() && hasProductLoops(linalgOp);
}

ComputeKind fsdp::getComputeKind(Operation *op) {
  if (isBoundary(op))
    return ComputeKind::Boundary;
  if (isViewOp(op))
    return ComputeKind::View;
  if (isConstantValue(op))
    return ComputeKind::Constant;
  if (op->getNumResults() > 0 &&
      llvm::none_of(op->getResultTypes(), llvm::IsaPred<ShapedType>) &&
      op->getNumRegions() == 0 && isMemoryEffectFree(op))
    return ComputeKind::Scalar;
  if (isContraction(op))
    return ComputeKind::Contraction;
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic && !hasEmptyLoop(generic) ? getGenericKind(generic)
                                           : ComputeKind::Opaque;
}

bool fsdp::isLoopOp(Operation *op) {
  ComputeKind kind = getComputeKind(op);
  return kind == ComputeKind::Elementwise || kind == ComputeKind::Reduction;
}

bool fsdp::isPointwise(linalg::GenericOp op) {
  return getComputeKind(op) == ComputeKind::Elementwise &&
         op.getBody()->getOps<tensor::ExtractOp>().empty();
}

TypedAttr fsdp::getSplatConstant(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return {};
  if (auto fill = dyn_cast<linalg::FillOp>(op)) {
    TypedAttr attr;
    if (matchPattern(fill.getInputs()[0], m_Constant(&attr)))
      return attr;
    return {};
  }
  SplatElementsAttr splat;
  if (matchPattern(value, m_Constant(&splat)))
    return cast<TypedAttr>(splat.getSplatValue<Attribute>());
  return {};
}

int64_t fsdp::getBodyCost(linalg::GenericOp op) {
  int64_t cost = 0;
  for (Operation &inner : op.getBody()->without_terminator()) {
    if (isa<math::SqrtOp, math::RsqrtOp, arith::DivFOp, arith::DivSIOp,
            arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, tensor::ExtractOp>(
            inner))
      cost += 4;
    else if (isa<math::AbsFOp, math::FmaOp, math::FloorOp, math::CeilOp>(inner))
      cost += 1;
    else if (isa<RandomWordOp>(inner))
      cost += 20;
    else if (isa<math::MathDialect>(inner.getDialect()))
      cost += 16;
    else if (!inner.hasTrait<OpTrait::ConstantLike>())
      cost += 1;
  }
  return cost;
}
