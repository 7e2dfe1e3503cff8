//===- PowerSGD.cpp - Low-rank approximations of gradients ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two all_reduces: of all P of the flat parameter, with what is sent whole, and
// of all Q. Products are linalg.matmul; Gram-Schmidt is a line of ops on
// vectors: of r columns r (r - 1) differences, as many dot products, and 3 r
// more ops.
//
//===----------------------------------------------------------------------===//

#include "PowerSGD.h"
#include "fsdp/Passes/Elementwise.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Decisions
//===----------------------------------------------------------------------===//

/// Ops of Gram-Schmidt grow with its square.
static constexpr int64_t kMostRank = 16;

llvm::Error PowerSGD::setOption(StringRef key, StringRef value) {
  auto expect = [&](const Twine &what) {
    return llvm::createStringError("expected " + what + ", got '" + value +
                                   "'");
  };
  if (key == "rank")
    return value.getAsInteger(10, rank) || rank < 1 || rank > kMostRank
               ? expect("a rank from 1 to " + Twine(kMostRank))
               : llvm::Error::success();
  if (key == "min-compression-rate")
    return value.getAsDouble(minRate) || !std::isfinite(minRate) || minRate <= 0
               ? expect("a min-compression-rate above 0")
               : llvm::Error::success();
  if (key == "epsilon")
    return value.getAsDouble(epsilon) || !(epsilon >= 0 && epsilon <= 1)
               ? expect("an epsilon from 0 to 1")
               : llvm::Error::success();
  if (key == "error-feedback") {
    if (value != "true" && value != "false")
      return expect("error-feedback of true or false");
    keepsError = value == "true";
    return llvm::Error::success();
  }
  if (key == "start-iter")
    return llvm::createStringError(
        "expected no start-iter, got '" + value +
        "': a program reduces alike in all steps; train the first ones by one "
        "without the hook, and --resume by one with it");
  return llvm::createStringError(
      "expected rank, min-compression-rate, epsilon or error-feedback before "
      "'=', got '" +
      key + "'");
}

llvm::Error PowerSGD::check(const HookTarget &target) const {
  if (target.isWhole)
    return llvm::Error::success();
  return llvm::createStringError(
      "expected strategy no_shard, with the gradients of whole matrices on "
      "each rank, got pieces of '" +
      target.name + "', which cut through rows");
}

/// view(shape[0], -1), as PyTorch has it; of a vector or a number, one column.
PowerSGD::Matrix PowerSGD::getMatrix(const HookTarget::Member &member) const {
  Matrix it;
  it.member = &member;
  it.n = member.shape.empty() ? 1 : member.shape.front();
  it.m = 1;
  for (int64_t size : ArrayRef(member.shape).drop_front(!member.shape.empty()))
    it.m *= size;
  it.r = std::min({it.n, it.m, rank});
  it.isWhole = double((it.n + it.m) * it.r) * minRate >= double(it.n * it.m);
  return it;
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

namespace {
/// Ops on the floats of one type.
class Algebra {
public:
  Algebra(HookedReduction &reduction, Type element)
      : reduction(reduction), builder(reduction.builder), loc(reduction.loc),
        element(element) {}

  RankedTensorType getType(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, element);
  }
  Value multiply(Value a, Value b);
  Value transpose(Value matrix);
  Value add(Value a, Value b);
  Value subtract(Value a, Value b);
  /// The sums over the last dimension of what `body` makes of elements of
  /// @inputs, which have one shape.
  Value sumRows(ValueRange inputs,
                llvm::function_ref<Value(OpBuilder &, ValueRange)> body);
  Value dot(Value a, Value b);
  /// The rows that lie one after another in @flat from @offset on, made
  /// orthonormal; a row of zeros stays one. One tensor of `count` rows.
  Value orthonormalise(Value flat, int64_t offset, int64_t count,
                       int64_t length, double epsilon);
  /// @matrix, row-major, with one dimension.
  Value flatten(Value matrix);
  /// @matrix, but rows of @other where @matrix has zeros alone.
  Value replaceZeroRows(Value matrix, Value other);

private:
  HookedReduction &reduction;
  OpBuilder &builder;
  Location loc;
  Type element;
};
} // namespace

static Value createZero(OpBuilder &builder, Location loc, Type element) {
  return arith::ConstantOp::create(builder, loc,
                                   builder.getFloatAttr(element, 0.0));
}

Value Algebra::multiply(Value a, Value b) {
  auto left = cast<RankedTensorType>(a.getType()),
       right = cast<RankedTensorType>(b.getType());
  RankedTensorType type = getType({left.getDimSize(0), right.getDimSize(1)});
  Value init = tensor::EmptyOp::create(builder, loc, type.getShape(), element);
  init = linalg::FillOp::create(builder, loc, createZero(builder, loc, element),
                                init)
             .getResult(0);
  return linalg::MatmulOp::create(builder, loc, type, ValueRange{a, b}, init)
      .getResult(0);
}

Value Algebra::transpose(Value matrix) {
  auto type = cast<RankedTensorType>(matrix.getType());
  Value init = tensor::EmptyOp::create(
      builder, loc, {type.getDimSize(1), type.getDimSize(0)}, element);
  return linalg::TransposeOp::create(builder, loc, matrix, init,
                                     ArrayRef<int64_t>{1, 0})
      ->getResult(0);
}

Value Algebra::add(Value a, Value b) {
  return createElementwise(builder, loc, cast<RankedTensorType>(a.getType()),
                           {a, b},
                           [](OpBuilder &b, Location l, ValueRange v) -> Value {
                             return arith::AddFOp::create(b, l, v[0], v[1]);
                           });
}

Value Algebra::subtract(Value a, Value b) {
  return createElementwise(builder, loc, cast<RankedTensorType>(a.getType()),
                           {a, b},
                           [](OpBuilder &b, Location l, ValueRange v) -> Value {
                             return arith::SubFOp::create(b, l, v[0], v[1]);
                           });
}

Value Algebra::sumRows(
    ValueRange inputs,
    llvm::function_ref<Value(OpBuilder &, ValueRange)> body) {
  auto type = cast<RankedTensorType>(inputs.front().getType());
  unsigned rank = type.getRank();
  RankedTensorType sums = getType(type.getShape().drop_back());
  Value init = tensor::EmptyOp::create(builder, loc, sums.getShape(), element);
  init = linalg::FillOp::create(builder, loc, createZero(builder, loc, element),
                                init)
             .getResult(0);
  AffineMap identity = builder.getMultiDimIdentityMap(rank);
  SmallVector<AffineMap> maps(inputs.size(), identity);
  maps.push_back(identity.dropResult(rank - 1));
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  iterators.back() = utils::IteratorType::reduction;
  return linalg::GenericOp::create(
             builder, loc, sums, inputs, init, maps, iterators,
             [&](OpBuilder &b, Location l, ValueRange v) {
               Value term = body(b, v.drop_back());
               Value sum = arith::AddFOp::create(b, l, v.back(), term);
               linalg::YieldOp::create(b, l, sum);
             })
      .getResult(0);
}

/// In rows first, whose sums are exacter than one long one, and which threads
/// share.
Value Algebra::dot(Value a, Value b) {
  constexpr int64_t kMostInRow = 512;
  int64_t length = cast<RankedTensorType>(a.getType()).getDimSize(0);
  int64_t row = std::min(length, kMostInRow);
  while (length % row)
    --row;
  auto product = [&](OpBuilder &nested, ValueRange v) -> Value {
    return arith::MulFOp::create(nested, loc, v[0], v[1]);
  };
  if (row == 1 || row == length)
    return sumRows({a, b}, product);
  SmallVector<ReassociationIndices> groups{{0, 1}};
  auto toRows = [&](Value vector) -> Value {
    return tensor::ExpandShapeOp::create(
        builder, loc, getType({length / row, row}), vector, groups);
  };
  Value sums = sumRows({toRows(a), toRows(b)}, product);
  return sumRows(sums, [](OpBuilder &, ValueRange v) { return v[0]; });
}

Value Algebra::orthonormalise(Value flat, int64_t offset, int64_t count,
                              int64_t length, double epsilon) {
  RankedTensorType type = getType(length);
  SmallVector<Value> rows;
  SmallVector<int64_t> offsets;
  for (int64_t i = 0; i < count; ++i) {
    rows.push_back(reduction.view(flat, offset + i * length, length));
    offsets.push_back(i * length);
  }
  // Of a row that the ones before span, rounding errors are left, which need
  // not be orthogonal to them: below this part of its square it is none.
  constexpr double kLeast = 1e-12;
  // The second round takes what the first leaves along the rows before. With an
  // epsilon, as PyTorch has it, rows are shorter than 1, and a second one would
  // take more.
  const int rounds = epsilon > 0 ? 1 : 2;
  for (int64_t i = 0; i < count; ++i) {
    Value before = dot(rows[i], rows[i]);
    for (int round = 0; round < rounds; ++round)
      for (int64_t j = 0; j < i; ++j)
        rows[i] = createElementwise(
            builder, loc, type, {rows[i], rows[j], dot(rows[j], rows[i])},
            [](OpBuilder &b, Location l, ValueRange v) -> Value {
              Value along = arith::MulFOp::create(b, l, v[1], v[2]);
              return arith::SubFOp::create(b, l, v[0], along);
            });
    // What is not finite, or whose square is not, becomes NaN.
    rows[i] = createElementwise(
        builder, loc, type, {rows[i], dot(rows[i], rows[i]), before},
        [&](OpBuilder &b, Location l, ValueRange v) -> Value {
          auto number = [&](double value) -> Value {
            return arith::ConstantOp::create(b, l,
                                             b.getFloatAttr(element, value));
          };
          Value zero = createZero(b, l, element);
          Value least = arith::MulFOp::create(b, l, v[2], number(kLeast));
          Value isSpanned = arith::CmpFOp::create(
              b, l, arith::CmpFPredicate::OLE, v[1], least);
          Value isFinite = arith::CmpFOp::create(
              b, l, arith::CmpFPredicate::OLT, v[2],
              number(std::numeric_limits<double>::infinity()));
          Value isZero = arith::AndIOp::create(b, l, isSpanned, isFinite);
          Value norm = math::SqrtOp::create(b, l, v[1]);
          // 0, or NaN of an infinite norm.
          Value mark = arith::SubFOp::create(b, l, norm, norm);
          if (epsilon > 0) {
            norm = arith::AddFOp::create(b, l, norm, number(epsilon));
          }
          Value unit = arith::DivFOp::create(b, l, v[0], norm);
          unit = arith::AddFOp::create(b, l, unit, mark);
          return arith::SelectOp::create(b, l, isZero, zero, unit);
        });
  }
  return reduction.view(reduction.pack(rows, offsets, count * length), 0,
                        {count, length});
}

Value Algebra::flatten(Value matrix) {
  SmallVector<ReassociationIndices> groups{{0, 1}};
  return tensor::CollapseShapeOp::create(builder, loc, matrix, groups);
}

Value Algebra::replaceZeroRows(Value matrix, Value other) {
  auto type = cast<RankedTensorType>(matrix.getType());
  Value squares = sumRows(matrix, [&](OpBuilder &b, ValueRange v) -> Value {
    return arith::MulFOp::create(b, loc, v[0], v[0]);
  });
  AffineMap identity = builder.getMultiDimIdentityMap(2);
  Value init = tensor::EmptyOp::create(builder, loc, type.getShape(), element);
  SmallVector<utils::IteratorType> iterators(2, utils::IteratorType::parallel);
  return linalg::GenericOp::create(
             builder, loc, type, ValueRange{matrix, other, squares}, init,
             {identity, identity, identity.dropResult(1), identity}, iterators,
             [&](OpBuilder &b, Location l, ValueRange v) {
               Value isZero =
                   arith::CmpFOp::create(b, l, arith::CmpFPredicate::OEQ, v[2],
                                         createZero(b, l, element));
               Value row = arith::SelectOp::create(b, l, isZero, v[1], v[0]);
               linalg::YieldOp::create(b, l, row);
             })
      .getResult(0);
}

namespace {
/// Tensors that lie one after another.
struct Message {
  SmallVector<Value> parts;
  SmallVector<int64_t> places;
  int64_t count = 0;

  /// Where @part begins.
  int64_t add(Value part) {
    parts.push_back(part);
    places.push_back(count);
    count += cast<RankedTensorType>(part.getType()).getNumElements();
    return places.back();
  }
  /// Their mean over the replicas, flat; null where there are none.
  Value reduce(HookedReduction &reduction) {
    return parts.empty()
               ? Value()
               : reduction.allReduce(reduction.pack(parts, places, count));
  }
};
} // namespace

static DictionaryAttr getZeros(Builder &builder) {
  return builder.getDictionaryAttr(
      {builder.getNamedAttr("kind", builder.getStringAttr("constant")),
       builder.getNamedAttr("value", builder.getF64FloatAttr(0))});
}

/// Standard, and the same on all ranks, as initialisers are.
static DictionaryAttr getNormal(Builder &builder) {
  return builder.getDictionaryAttr(
      {builder.getNamedAttr("kind", builder.getStringAttr("normal")),
       builder.getNamedAttr("mean", builder.getF64FloatAttr(0)),
       builder.getNamedAttr("std", builder.getF64FloatAttr(1))});
}

Value PowerSGD::reduce(HookedReduction &reduction, Value gradient) const {
  auto type = cast<RankedTensorType>(gradient.getType());
  Algebra algebra(reduction, type.getElementType());
  Builder &builder = reduction.builder;
  SmallVector<Matrix> matrices;
  for (const HookTarget::Member &member : reduction.target.members)
    matrices.push_back(getMatrix(member));

  // M Q of what is approximated, and all else.
  Message first;
  for (Matrix &it : matrices) {
    int64_t offset = it.member->offset;
    if (it.isWhole) {
      it.place = first.add(reduction.view(gradient, offset, it.n * it.m));
      continue;
    }
    it.value = reduction.view(gradient, offset, {it.n, it.m});
    if (keepsError)
      it.value = algebra.add(it.value,
                             reduction.getState(it.getErrorName(),
                                                algebra.getType({it.n, it.m}),
                                                getZeros(builder)));
    it.q = reduction.getState(it.getFactorName(), algebra.getType({it.r, it.m}),
                              getNormal(builder));
    Value q =
        algebra.orthonormalise(algebra.flatten(it.q), 0, it.r, it.m, epsilon);
    it.place = first.add(algebra.multiply(q, algebra.transpose(it.value)));
  }
  Value means = first.reduce(reduction);

  // M^T P.
  Message second;
  for (Matrix &it : matrices) {
    if (it.isWhole)
      continue;
    // PyTorch adds epsilon to norms of sums.
    it.p = algebra.orthonormalise(means, it.place, it.r, it.n,
                                  epsilon / reduction.target.replicas);
    it.place = second.add(algebra.multiply(it.p, it.value));
  }
  Value factors = second.reduce(reduction);

  SmallVector<Value> parts;
  SmallVector<int64_t> offsets;
  for (Matrix &it : matrices) {
    offsets.push_back(it.member->offset);
    if (it.isWhole) {
      parts.push_back(reduction.view(means, it.place, it.n * it.m));
      continue;
    }
    Value q = reduction.view(factors, it.place, {it.r, it.m});
    parts.push_back(algebra.multiply(algebra.transpose(it.p), q));
    if (keepsError)
      reduction.setState(it.getErrorName(),
                         algebra.subtract(it.value, parts.back()));
    // From zeros no step would get away.
    reduction.setState(it.getFactorName(), algebra.replaceZeroRows(q, it.q));
  }
  return reduction.pack(parts, offsets, type.getNumElements());
}
