//===- IndexRanges.cpp - What integers of a step can be -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/IndexRanges.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Chains of ops that are followed; a longer one can be anything.
static constexpr unsigned kMostDepth = 200;
/// Elements of a constant that are looked at.
static constexpr int64_t kMostElements = 1 << 20;

static unsigned getWidth(Type type) {
  return ConstantIntRanges::getStorageBitwidth(type);
}

/// The integers from @low to @high, cut to what @width bits hold.
static std::optional<ConstantIntRanges> getRange(unsigned width, int64_t low,
                                                 int64_t high) {
  if (low > high || !llvm::isIntN(width, low) || !llvm::isIntN(width, high))
    return std::nullopt;
  return ConstantIntRanges::fromSigned(APInt(width, low, true),
                                       APInt(width, high, true));
}

static ConstantIntRanges getOfElements(DenseIntElementsAttr values,
                                       unsigned width) {
  if (values.isSplat())
    return ConstantIntRanges::constant(
        values.getSplatValue<APInt>().sextOrTrunc(width));
  if (values.getNumElements() == 0 || values.getNumElements() > kMostElements)
    return ConstantIntRanges::maxRange(width);
  std::optional<APInt> low, high;
  for (APInt value : values.getValues<APInt>()) {
    if (!low || value.slt(*low))
      low = value;
    if (!high || value.sgt(*high))
      high = value;
  }
  return ConstantIntRanges::fromSigned(low->sextOrTrunc(width),
                                       high->sextOrTrunc(width));
}

ConstantIntRanges IndexRanges::get(Value value) {
  auto it = known.find(value);
  if (it != known.end())
    return it->second;
  unsigned width = getWidth(value.getType());
  if (width == 0)
    return ConstantIntRanges::maxRange(0);
  std::optional<ConstantIntRanges> range;
  if (depth < kMostDepth) {
    ++depth;
    range = compute(value);
    --depth;
  }
  if (!range || range->smin().getBitWidth() != width)
    range = ConstantIntRanges::maxRange(width);
  known.try_emplace(value, *range);
  return *range;
}

bool IndexRanges::isWithin(Value value, int64_t size) {
  ConstantIntRanges range = get(value);
  return size > 0 && range.smin().isNonNegative() && range.smax().slt(size);
}

std::optional<ConstantIntRanges> IndexRanges::compute(Value value) {
  if (auto arg = dyn_cast<BlockArgument>(value))
    return getOfArgument(arg);
  return getOfResult(cast<OpResult>(value));
}

std::optional<ConstantIntRanges> IndexRanges::getOfArgument(BlockArgument arg) {
  unsigned width = getWidth(arg.getType());
  Operation *parent = arg.getOwner()->getParentOp();
  if (parent == step) {
    auto input = step.getArgAttrOfType<DictionaryAttr>(arg.getArgNumber(),
                                                       names::kInput);
    auto low = input ? input.getAs<IntegerAttr>("low") : IntegerAttr();
    auto high = input ? input.getAs<IntegerAttr>("high") : IntegerAttr();
    if (!low || !high || low.getInt() >= high.getInt())
      return std::nullopt;
    // Batches may also hold what is allowed beside the range.
    int64_t least = low.getInt(), most = high.getInt() - 1;
    if (auto allowed = input.getAs<DenseI64ArrayAttr>("allowed"))
      for (int64_t value : allowed.asArrayRef()) {
        least = std::min(least, value);
        most = std::max(most, value);
      }
    return getRange(width, least, most);
  }
  if (auto loop = dyn_cast<LoopLikeOpInterface>(parent)) {
    auto inductionVars = loop.getLoopInductionVars();
    auto lowerBounds = loop.getLoopLowerBounds();
    auto upperBounds = loop.getLoopUpperBounds();
    auto steps = loop.getLoopSteps();
    auto counted = dyn_cast<scf::ForOp>(parent);
    if (!inductionVars || !lowerBounds || !upperBounds || !steps ||
        !arg.getType().isIndex() || (counted && counted.getUnsignedCmp()))
      return std::nullopt;
    auto *found = llvm::find(*inductionVars, arg);
    if (found == inductionVars->end())
      return std::nullopt;
    unsigned dim = found - inductionVars->begin();
    auto getBound = [&](const SmallVector<OpFoldResult> &bounds) {
      if (auto value = dyn_cast<Value>(bounds[dim]))
        return get(value);
      return ConstantIntRanges::constant(
          APInt(width, *getConstantIntValue(bounds[dim]), /*isSigned=*/true));
    };
    // Steps are positive, what begins past the end does not run, and the last
    // step does not wrap.
    ConstantIntRanges low = getBound(*lowerBounds);
    ConstantIntRanges high = getBound(*upperBounds);
    ConstantIntRanges step = getBound(*steps);
    bool wraps;
    (void)high.smax().sadd_ov(step.smax(), wraps);
    if (!low.smin().slt(high.smax()) || step.smin().slt(1) || wraps)
      return std::nullopt;
    return ConstantIntRanges::fromSigned(low.smin(), high.smax() - 1);
  }
  if (auto generate = dyn_cast<tensor::GenerateOp>(parent)) {
    auto type = cast<RankedTensorType>(generate.getType());
    int64_t size = type.getDimSize(arg.getArgNumber());
    return ShapedType::isDynamic(size) ? std::nullopt
                                       : getRange(width, 0, size - 1);
  }
  // An element of an operand; of a result, what it was before, where no loop
  // writes it more than once.
  auto op = dyn_cast<linalg::LinalgOp>(parent);
  if (!op || arg.getArgNumber() >= op->getNumOperands())
    return std::nullopt;
  if (arg.getArgNumber() >= op.getNumDpsInputs() &&
      (op.getNumParallelLoops() != op.getNumLoops() ||
       !op.getMatchingIndexingMap(&op->getOpOperand(arg.getArgNumber()))
            .isPermutation()))
    return std::nullopt;
  return get(op->getOperand(arg.getArgNumber()));
}

/// The operands whose elements are all that @op's result holds; empty where it
/// may hold others.
static SmallVector<Value> getSources(Operation *op) {
  if (isViewOp(op) || isa<tensor::CastOp, tensor::ExtractOp>(op))
    return {op->getOperand(0)};
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
    return {insert.getSource(), insert.getDest()};
  if (auto insert = dyn_cast<tensor::InsertOp>(op))
    return {insert.getScalar(), insert.getDest()};
  if (isa<tensor::ConcatOp, tensor::FromElementsOp>(op))
    return llvm::to_vector(op->getOperands());
  if (auto splat = dyn_cast<tensor::SplatOp>(op))
    return {splat.getInput()};
  if (auto fill = dyn_cast<linalg::FillOp>(op))
    return {fill.getInputs()[0]};
  if (isa<linalg::TransposeOp, linalg::BroadcastOp, linalg::CopyOp>(op))
    return {op->getOperand(0)};
  return {};
}

std::optional<ConstantIntRanges> IndexRanges::getOfResult(OpResult result) {
  Operation *op = result.getOwner();
  unsigned width = getWidth(result.getType());
  Attribute constant;
  if (matchPattern(op, m_Constant(&constant))) {
    if (auto integer = dyn_cast<IntegerAttr>(constant))
      return ConstantIntRanges::constant(integer.getValue().sextOrTrunc(width));
    if (auto values = dyn_cast<DenseIntElementsAttr>(constant))
      return getOfElements(values, width);
    return std::nullopt;
  }
  if (auto index = dyn_cast<linalg::IndexOp>(op)) {
    auto loops = cast<linalg::LinalgOp>(op->getParentOp());
    int64_t size = loops.getStaticLoopRanges()[index.getDim()];
    return ShapedType::isDynamic(size) || size == 0
               ? std::nullopt
               : getRange(width, 0, size - 1);
  }
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    unsigned number = result.getResultNumber();
    OpOperand *init = generic.getDpsInitOperand(number);
    ConstantIntRanges range =
        get(generic.getBody()->getTerminator()->getOperand(number));
    // What no iteration writes stays as it was.
    return generic.getMatchingIndexingMap(init).isPermutation()
               ? range
               : range.rangeUnion(get(init->get()));
  }
  if (SmallVector<Value> sources = getSources(op); !sources.empty()) {
    ConstantIntRanges range = get(sources[0]);
    for (Value source : ArrayRef(sources).drop_front())
      range = range.rangeUnion(get(source));
    return range;
  }
  auto inferrable = dyn_cast<InferIntRangeInterface>(op);
  if (!inferrable)
    return std::nullopt;
  SmallVector<ConstantIntRanges> operands;
  for (Value operand : op->getOperands())
    operands.push_back(get(operand));
  std::optional<ConstantIntRanges> range;
  inferrable.inferResultRanges(
      operands, [&](Value of, const ConstantIntRanges &inferred) {
        if (of == result)
          range = inferred;
      });
  return range;
}
