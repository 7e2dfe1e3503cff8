//===- ConvertLogicalToCollectives.cpp - L1 to L2 -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PartitionUtils.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/OptimizerContract.h"
#include "fsdp/Analysis/Step/FlatLayout.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/Transforms/FuncConversions.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_CONVERTLOGICALTOCOLLECTIVES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// The module's symbols, looked up once.
struct Symbols {
  explicit Symbols(ModuleOp module) {
    for (auto flat : module.getOps<FlatParamOp>())
      flatParams[FlatSymbolRefAttr::get(flat)] = flat;
    for (auto mesh : module.getOps<MeshOp>())
      meshes[FlatSymbolRefAttr::get(mesh)] = mesh;
  }
  FlatParamOp getFlatParam(FlatSymbolRefAttr name) const {
    return flatParams.lookup(name);
  }
  MeshOp getMesh(FlatParamOp flat) const {
    return meshes.lookup(flat.getMeshAttr());
  }

  llvm::DenseMap<Attribute, FlatParamOp> flatParams;
  llvm::DenseMap<Attribute, MeshOp> meshes;
};

ArrayAttr getAllAxes(MeshOp mesh) {
  SmallVector<Attribute> axes;
  for (auto axis : mesh.getAxes().getAsRange<MeshAxisAttr>())
    axes.push_back(axis.getName());
  return ArrayAttr::get(mesh.getContext(), axes);
}

/// Shards and gathered flat parameters become flat tensors.
struct LocalTypeConverter : TypeConverter {
  explicit LocalTypeConverter(const Symbols &symbols) {
    addConversion([](Type type) { return type; });
    addConversion([&](ShardedType type) -> Type {
      FlatParamOp flat = symbols.getFlatParam(type.getFlatParam());
      return RankedTensorType::get(flat.getShardNumel(symbols.getMesh(flat)),
                                   type.getElementType());
    });
    addConversion([&](UnshardedType type) -> Type {
      FlatParamOp flat = symbols.getFlatParam(type.getFlatParam());
      return RankedTensorType::get(int64_t(flat.getNumel()),
                                   type.getElementType());
    });
  }
};

template <typename Op>
struct LogicalPattern : OpConversionPattern<Op> {
  LogicalPattern(const TypeConverter &converter, MLIRContext *context,
                 const Symbols &symbols)
      : OpConversionPattern<Op>(converter, context), symbols(symbols) {}

  RankedTensorType getLocalType(Type type) const {
    return cast<RankedTensorType>(this->getTypeConverter()->convertType(type));
  }

  const Symbols &symbols;
};

/// cast + all_gather
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
    rewriter.replaceOpWithNewOp<AllGatherOp>(
        op, getLocalType(op.getType()), shard, flat.getMeshAttr(),
        flat.getShardAxes(), op.getPhaseAttr());
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

  /// The mean over all ranks is divided once, in the last reduction. In f16 a
  /// sum that waits for that may overflow: there each reduction divides.
  bool dividesEarly(FlatParamOp flat) const {
    return countReplicas(flat) == 1 || flat.getReduceType().isF16();
  }
  int64_t countShards(FlatParamOp flat) const {
    return this->symbols.getMesh(flat).getGroupSize(flat.getShardAxes());
  }
  int64_t countReplicas(FlatParamOp flat) const {
    return this->symbols.getMesh(flat).getGroupSize(flat.getReplicateAxes());
  }

  Value reduceScatter(OpBuilder &builder, Location loc, FlatParamOp flat,
                      Value whole) const {
    auto type = cast<RankedTensorType>(whole.getType());
    auto shard = RankedTensorType::get(
        flat.getShardNumel(this->symbols.getMesh(flat)), type.getElementType());
    return ReduceScatterOp::create(builder, loc, shard, whole, flat.getMesh(),
                                   flat.getShardAxes(),
                                   dividesEarly(flat) ? countShards(flat) : 1);
  }

  Value allReduce(OpBuilder &builder, Location loc, FlatParamOp flat,
                  Value shard) const {
    int64_t replicas = countReplicas(flat);
    if (replicas == 1)
      return shard;
    return AllReduceOp::create(
        builder, loc, shard.getType(), shard, flat.getMesh(),
        flat.getReplicateAxes(),
        dividesEarly(flat) ? replicas : countShards(flat) * replicas);
  }
};

/// pack + reduce_scatter + all_reduce + cast
struct ReduceGradPattern : GradientPattern<ReduceGradOp> {
  using GradientPattern::GradientPattern;

  LogicalResult
  matchAndRewrite(ReduceGradOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    FlatParamOp flat = symbols.getFlatParam(op.getFlatParamAttr());
    Location loc = op.getLoc();
    Value sum =
        pack(rewriter, loc, flat, flat.getReduceType(), adaptor.getGrads());
    sum = reduceScatter(rewriter, loc, flat, sum);
    sum = allReduce(rewriter, loc, flat, sum);
    rewriter.replaceOp(
        op, createCast(rewriter, loc, sum, getLocalType(op.getType())));
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
    Value grad = pack(rewriter, loc, flat,
                      isSharded ? flat.getReduceType() : local.getElementType(),
                      adaptor.getGrads());
    if (isSharded)
      grad = createCast(rewriter, loc, reduceScatter(rewriter, loc, flat, grad),
                        local);
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
          Value weight = v[1];
          if (weight.getType() != v[0].getType())
            weight = arith::ExtFOp::create(b, l, v[0].getType(), weight);
          return arith::DivFOp::create(b, l, v[0], weight);
        });
    // What no other rank receives keeps its precision.
    int64_t ranks = countReplicas(flat) * (isSharded ? 1 : countShards(flat));
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

/// The sum of squares of a shard, in f32: rows first, then the rows. Long sums
/// in float32 lose digits; rows also give threads something to share.
Value createSquareSum(OpBuilder &builder, Location loc, Value flat) {
  auto type = cast<RankedTensorType>(flat.getType());
  int64_t numel = type.getDimSize(0);
  int64_t row = std::min(numel & -numel, getShardAlignment(numel));
  Type f32 = builder.getF32Type();
  auto reduce = [&](Value input, bool square) -> Value {
    auto inputType = cast<RankedTensorType>(input.getType());
    int64_t rank = inputType.getRank();
    auto resultType =
        RankedTensorType::get(inputType.getShape().drop_back(), f32);
    Value zero =
        arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0.0f));
    Value init =
        tensor::EmptyOp::create(builder, loc, resultType.getShape(), f32);
    init = linalg::FillOp::create(builder, loc, zero, init).getResult(0);
    SmallVector<utils::IteratorType> iterators(rank,
                                               utils::IteratorType::parallel);
    iterators.back() = utils::IteratorType::reduction;
    AffineMap identity = builder.getMultiDimIdentityMap(rank);
    return linalg::GenericOp::create(
               builder, loc, resultType, input, init,
               {identity, identity.dropResult(rank - 1)}, iterators,
               [&](OpBuilder &b, Location l, ValueRange args) {
                 Value x = args[0];
                 if (x.getType() != f32)
                   x = x.getType().getIntOrFloatBitWidth() < 32
                           ? arith::ExtFOp::create(b, l, f32, x).getResult()
                           : arith::TruncFOp::create(b, l, f32, x).getResult();
                 if (square)
                   x = arith::MulFOp::create(b, l, x, x);
                 x = arith::AddFOp::create(b, l, args[1], x);
                 linalg::YieldOp::create(b, l, x);
               })
        .getResult(0);
  };
  auto rows = RankedTensorType::get({numel / row, row}, type.getElementType());
  SmallVector<ReassociationIndices> groups{{0, 1}};
  Value matrix =
      tensor::ExpandShapeOp::create(builder, loc, rows, flat, groups);
  return reduce(reduce(matrix, /*square=*/true), /*square=*/false);
}

/// sums of squares + all_reduce over the axes that hold different pieces. Where
/// each rank has a gradient of its own, their mean over all ranks counts.
struct GradNormPattern : LogicalPattern<GradNormOp> {
  using LogicalPattern::LogicalPattern;

  LogicalResult
  matchAndRewrite(GradNormOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    auto scalar = RankedTensorType::get({}, rewriter.getF32Type());
    auto add = [&](Value a, Value b) -> Value {
      if (!a)
        return b;
      return createElementwise(
          rewriter, loc, scalar, {a, b},
          [](OpBuilder &nested, Location l, ValueRange v) -> Value {
            return arith::AddFOp::create(nested, l, v[0], v[1]);
          });
    };
    // By mesh, axes and divisor.
    llvm::MapVector<std::tuple<Attribute, Attribute, int64_t>, Value> groups;
    for (auto [logical, grad] : llvm::zip(op.getGrads(), adaptor.getGrads())) {
      FlatParamOp flat = symbols.getFlatParam(
          cast<ShardedType>(logical.getType()).getFlatParam());
      // Right behind the gradient, while it is in the cache and before it can
      // be freed.
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointAfterValue(grad);
      Value square = createSquareSum(rewriter, loc, grad);
      rewriter.setInsertionPoint(op);
      MeshOp mesh = symbols.getMesh(flat);
      bool isOwn = flat.isRankOwn();
      Value &group = groups[{flat.getMeshAttr(),
                             isOwn ? getAllAxes(mesh) : flat.getShardAxes(),
                             isOwn ? mesh.getWorldSize() : 1}];
      group = add(group, square);
    }
    Value total;
    for (auto &[key, sum] : groups) {
      auto [mesh, axes, divisor] = key;
      total = add(total,
                  AllReduceOp::create(rewriter, loc, scalar, sum,
                                      cast<FlatSymbolRefAttr>(mesh).getValue(),
                                      cast<ArrayAttr>(axes), divisor));
    }
    rewriter.replaceOp(
        op,
        createElementwise(rewriter, loc, scalar, total,
                          [](OpBuilder &b, Location l, ValueRange v) -> Value {
                            return math::SqrtOp::create(b, l, v[0]);
                          }));
    return success();
  }
};

/// The optimizer's body, with the shard's size where it has a dynamic one.
struct UpdatePattern : LogicalPattern<UpdateOp> {
  using LogicalPattern::LogicalPattern;

  LogicalResult
  matchAndRewrite(UpdateOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto func = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        op, op.getOptimizerAttr());
    FailureOr<OptimizerFunction> optimizer = readOptimizer(func);
    if (failed(optimizer))
      return failure();
    Location loc = op.getLoc();
    int64_t size = 0;
    IRMapping mapping;
    for (auto [arg, formal, value] :
         llvm::zip(adaptor.getArgs(), func.getArguments(), optimizer->args)) {
      auto type = cast<RankedTensorType>(arg.getType());
      if (type.getRank() == 1)
        size = type.getDimSize(0);
      Value actual = createCast(rewriter, loc, arg,
                                type.clone(value.type.getElementType()));
      if (value.role == OptimizerRole::Grad && adaptor.getScale())
        actual = createElementwise(
            rewriter, loc, cast<RankedTensorType>(actual.getType()),
            {actual, adaptor.getScale()},
            [](OpBuilder &b, Location l, ValueRange v) -> Value {
              Value scale = v[1];
              if (scale.getType() != v[0].getType())
                scale =
                    v[0].getType().getIntOrFloatBitWidth() < 32
                        ? arith::TruncFOp::create(b, l, v[0].getType(), scale)
                              .getResult()
                        : arith::ExtFOp::create(b, l, v[0].getType(), scale)
                              .getResult();
              return arith::MulFOp::create(b, l, v[0], scale);
            });
      mapping.map(formal, actual);
    }
    for (Operation &inner : func.getBody().front().without_terminator())
      if (failed(cloneSized(rewriter, inner, mapping, size))) {
        InFlightDiagnostic diag =
            op.emitOpError("expected an optimizer that is elementwise on flat "
                           "tensors, got ")
            << inner.getName() << " in " << op.getOptimizerAttr();
        diag.attachNote(inner.getLoc()) << "it is here";
        return diag;
      }
    SmallVector<Value> results;
    for (auto [value, result, read] :
         llvm::zip(func.getBody().front().getTerminator()->getOperands(),
                   op.getResults(), optimizer->results)) {
      Value updated = createCast(rewriter, loc, mapping.lookup(value),
                                 getLocalType(result.getType()));
      if (adaptor.getNorm())
        updated =
            keepUnlessFinite(rewriter, loc, adaptor.getNorm(), updated,
                             getReplaced(read, *optimizer, adaptor.getArgs()));
      results.push_back(updated);
    }
    rewriter.replaceOp(op, results);
    return success();
  }

private:
  /// The argument whose new value is the result @read.
  static Value getReplaced(const OptimizerValue &read,
                           const OptimizerFunction &optimizer,
                           ValueRange args) {
    auto formal = llvm::find_if(optimizer.args, [&](const OptimizerValue &arg) {
      return arg.role == read.role && arg.name == read.name;
    });
    // readOptimizer has found that each result has one.
    return args[formal - optimizer.args.begin()];
  }

  /// @updated where |@norm| is less than infinity, else @old: a selection,
  /// since zero times what is not finite is not zero.
  static Value keepUnlessFinite(OpBuilder &builder, Location loc, Value norm,
                                Value updated, Value old) {
    return createElementwise(
        builder, loc, cast<RankedTensorType>(updated.getType()),
        {updated, old, norm}, [](OpBuilder &b, Location l, ValueRange v) {
          auto type = cast<FloatType>(v[2].getType());
          Value limit = arith::ConstantOp::create(
              b, l,
              b.getFloatAttr(type, APFloat::getInf(type.getFloatSemantics())));
          Value size = math::AbsFOp::create(b, l, v[2]);
          Value isFinite = arith::CmpFOp::create(
              b, l, arith::CmpFPredicate::OLT, size, limit);
          return arith::SelectOp::create(b, l, isFinite, v[0], v[1])
              .getResult();
        });
  }

  static Type getSizedType(Type type, int64_t size) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || tensor.hasStaticShape())
      return type;
    if (tensor.getRank() != 1)
      return {};
    return RankedTensorType::get(size, tensor.getElementType());
  }

  static LogicalResult cloneSized(OpBuilder &builder, Operation &op,
                                  IRMapping &mapping, int64_t size) {
    if (auto dim = dyn_cast<tensor::DimOp>(op)) {
      Value value = arith::ConstantIndexOp::create(builder, op.getLoc(), size);
      mapping.map(dim.getResult(), value);
      return success();
    }
    if (auto empty = dyn_cast<tensor::EmptyOp>(op)) {
      auto type = dyn_cast_or_null<RankedTensorType>(
          getSizedType(empty.getType(), size));
      if (!type)
        return failure();
      Value value = tensor::EmptyOp::create(
          builder, op.getLoc(), type.getShape(), type.getElementType());
      mapping.map(empty.getResult(), value);
      return success();
    }
    if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
      auto type = dyn_cast_or_null<RankedTensorType>(
          getSizedType(splat.getType(), size));
      if (!type)
        return failure();
      Value value = tensor::SplatOp::create(
          builder, op.getLoc(), mapping.lookup(splat.getInput()), type);
      mapping.map(splat.getResult(), value);
      return success();
    }
    // Sizes agree by construction, so an assertion about them holds. One about
    // values would be lost: refuse it.
    if (isa<cf::AssertOp>(op)) {
      Operation *condition = op.getOperand(0).getDefiningOp();
      if (isa_and_nonnull<arith::CmpIOp>(condition) &&
          isa<IndexType>(condition->getOperand(0).getType()))
        return success();
      return failure();
    }
    Operation *copy = builder.clone(op, mapping);
    for (Value result : copy->getResults()) {
      Type type = getSizedType(result.getType(), size);
      if (!type)
        return failure();
      result.setType(type);
    }
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
/// a mean of two neighbours in bf16 is 0.4 % off.
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
    loss.set(AllReduceOp::create(builder, loc, type, value, mesh.getSymName(),
                                 getAllAxes(mesh), mesh.getWorldSize()));
  }
  program.setFunctionType(
      builder.getFunctionType(program.getArgumentTypes(), results));
}

/// Every flat parameter that a type of `program` names is in the module. Ops
/// check theirs; arguments and values that only pass through have no op that
/// does.
LogicalResult verifyFlatParams(ProgramOp program, const Symbols &symbols) {
  auto check = [&](Operation *op, TypeRange types) -> LogicalResult {
    for (Type type : types) {
      FlatSymbolRefAttr name;
      if (auto shard = dyn_cast<ShardedType>(type))
        name = shard.getFlatParam();
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
    Symbols symbols(module);
    // Programs that take no shards are at L2 already (or somebody else's).
    SmallVector<ProgramOp> programs;
    for (auto program : module.getOps<ProgramOp>())
      if (llvm::any_of(program.getArgumentTypes(), llvm::IsaPred<ShardedType>))
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
                        const Symbols &symbols) {
    ConversionTarget target(getContext());
    target.addIllegalOp<UnshardOp, MemberOp, ReshardOp, ReduceGradOp,
                        AccumulateGradOp, ReduceAccumulatedOp, GradNormOp,
                        UpdateOp>();
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
    patterns.add<UnshardPattern, MemberPattern, ReshardPattern,
                 ReduceGradPattern, AccumulateGradPattern,
                 ReduceAccumulatedPattern, GradNormPattern, UpdatePattern>(
        converter, &getContext(), symbols);
    return applyPartialConversion(program, target, std::move(patterns));
  }
};
} // namespace
