//===- NormalizeCompute.cpp - Forms that kernels are made of --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/Contraction.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_NORMALIZECOMPUTE
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {

/// transpose, broadcast, map, reduce, add, ...: one form for all.
struct GeneralizeNamedOp : OpInterfaceRewritePattern<linalg::LinalgOp> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(linalg::LinalgOp op,
                                PatternRewriter &rewriter) const override {
    if (isa<linalg::GenericOp, linalg::FillOp>(op) ||
        isa<linalg::ConvolutionOpInterface>(op.getOperation()) ||
        linalg::isaContractionOpInterface(op))
      return failure();
    return linalg::generalizeNamedOp(rewriter, op);
  }
};

/// tensor.splat is a fill.
struct SplatToFill : OpRewritePattern<tensor::SplatOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::SplatOp op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getType());
    if (!type.hasStaticShape())
      return failure();
    Value empty = tensor::EmptyOp::create(
        rewriter, op.getLoc(), type.getShape(), type.getElementType());
    rewriter.replaceOpWithNewOp<linalg::FillOp>(op, op.getInput(), empty);
    return success();
  }
};

/// A scalar operand is read from outside instead; the operand, unused, goes.
struct CaptureScalars : OpRewritePattern<linalg::GenericOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::GenericOp op,
                                PatternRewriter &rewriter) const override {
    bool changed = false;
    for (OpOperand *input : op.getDpsInputOperands()) {
      BlockArgument arg = op.getMatchingBlockArgument(input);
      if (isa<ShapedType>(input->get().getType()) || arg.use_empty())
        continue;
      rewriter.replaceAllUsesWith(arg, input->get());
      changed = true;
    }
    return success(changed);
  }
};

/// An init that the body does not read is no operand: upstream makes
/// elementwise ops write to one of theirs, which would keep that alive. Inside
/// loops it says where to write, and stays.
struct DropUnreadInits : OpRewritePattern<linalg::GenericOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::GenericOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.hasPureTensorSemantics() ||
        !isa<FunctionOpInterface>(op->getParentOp()))
      return failure();
    bool changed = false;
    for (OpOperand &init : op.getDpsInitsMutable()) {
      auto type = cast<RankedTensorType>(init.get().getType());
      if (op.payloadUsesValueFromOperand(&init) || !type.hasStaticShape() ||
          type.getEncoding() || init.get().getDefiningOp<tensor::EmptyOp>())
        continue;
      Value empty = tensor::EmptyOp::create(
          rewriter, op.getLoc(), type.getShape(), type.getElementType());
      rewriter.modifyOpInPlace(op, [&] { init.set(empty); });
      changed = true;
    }
    return success(changed);
  }
};

/// extf(x) compared with a constant that the narrow type holds exactly: the
/// exporter widens because the constant was a Python float.
struct NarrowComparison : OpRewritePattern<arith::CmpFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::CmpFOp op,
                                PatternRewriter &rewriter) const override {
    auto widened = op.getLhs().getDefiningOp<arith::ExtFOp>();
    FloatAttr constant;
    if (!widened || !matchPattern(op.getRhs(), m_Constant(&constant)))
      return failure();
    auto type = cast<FloatType>(widened.getIn().getType());
    APFloat value = constant.getValue();
    bool losesInfo = false;
    value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
    if (losesInfo)
      return failure();
    Value narrow = arith::ConstantOp::create(
        rewriter, op.getLoc(), rewriter.getFloatAttr(type, value));
    rewriter.replaceOpWithNewOp<arith::CmpFOp>(
        op, op.getPredicate(), widened.getIn(), narrow, op.getFastmath());
    return success();
  }
};

/// truncf of a constant, rounded now; the folder only takes exact ones.
struct RoundConstant : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    FloatAttr constant;
    if (!matchPattern(op.getIn(), m_Constant(&constant)))
      return failure();
    auto type = dyn_cast<FloatType>(op.getType());
    if (!type || op.getRoundingmodeAttr())
      return failure();
    APFloat value = constant.getValue();
    bool losesInfo = false;
    value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(
        op, rewriter.getFloatAttr(type, value));
    return success();
  }
};

/// Nothing computes a tensor without elements.
struct DropEmptyResults : RewritePattern {
  explicit DropEmptyResults(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (op->getNumResults() == 0 ||
        !llvm::all_of(op->getResultTypes(), hasNoElements) ||
        isa<tensor::EmptyOp>(op) || !isMemoryEffectFree(op) || isBoundary(op))
      return failure();
    SmallVector<Value> empty;
    for (Type type : op->getResultTypes()) {
      auto tensor = cast<RankedTensorType>(type);
      empty.push_back(tensor::EmptyOp::create(
          rewriter, op->getLoc(), tensor.getShape(), tensor.getElementType()));
    }
    rewriter.replaceOp(op, empty);
    return success();
  }
};

/// A loop without points leaves what it starts from.
struct DropEmptyLoops : OpInterfaceRewritePattern<linalg::LinalgOp> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(linalg::LinalgOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.hasPureTensorSemantics() || !hasEmptyLoop(op))
      return failure();
    rewriter.replaceOp(op, llvm::to_vector(op.getDpsInits()));
    return success();
  }
};

/// Parts without elements.
struct DropEmptyParts : OpRewritePattern<tensor::ConcatOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::ConcatOp op,
                                PatternRewriter &rewriter) const override {
    SmallVector<Value> parts(op.getInputs());
    llvm::erase_if(parts, [](Value v) { return hasNoElements(v.getType()); });
    if (parts.empty() || parts.size() == op.getInputs().size())
      return failure();
    if (parts.size() == 1 && parts[0].getType() == op.getType())
      rewriter.replaceOp(op, parts[0]);
    else
      rewriter.replaceOpWithNewOp<tensor::ConcatOp>(op, op.getType(),
                                                    op.getDim(), parts);
    return success();
  }
};

/// An innermost loop that adds to the elements of the tensor it carries; true
/// for nests of such loops.
static bool onlyAccumulates(scf::ForOp loop) {
  if (loop.getNumRegionIterArgs() != 1)
    return false;
  Value carried = loop.getRegionIterArg(0);
  Value yielded = loop.getBody()->getTerminator()->getOperand(0);
  if (auto inner = yielded.getDefiningOp<scf::ForOp>())
    return carried.hasOneUse() && inner.getInitArgs().size() == 1 &&
           inner.getInitArgs()[0] == carried && onlyAccumulates(inner);
  // Elements: extract, add, insert at the same place.
  if (auto insert = yielded.getDefiningOp<tensor::InsertOp>()) {
    auto add = insert.getScalar().getDefiningOp<arith::AddFOp>();
    if (!add || insert.getDest() != carried || add.getLhs() == add.getRhs())
      return false;
    for (Value operand : add->getOperands())
      if (auto extract = operand.getDefiningOp<tensor::ExtractOp>())
        if (extract.getTensor() == carried &&
            extract.getIndices() == insert.getIndices())
          return llvm::all_of(carried.getUsers(), [&](Operation *user) {
            return user == extract || user == insert;
          });
    return false;
  }
  // Rows: extract_slice, add, insert_slice at the same place.
  auto insert = yielded.getDefiningOp<tensor::InsertSliceOp>();
  if (!insert || insert.getDest() != carried)
    return false;
  auto add = insert.getSource().getDefiningOp<linalg::GenericOp>();
  if (!add || add->getNumResults() != 1)
    return false;
  auto yield = cast<linalg::YieldOp>(add.getBody()->getTerminator());
  auto sum = yield.getOperand(0).getDefiningOp<arith::AddFOp>();
  if (!sum || sum.getLhs() == sum.getRhs() ||
      !llvm::hasNItems(add.getBody()->without_terminator(), 1) ||
      llvm::any_of(add.getIndexingMapsArray(),
                   [](AffineMap map) { return !map.isIdentity(); }))
    return false;
  for (OpOperand &operand : add->getOpOperands())
    if (auto extract = operand.get().getDefiningOp<tensor::ExtractSliceOp>())
      if (extract.getSource() == carried &&
          extract.getMixedOffsets() == insert.getMixedOffsets() &&
          extract.getMixedSizes() == insert.getMixedSizes() &&
          extract.getMixedStrides() == insert.getMixedStrides())
        return llvm::all_of(carried.getUsers(), [&](Operation *user) {
          return user == extract || user == insert;
        });
  return false;
}

/// add(scatter into zeros, x): scatter into x. The gradient of an embedding
/// that is tied to the output layer is such a sum of two whole tables.
struct AccumulateIntoSum : OpRewritePattern<linalg::GenericOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::GenericOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getNumDpsInputs() != 2 || op->getNumResults() != 1 ||
        op.getNumParallelLoops() != op.getNumLoops() ||
        llvm::any_of(op.getIndexingMapsArray(),
                     [](AffineMap map) { return !map.isIdentity(); }) ||
        !llvm::hasNItems(op.getBody()->without_terminator(), 1))
      return failure();
    auto sum = dyn_cast<arith::AddFOp>(op.getBody()->front());
    if (!sum || op.getBody()->getTerminator()->getOperand(0) != sum ||
        sum.getLhs() == sum.getRhs() || !isa<BlockArgument>(sum.getLhs()) ||
        !isa<BlockArgument>(sum.getRhs()))
      return failure();
    for (unsigned i : {0u, 1u}) {
      auto loop = op.getInputs()[i].getDefiningOp<scf::ForOp>();
      Value other = op.getInputs()[1 - i];
      if (!loop || !loop->hasOneUse() || loop->getNumResults() != 1 ||
          other.getType() != op->getResult(0).getType() ||
          !onlyAccumulates(loop))
        continue;
      TypedAttr init = getSplatConstant(loop.getInitArgs()[0]);
      if (!init || !matchPattern(init, m_AnyZeroFloat()))
        continue;
      rewriter.modifyOpInPlace(loop, [&] {
        loop->moveBefore(op);
        loop.getInitArgsMutable()[0].set(other);
      });
      rewriter.replaceOp(op, loop);
      return success();
    }
    return failure();
  }
};

/// A kernel's worth of copying, so that `value` lies in memory of its own.
static Value createCopy(OpBuilder &builder, Location loc, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                        type.getElementType());
  AffineMap identity = builder.getMultiDimIdentityMap(type.getRank());
  SmallVector<utils::IteratorType> iterators(type.getRank(),
                                             utils::IteratorType::parallel);
  return linalg::GenericOp::create(
             builder, loc, type, value, empty, {identity, identity}, iterators,
             [](OpBuilder &b, Location loc, ValueRange args) {
               linalg::YieldOp::create(b, loc, args[0]);
             })
      .getResult(0);
}

/// Whether no kernel writes `value` and a collective or pack cannot read it as
/// it is: a slice of something, or a constant.
static bool isNowhere(Value value) {
  Operation *op = lookThroughReshapes(value).getDefiningOp();
  if (!op)
    return false;
  ComputeKind kind = getComputeKind(op);
  return kind == ComputeKind::View || kind == ComputeKind::Constant;
}

/// Whether the op that reads @operand would keep a gather from being freed
/// behind the kernels that read it: the step returns what it brought (a buffer
/// may take a parameter's value, say), or sums it (a parameter may be the
/// loss). What becomes a gathered state stays gathered anyway, and a secondary
/// shard is there to be gathered again.
static bool holdsGathered(OpOperand &operand, const ProgramStates &states) {
  if (!isa<fsdp::ReturnOp>(operand.getOwner()))
    return isReduction(operand.getOwner());
  StateOp state = states.getWritten(operand.getOperandNumber());
  return !state || state.getKind() != StateKind::gathered;
}

/// What collectives, packs and the step's results read is made by a kernel.
static void copyForBoundaries(ProgramOp step) {
  ProgramStates states(step);
  for (Operation &op : step.getBody().front()) {
    if (!isBoundary(&op))
      continue;
    for (OpOperand &operand : op.getOpOperands()) {
      Value value = operand.get();
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (!type || !type.hasStaticShape())
        continue;
      OpBuilder builder(&op);
      bool isHeld = holdsGathered(operand, states) && isGathered(value);
      if (isHeld)
        builder.setInsertionPointAfterValue(value);
      if (isHeld || isNowhere(value))
        operand.set(createCopy(builder, op.getLoc(), value));
    }
  }
}

/// A BLAS operand that no stride describes, or that is a constant and so not in
/// memory, is copied first.
static void copyMatmulOperands(ProgramOp step) {
  Block &block = step.getBody().front();
  ContractionPlans plans(&block);
  SmallVector<linalg::LinalgOp> ops;
  for (Operation &op : block)
    if (isContraction(&op) && !plans.lookup(&op))
      ops.push_back(cast<linalg::LinalgOp>(op));
  for (linalg::LinalgOp op : ops) {
    OpBuilder builder(op);
    for (OpOperand *operand : op.getDpsInputOperands()) {
      Value value = operand->get();
      if (!value.getDefiningOp())
        continue;
      ViewedValue viewed = lookThroughViews(value);
      Operation *def = viewed.source.getDefiningOp();
      bool isConstant = def && getComputeKind(def) == ComputeKind::Constant;
      if (viewed.layout.isContiguous() && !isConstant)
        continue;
      operand->set(createCopy(builder, op.getLoc(), value));
    }
  }
}

/// Copies results that would share bytes with a state: replacements of states
/// have no order, so an argument that takes another's place and is itself
/// replaced is read before; what a caller reads (a loss, an output) lies apart
/// from all states, so it is neither an argument of a state nor what a state
/// becomes.
static void copyReturnedStates(ProgramOp step) {
  auto replacements = getReplacedArguments(step);
  Operation *ret = step.getBody().front().getTerminator();
  OpBuilder builder(ret);
  llvm::SmallDenseSet<Value> states;
  for (BlockArgument arg : step.getArguments())
    if (step.getReadState(arg.getArgNumber()))
      states.insert(arg);
  llvm::SmallDenseSet<unsigned> replacing;
  for (auto [result, replaced] : replacements) {
    OpOperand &operand = ret->getOpOperand(result);
    Value source = lookThroughReshapes(operand.get());
    if (source != replaced &&
        llvm::is_contained(llvm::make_second_range(replacements), source))
      operand.set(createCopy(builder, ret->getLoc(), operand.get()));
    replacing.insert(result);
    states.insert(getWholeValue(operand.get()));
  }
  for (OpOperand &operand : ret->getOpOperands())
    if (!replacing.contains(operand.getOperandNumber()) &&
        states.contains(getWholeValue(operand.get())))
      operand.set(createCopy(builder, ret->getLoc(), operand.get()));
}

/// A loop or branch that results in numbers, where these are read, goes into an
/// scf.execute_region that results in tensors of rank 0: kernels write tensors.
static void wrapNumbers(ProgramOp step) {
  auto isNumber = [](Value value) { return !isa<ShapedType>(value.getType()); };
  SmallVector<Operation *> ops;
  for (Operation &op : step.getBody().front())
    if (getComputeKind(&op) == ComputeKind::Opaque &&
        llvm::any_of(op.getResults(), [&](Value result) {
          return isNumber(result) && !result.use_empty();
        }))
      ops.push_back(&op);
  for (Operation *op : ops) {
    OpBuilder builder(op);
    Location loc = op->getLoc();
    SmallVector<Type> types;
    for (Value result : op->getResults())
      types.push_back(isNumber(result)
                          ? RankedTensorType::get({}, result.getType())
                          : result.getType());
    auto region = scf::ExecuteRegionOp::create(builder, loc, types);
    builder.createBlock(&region.getRegion());
    SmallVector<Value> results(region.getResults());
    builder.setInsertionPointAfter(region);
    for (Value &result : results)
      if (isNumber(op->getResult(cast<OpResult>(result).getResultNumber())))
        result = tensor::ExtractOp::create(builder, loc, result, ValueRange());
    op->replaceAllUsesWith(results);
    builder.setInsertionPointToEnd(&region.getRegion().front());
    op->moveBefore(&region.getRegion().front(),
                   region.getRegion().front().end());
    SmallVector<Value> yielded;
    for (auto [result, type] : llvm::zip(op->getResults(), types))
      yielded.push_back(isNumber(result) ? tensor::FromElementsOp::create(
                                               builder, loc, type, result)
                                               .getResult()
                                         : Value(result));
    scf::YieldOp::create(builder, loc, yielded);
  }
}

struct NormalizeCompute : fsdp::impl::NormalizeComputeBase<NormalizeCompute> {
  void runOnOperation() override {
    ProgramOp step = getOperation();
    RewritePatternSet patterns(&getContext());
    patterns
        .add<GeneralizeNamedOp, SplatToFill, CaptureScalars, DropUnreadInits,
             NarrowComparison, RoundConstant, AccumulateIntoSum,
             DropEmptyResults, DropEmptyLoops, DropEmptyParts>(&getContext());
    linalg::populateElementwiseToLinalgConversionPatterns(patterns);
    populateMathAlgebraicSimplificationPatterns(patterns);
    linalg::populateEraseUnusedOperandsAndResultsPatterns(patterns);
    // Bodies are single blocks.
    GreedyRewriteConfig config;
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    if (failed(applyPatternsGreedily(step, std::move(patterns), config)))
      return signalPassFailure();
    wrapNumbers(step);
    copyForBoundaries(step);
    copyMatmulOperands(step);
    copyReturnedStates(step);
  }
};

} // namespace
