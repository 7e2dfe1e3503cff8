//===- UpdatePatterns.cpp - Norm and update, from L1 to L2 ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The norm of gradients becomes sums of squares of the shards, added up over
// the ranks that hold different ones; an update becomes the optimizer's body,
// on the shard that this rank holds.
//
//===----------------------------------------------------------------------===//

#include "LogicalPatterns.h"
#include "OptimizerBody.h"
#include "PartitionUtils.h"
#include "fsdp/Analysis/Contract/OptimizerContract.h"
#include "fsdp/Analysis/Step/FlatLayout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::fsdp;

/// The sum of squares of a shard, times @scale where that is not null, in f32:
/// rows first, then the rows. Long sums in float32 lose digits; rows also give
/// threads something to share.
static Value createSquareSum(OpBuilder &builder, Location loc, Value flat,
                             Value scale) {
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
    SmallVector<Value> inputs = {input};
    SmallVector<AffineMap> maps = {identity, identity.dropResult(rank - 1)};
    if (square && scale) {
      inputs.push_back(scale);
      maps.insert(maps.begin() + 1,
                  AffineMap::get(rank, 0, builder.getContext()));
    }
    return linalg::GenericOp::create(
               builder, loc, resultType, inputs, init, maps, iterators,
               [&](OpBuilder &b, Location l, ValueRange args) {
                 Value x = convertScalarToDtype(b, l, args[0], f32,
                                                /*isUnsignedCast=*/false);
                 if (inputs.size() > 1)
                   x = arith::MulFOp::create(
                       b, l, x,
                       convertScalarToDtype(b, l, args[1], f32,
                                            /*isUnsignedCast=*/false));
                 if (square)
                   x = arith::MulFOp::create(b, l, x, x);
                 x = arith::AddFOp::create(b, l, args.back(), x);
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

namespace {
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
      // Right after the gradient, while it is in the cache and before it can
      // be freed.
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointAfterValue(grad);
      Value square = createSquareSum(rewriter, loc, grad, adaptor.getScale());
      rewriter.setInsertionPoint(op);
      MeshOp mesh = symbols.getMesh(flat);
      bool isOwn = flat.isRankOwn();
      Value &group =
          groups[{flat.getMeshAttr(),
                  isOwn ? getAllAxes(mesh) : mesh.sortAxes(flat.getShardAxes()),
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
    FlatParamOp flat = getFlatParam(op);
    if (!flat)
      return failure();
    ShardRuns runs =
        ShardRuns::get(flat, symbols.getMesh(flat), adaptor.getRank());
    OptimizerInliner inliner(rewriter, runs);
    for (auto [arg, formal, value] :
         llvm::zip(adaptor.getArgs(), func.getArguments(), optimizer->args)) {
      auto type = cast<RankedTensorType>(arg.getType());
      Value actual = createCast(rewriter, loc, arg,
                                type.clone(value.type.getElementType()));
      if (value.role == OptimizerRole::Grad && adaptor.getScale())
        actual = createElementwise(
            rewriter, loc, cast<RankedTensorType>(actual.getType()),
            {actual, adaptor.getScale()},
            [](OpBuilder &b, Location l, ValueRange v) -> Value {
              // In f32 at least: f16 does not hold all scales.
              auto own = cast<FloatType>(v[0].getType());
              Type wide = own.getWidth() < 32 ? Type(b.getF32Type()) : own;
              auto convert = [&](Value number, Type to) {
                return convertScalarToDtype(b, l, number, to,
                                            /*isUnsignedCast=*/false);
              };
              return convert(arith::MulFOp::create(b, l, convert(v[0], wide),
                                                   convert(v[1], wide)),
                             own);
            });
      inliner.map(formal, actual);
    }
    // update_c4: scalars of further runs, run by run.
    auto scalar = adaptor.getRunScalars().begin();
    for (unsigned run = 1; run < runs.size(); ++run)
      for (auto [formal, value] :
           llvm::zip(func.getArguments(), optimizer->args))
        if (value.role == OptimizerRole::Scalar)
          inliner.map(formal, *scalar++, run);
    inliner.findDependents(func.getBody().front());
    for (Operation &inner : func.getBody().front().without_terminator())
      if (failed(inliner.copy(inner))) {
        InFlightDiagnostic diag = op.emitOpError();
        if (inliner.readsDifferent(inner))
          diag << "expected linalg.generic, linalg.fill or tensor.splat where "
                  "flat tensors meet a scalar that differs among groups, got ";
        else
          diag << "expected an optimizer that is elementwise on flat tensors, "
                  "got ";
        diag << inner.getName() << " in " << op.getOptimizerAttr();
        diag.attachNote(inner.getLoc()) << "it is here";
        return diag;
      }
    SmallVector<Value> results;
    for (auto [value, result, read] :
         llvm::zip(func.getBody().front().getTerminator()->getOperands(),
                   op.getResults(), optimizer->results)) {
      // optimizer_c8: one for all runs.
      Value copy = inliner.lookup(value);
      Value updated =
          createCast(rewriter, loc, copy, getLocalType(result.getType()));
      if (adaptor.getNorm())
        updated =
            selectIfFinite(rewriter, loc, adaptor.getNorm(), updated,
                           getReplaced(read, *optimizer, adaptor.getArgs()));
      results.push_back(updated);
    }
    rewriter.replaceOp(op, results);
    return success();
  }

private:
  /// That of the shards; null where the optimizer has none.
  FlatParamOp getFlatParam(UpdateOp op) const {
    for (Type type : op.getArgs().getTypes())
      if (auto shard = dyn_cast<ShardedType>(type))
        return symbols.getFlatParam(shard.getFlatParam());
    return {};
  }

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
};
} // namespace

void fsdp::populateUpdatePatterns(RewritePatternSet &patterns,
                                  const TypeConverter &converter,
                                  const FlatParamSymbols &symbols) {
  patterns.add<GradNormPattern, UpdatePattern>(converter, patterns.getContext(),
                                               symbols);
}
