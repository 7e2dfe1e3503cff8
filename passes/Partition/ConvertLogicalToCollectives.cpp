//===- ConvertLogicalToCollectives.cpp - L1 to L2 -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every logical op becomes what this rank does for it: a gather, a reduction,
// views and packs of flat tensors. What reads the reduced gradients is in
// UpdatePatterns.cpp.
//
//===----------------------------------------------------------------------===//

#include "LogicalPatterns.h"
#include "PartitionUtils.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Func/Transforms/FuncConversions.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_CONVERTLOGICALTOCOLLECTIVES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

ArrayAttr fsdp::getAllAxes(MeshOp mesh) {
  SmallVector<Attribute> axes;
  for (auto axis : mesh.getAxes().getAsRange<MeshAxisAttr>())
    axes.push_back(axis.getName());
  return ArrayAttr::get(mesh.getContext(), axes);
}

namespace {
/// Shards and gathered flat parameters become flat tensors.
struct LocalTypeConverter : TypeConverter {
  explicit LocalTypeConverter(const FlatParamSymbols &symbols) {
    addConversion([](Type type) { return type; });
    addConversion([&](ShardedType type) -> Type {
      FlatParamOp flat = symbols.getFlatParam(type.getFlatParam());
      return RankedTensorType::get(flat.getShardNumel(symbols.getMesh(flat)),
                                   type.getElementType());
    });
    addConversion([&](SecondaryType type) -> Type {
      FlatParamOp flat = symbols.getFlatParam(type.getFlatParam());
      return RankedTensorType::get(
          flat.getSecondaryNumel(symbols.getMesh(flat)), type.getElementType());
    });
    addConversion([&](UnshardedType type) -> Type {
      FlatParamOp flat = symbols.getFlatParam(type.getFlatParam());
      return RankedTensorType::get(int64_t(flat.getNumel()),
                                   type.getElementType());
    });
  }
};

/// cast + all_gather, along the axes that are not secondary
struct GatherSecondaryPattern : LogicalPattern<GatherSecondaryOp> {
  using LogicalPattern::LogicalPattern;

  LogicalResult
  matchAndRewrite(GatherSecondaryOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    FlatParamOp flat = symbols.getFlatParam(op.getType().getFlatParam());
    auto shardType = cast<RankedTensorType>(adaptor.getShard().getType());
    Value shard = createCast(rewriter, op.getLoc(), adaptor.getShard(),
                             shardType.clone(op.getType().getElementType()));
    rewriter.replaceOpWithNewOp<AllGatherOp>(
        op, getLocalType(op.getType()), shard, flat.getMeshAttr(),
        flat.getPrimaryAxes(), PhaseAttr());
    return success();
  }
};

/// cast + all_gather, of a secondary shard along the secondary axes
struct UnshardPattern : LogicalPattern<UnshardOp> {
  using LogicalPattern::LogicalPattern;

  LogicalResult
  matchAndRewrite(UnshardOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    FlatParamOp flat =
        symbols.getFlatParam(op.getResult().getType().getFlatParam());
    auto shardType = cast<RankedTensorType>(adaptor.getShard().getType());
    Value shard = createCast(rewriter, op.getLoc(), adaptor.getShard(),
                             shardType.clone(op.getType().getElementType()));
    ArrayAttr secondary = flat.getSecondaryAxesAttr();
    rewriter.replaceOpWithNewOp<AllGatherOp>(
        op, getLocalType(op.getType()), shard, flat.getMeshAttr(),
        secondary ? secondary : flat.getShardAxes(), op.getPhaseAttr());
    return success();
  }
};

/// view + cast
struct MemberPattern : LogicalPattern<MemberOp> {
  using LogicalPattern::LogicalPattern;

  LogicalResult
  matchAndRewrite(MemberOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    FlatParamOp flat =
        symbols.getFlatParam(op.getUnsharded().getType().getFlatParam());
    MemberAttr member = flat.lookupMember(op.getFqn());
    Value view = ViewOp::create(
        rewriter, op.getLoc(),
        member.getType().clone(op.getUnsharded().getType().getElementType()),
        adaptor.getUnsharded(), member.getOffset());
    rewriter.replaceOp(op,
                       createCast(rewriter, op.getLoc(), view, op.getType()));
    return success();
  }
};

/// all_reduce over all axes
struct AveragePattern : LogicalPattern<AverageOp> {
  using LogicalPattern::LogicalPattern;

  LogicalResult
  matchAndRewrite(AverageOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    MeshOp mesh = symbols.meshes.begin()->second;
    rewriter.replaceOpWithNewOp<AllReduceOp>(
        op, op.getType(), adaptor.getCount(), mesh.getSymName(),
        getAllAxes(mesh), mesh.getWorldSize());
    return success();
  }
};

/// `value` divided or multiplied (`Op`) by `count`, element by element, in f32
/// at least: narrower floats hold few whole numbers.
template <typename Op>
Value scaleByCount(OpBuilder &builder, Location loc, Value value, Value count) {
  auto type = cast<RankedTensorType>(value.getType());
  return createElementwise(
      builder, loc, type, {value, count},
      [&](OpBuilder &b, Location l, ValueRange v) -> Value {
        auto own = cast<FloatType>(type.getElementType());
        Type wide = own.getWidth() < 32 ? Type(b.getF32Type()) : own;
        auto convert = [&](Value number, Type to) {
          return convertScalarToDtype(b, l, number, to,
                                      /*isUnsignedCast=*/false);
        };
        Value x = convert(v[0], wide), n = convert(v[1], wide);
        return convert(Op::create(b, l, x, n), own);
      });
}

/// Nothing: the life of a tensor ends with its last reader.
struct ReshardPattern : LogicalPattern<ReshardOp> {
  using LogicalPattern::LogicalPattern;

  LogicalResult
  matchAndRewrite(ReshardOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.eraseOp(op);
    return success();
  }
};

/// What becomes of a flat parameter's gradient, a part at a time.
template <typename Op>
struct GradientPattern : LogicalPattern<Op> {
  using LogicalPattern<Op>::LogicalPattern;

  /// The members' gradients in one tensor of `element`: cast + pack.
  static Value pack(OpBuilder &builder, Location loc, FlatParamOp flat,
                    Type element, ValueRange grads) {
    SmallVector<Value> parts;
    SmallVector<int64_t> offsets;
    for (auto [grad, member] : llvm::zip(grads, flat.getMemberRange())) {
      parts.push_back(
          createCast(builder, loc, grad, member.getType().clone(element)));
      offsets.push_back(member.getOffset());
    }
    return PackOp::create(
        builder, loc, RankedTensorType::get(int64_t(flat.getNumel()), element),
        parts, offsets);
  }

  /// The mean over all ranks is divided once, in the last reduction, but where
  /// the flat parameter says otherwise.
  bool dividesEarly(FlatParamOp flat) const {
    return countReplicas(flat) == 1 || flat.dividesEachReduction();
  }
  int64_t countShards(FlatParamOp flat) const {
    return this->symbols.getMesh(flat).getGroupSize(flat.getShardAxes());
  }
  int64_t countReplicas(FlatParamOp flat) const {
    return this->symbols.getMesh(flat).getGroupSize(flat.getReplicateAxes());
  }

  /// Gradients of a sum over many are larger than those of a mean, and may
  /// leave the range of f16, which they travel in.
  static bool dividesBefore(FlatParamOp flat, Value count) {
    return count && flat.getReduceType().isF16();
  }
  /// The type in which gradients are packed: the one that they travel in, but
  /// where a hook takes them first.
  Type getPackType(FlatParamOp flat) const {
    return flat.getReductionHookAttr() && countShards(flat) == 1
               ? getHookType(flat)
               : flat.getReduceType();
  }
  /// In which hooks compute: f32 at least.
  static Type getHookType(FlatParamOp flat) {
    Type state = flat.getElementType();
    return state.getIntOrFloatBitWidth() < 32
               ? Type(Float32Type::get(flat.getContext()))
               : state;
  }
  static SmallVector<Value> divide(OpBuilder &builder, Location loc,
                                   ValueRange grads, Value count) {
    return llvm::map_to_vector(grads, [&](Value grad) {
      return scaleByCount<arith::DivFOp>(builder, loc, grad, count);
    });
  }

  /// Pieces lie in the order of the shard axes, those of a group in the order
  /// of ranks: where some axes are secondary, the sum over these comes first,
  /// of which each rank keeps what its secondary shard has.
  Value reduceScatter(OpBuilder &builder, Location loc, FlatParamOp flat,
                      Value whole) const {
    MeshOp mesh = this->symbols.getMesh(flat);
    auto scatter = [&](Value sum, ArrayAttr axes, int64_t divisor) -> Value {
      auto type = cast<RankedTensorType>(sum.getType());
      auto piece =
          RankedTensorType::get(type.getNumElements() / mesh.getGroupSize(axes),
                                type.getElementType());
      return ReduceScatterOp::create(builder, loc, piece, sum, flat.getMesh(),
                                     axes, divisor);
    };
    int64_t divisor = dividesEarly(flat) ? countShards(flat) : 1;
    if (ArrayAttr secondary = flat.getSecondaryAxesAttr()) {
      // In f16 each sum is divided (dividesEarly).
      int64_t first =
          flat.getReduceType().isF16() ? mesh.getGroupSize(secondary) : 1;
      whole = scatter(whole, secondary, first);
      divisor /= first;
    }
    return scatter(whole, flat.getPrimaryAxes(), divisor);
  }

  Value allReduce(OpBuilder &builder, Location loc, FlatParamOp flat,
                  Value shard) const {
    int64_t replicas = countReplicas(flat);
    if (replicas == 1)
      return shard;
    if (flat.getReductionHookAttr()) {
      auto type = cast<RankedTensorType>(shard.getType());
      return ReduceReplicasOp::create(
          builder, loc, FlatSymbolRefAttr::get(flat),
          createCast(builder, loc, shard, type.clone(getHookType(flat))));
    }
    return AllReduceOp::create(
        builder, loc, shard.getType(), shard, flat.getMesh(),
        flat.getReplicateAxes(),
        dividesEarly(flat) ? replicas : countShards(flat) * replicas);
  }
};

/// pack + reduce_scatter + all_reduce + cast + division, in the wider of both
/// types
struct ReduceGradPattern : GradientPattern<ReduceGradOp> {
  using GradientPattern::GradientPattern;

  LogicalResult
  matchAndRewrite(ReduceGradOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    FlatParamOp flat = symbols.getFlatParam(op.getFlatParamAttr());
    Location loc = op.getLoc();
    Value over = adaptor.getOver();
    SmallVector<Value> grads(adaptor.getGrads());
    // What a hook keeps between steps is of means.
    if (dividesBefore(flat, over) || (over && flat.getReductionHookAttr())) {
      grads = divide(rewriter, loc, grads, over);
      over = nullptr;
    }
    Value sum = pack(rewriter, loc, flat, getPackType(flat), grads);
    sum = reduceScatter(rewriter, loc, flat, sum);
    sum = allReduce(rewriter, loc, flat, sum);
    RankedTensorType local = getLocalType(op.getType());
    bool isNarrowed = local.getElementTypeBitWidth() <
                      flat.getReduceType().getIntOrFloatBitWidth();
    if (over && isNarrowed)
      sum = scaleByCount<arith::DivFOp>(rewriter, loc, sum, over);
    sum = createCast(rewriter, loc, sum, local);
    if (over && !isNarrowed)
      sum = scaleByCount<arith::DivFOp>(rewriter, loc, sum, over);
    rewriter.replaceOp(op, sum);
    return success();
  }
};

/// Sharded: pack + reduce_scatter + cast + add. Whole: pack + add. After none,
/// there is nothing to add to.
struct AccumulateGradPattern : GradientPattern<AccumulateGradOp> {
  using GradientPattern::GradientPattern;

  LogicalResult
  matchAndRewrite(AccumulateGradOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    FlatParamOp flat = symbols.getFlatParam(op.getFlatParamAttr());
    Location loc = op.getLoc();
    RankedTensorType local = getLocalType(op.getType());
    bool isSharded = isa<ShardedType>(op.getType());
    SmallVector<Value> grads(adaptor.getGrads());
    Value scale;
    if (isSharded && dividesBefore(flat, adaptor.getOf())) {
      scale = createScale(rewriter, loc, adaptor.getOf());
      grads = divide(rewriter, loc, grads, scale);
    }
    Value grad =
        pack(rewriter, loc, flat,
             isSharded ? getPackType(flat) : local.getElementType(), grads);
    if (isSharded)
      grad = createCast(rewriter, loc, reduceScatter(rewriter, loc, flat, grad),
                        local);
    if (scale)
      grad = scaleByCount<arith::MulFOp>(rewriter, loc, grad, scale);
    rewriter.replaceOp(
        op, createElementwise(
                rewriter, loc, local,
                {adaptor.getAccumulator(), grad, adaptor.getCount()},
                [](OpBuilder &b, Location l, ValueRange v) -> Value {
                  Value none = arith::ConstantOp::create(
                      b, l, b.getFloatAttr(v[2].getType(), 0.0));
                  Value sum = arith::AddFOp::create(b, l, v[0], v[1]);
                  Value isLater = arith::CmpFOp::create(
                      b, l, arith::CmpFPredicate::OGT, v[2], none);
                  return arith::SelectOp::create(b, l, isLater, sum, v[1]);
                }));
    return success();
  }

private:
  /// `count`, or 1 of a micro-batch in which nothing counts.
  static Value createScale(OpBuilder &builder, Location loc, Value count) {
    auto type = cast<RankedTensorType>(count.getType());
    return createElementwise(
        builder, loc, type, count,
        [&](OpBuilder &b, Location l, ValueRange v) -> Value {
          auto number = [&](double value) {
            return arith::ConstantOp::create(
                b, l, b.getFloatAttr(type.getElementType(), value));
          };
          Value counts = arith::CmpFOp::create(b, l, arith::CmpFPredicate::OGT,
                                               v[0], number(0));
          return arith::SelectOp::create(b, l, counts, v[0], number(1));
        });
  }
};

/// division + cast + what is left of reduce_scatter and all_reduce + cast
struct ReduceAccumulatedPattern : GradientPattern<ReduceAccumulatedOp> {
  using GradientPattern::GradientPattern;

  LogicalResult
  matchAndRewrite(ReduceAccumulatedOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    FlatParamOp flat = symbols.getFlatParam(op.getType().getFlatParam());
    Location loc = op.getLoc();
    bool isSharded = isa<ShardedType>(op.getAccumulator().getType());
    auto type = cast<RankedTensorType>(adaptor.getAccumulator().getType());
    Value sum = createElementwise(
        rewriter, loc, type, {adaptor.getAccumulator(), adaptor.getWeight()},
        [](OpBuilder &b, Location l, ValueRange v) -> Value {
          Value weight = convertScalarToDtype(b, l, v[1], v[0].getType(),
                                              /*isUnsignedCast=*/false);
          return arith::DivFOp::create(b, l, v[0], weight);
        });
    // What no other rank receives keeps its precision.
    int64_t ranks = isSharded ? 1 : countShards(flat);
    if (!flat.getReductionHookAttr())
      ranks *= countReplicas(flat);
    if (ranks > 1)
      sum = createCast(rewriter, loc, sum, type.clone(flat.getReduceType()));
    if (!isSharded)
      sum = reduceScatter(rewriter, loc, flat, sum);
    sum = allReduce(rewriter, loc, flat, sum);
    rewriter.replaceOp(
        op, createCast(rewriter, loc, sum, getLocalType(op.getType())));
    return success();
  }
};

/// The value whose rounding to a narrower type is all that the op that makes
/// `value` does last; `value` itself where there is none.
Value createUnrounded(OpBuilder &builder, Value value) {
  if (auto narrow = value.getDefiningOp<arith::TruncFOp>())
    return narrow.getIn();
  auto op = value.getDefiningOp<linalg::GenericOp>();
  if (!op || op->getNumResults() != 1 || op.getNumReductionLoops() != 0)
    return value;
  auto narrow = op.getBody()
                    ->getTerminator()
                    ->getOperand(0)
                    .getDefiningOp<arith::TruncFOp>();
  BlockArgument before = op.getRegionOutputArgs()[0];
  if (!narrow || narrow->getBlock() != op.getBody() || !before.use_empty())
    return value;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  auto wide =
      cast<RankedTensorType>(value.getType()).clone(narrow.getIn().getType());
  Value empty = tensor::EmptyOp::create(builder, op.getLoc(), wide.getShape(),
                                        wide.getElementType());
  auto copy = cast<linalg::GenericOp>(builder.clone(*op));
  copy.getOutputsMutable().assign(empty);
  copy.getResult(0).setType(wide);
  copy.getRegionOutputArgs()[0].setType(wide.getElementType());
  Operation *yield = copy.getBody()->getTerminator();
  auto cast = yield->getOperand(0).getDefiningOp<arith::TruncFOp>();
  yield->setOperand(0, cast.getIn());
  if (cast->use_empty())
    cast->erase();
  return copy.getResult(0);
}

/// The loss becomes its mean over all ranks: in f32 where it is narrower, since
/// a mean of two neighbours in bf16 is 0.4 % off. That of an evaluation stays
/// the rank's own: the last batches of data may not be of all ranks, and who
/// runs it knows of how many.
void averageLoss(ProgramOp program, MeshOp mesh) {
  Operation *ret = program.getReturn();
  OpBuilder builder(ret);
  SmallVector<Type> results(program.getResultTypes());
  for (unsigned i : getResultsWith(program, names::kLoss)) {
    OpOperand &loss = ret->getOpOperand(i);
    Location loc = loss.get().getLoc();
    Value value = loss.get();
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getElementTypeBitWidth() < 32) {
      type = type.clone(builder.getF32Type());
      Value unrounded = createUnrounded(builder, value);
      bool isSingle = getElementTypeOrSelf(unrounded.getType()).isF32();
      value = createCast(builder, loc, isSingle ? unrounded : value, type);
    }
    results[i] = type;
    if (getTraits(program.getKind()).hasBackward)
      value = AllReduceOp::create(builder, loc, type, value, mesh.getSymName(),
                                  getAllAxes(mesh), mesh.getWorldSize());
    loss.set(value);
  }
  program.setFunctionType(
      builder.getFunctionType(program.getArgumentTypes(), results));
}

/// Every flat parameter that a type of `program` names is in the module. Ops
/// check theirs; arguments and values that only pass through have no op that
/// does.
LogicalResult verifyFlatParams(ProgramOp program,
                               const FlatParamSymbols &symbols) {
  auto check = [&](Operation *op, TypeRange types) -> LogicalResult {
    for (Type type : types) {
      FlatSymbolRefAttr name;
      if (auto shard = dyn_cast<ShardedType>(type))
        name = shard.getFlatParam();
      else if (auto secondary = dyn_cast<SecondaryType>(type))
        name = secondary.getFlatParam();
      else if (auto whole = dyn_cast<UnshardedType>(type))
        name = whole.getFlatParam();
      if (name && !symbols.getFlatParam(name))
        return op->emitOpError("expected a flat parameter named ")
               << name << " in the module, got none";
    }
    return success();
  };
  WalkResult result = program.walk([&](Operation *op) {
    bool known = succeeded(check(op, op->getResultTypes()));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        known = known && succeeded(check(op, block.getArgumentTypes()));
    return known ? WalkResult::advance() : WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

struct ReturnPattern : OpConversionPattern<fsdp::ReturnOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(fsdp::ReturnOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<fsdp::ReturnOp>(op, adaptor.getOperands());
    return success();
  }
};

struct ConvertLogicalToCollectives
    : fsdp::impl::ConvertLogicalToCollectivesBase<ConvertLogicalToCollectives> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FlatParamSymbols symbols(module);
    // Programs that take no flat parameters are at L2 already (or somebody
    // else's).
    SmallVector<ProgramOp> programs;
    for (auto program : module.getOps<ProgramOp>())
      if (llvm::any_of(program.getArgumentTypes(),
                       llvm::IsaPred<ShardedType, UnshardedType>))
        programs.push_back(program);
    if (programs.empty() || symbols.flatParams.empty())
      return markAllAnalysesPreserved();

    for (ProgramOp program : programs) {
      if (failed(verifyFlatParams(program, symbols)))
        return signalPassFailure();
      averageLoss(program, symbols.meshes.begin()->second);
    }
    LocalTypeConverter converter(symbols);
    for (auto state : module.getOps<StateOp>())
      state.setType(converter.convertType(state.getType()));
    for (ProgramOp program : programs)
      if (failed(convert(program, converter, symbols)))
        return signalPassFailure();
    // Its body lives in the programs now.
    if (auto optimizer = module.lookupSymbol<func::FuncOp>(names::kOptimizer))
      optimizer.erase();
  }

private:
  LogicalResult convert(ProgramOp program, const LocalTypeConverter &converter,
                        const FlatParamSymbols &symbols) {
    ConversionTarget target(getContext());
    target.addIllegalOp<GatherSecondaryOp, UnshardOp, MemberOp, ReshardOp,
                        ReduceGradOp, AccumulateGradOp, ReduceAccumulatedOp,
                        AverageOp, LossScaleOp, GradNormOp, UpdateOp>();
    target.addDynamicallyLegalOp<ProgramOp>([&](ProgramOp op) {
      return converter.isSignatureLegal(op.getFunctionType());
    });
    target.markUnknownOpDynamicallyLegal([&](Operation *op) {
      return !isa<fsdp::ReturnOp>(op) || converter.isLegal(op);
    });
    RewritePatternSet patterns(&getContext());
    populateFunctionOpInterfaceTypeConversionPattern<ProgramOp>(patterns,
                                                                converter);
    patterns.add<ReturnPattern>(converter, &getContext());
    patterns.add<GatherSecondaryPattern, UnshardPattern, MemberPattern,
                 ReshardPattern, AveragePattern, ReduceGradPattern,
                 AccumulateGradPattern, ReduceAccumulatedPattern>(
        converter, &getContext(), symbols);
    populateUpdatePatterns(patterns, converter, symbols);
    return applyPartialConversion(program, target, std::move(patterns));
  }
};
} // namespace
