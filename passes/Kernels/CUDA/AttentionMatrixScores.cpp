//===- AttentionMatrixScores.cpp - Scores on tensor cores -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionMatrixEmitter.h"

using namespace mlir;
using namespace mlir::fsdp;

static constexpr float kLog2E = 0x1.715476p0;

/// Tiles of several products have queries that a mask treats differently.
bool AttentionMatrixEmitter::evaluatesScores() const {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  return !parts.isPlain || !(parts.scale > 0) ||
         (parts.isCausal && !isOfOneProduct) ||
         std::max(stretch, rowCount) > most;
}

float AttentionMatrixEmitter::getFactor() const { return parts.scale * kLog2E; }

/// Each row has a bound for the numbers of its columns, which are of queries
/// from its own one on, or of keys up to it.
SmallVector<Value>
AttentionMatrixEmitter::maskScores(ValueRange raw, Value first,
                                   const std::array<Point, 2> &rows) {
  auto toI32 = [&](Value value) -> Value {
    return arith::IndexCastOp::create(builder, loc, builder.getI32Type(),
                                      value);
  };
  auto subtract = [&](Value a, Value b) -> Value {
    return arith::SubIOp::create(builder, loc, a, b);
  };
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getI32IntegerAttr(value));
  };
  Value place = toI32(getPlace(first, pair));
  Value last;
  if (columnsOfStretch != stretch)
    last = subtract(constant(columnsOfStretch - 1), place);
  Rows bounds;
  if (parts.isCausal)
    for (auto [bound, row] : llvm::zip(bounds, rows))
      bound = subtract(toI32(isOfKeys ? row.key : row.query), place);
  Values masked;
  for (auto [i, score] : llvm::enumerate(raw)) {
    int64_t column = getColumnOf(i);
    Value offset = constant(column / 2 * 8 + column % 2), isSeen;
    auto expect = [&](arith::CmpIPredicate predicate, Value bound) {
      Value holds =
          arith::CmpIOp::create(builder, loc, predicate, offset, bound);
      isSeen = isSeen
                   ? Value(arith::AndIOp::create(builder, loc, isSeen, holds))
                   : holds;
    };
    if (parts.isCausal)
      expect(isOfKeys ? arith::CmpIPredicate::sge : arith::CmpIPredicate::sle,
             bounds[getRowOf(i)]);
    if (last)
      expect(arith::CmpIPredicate::sle, last);
    masked.push_back(select(isSeen, score, minusInfinity()));
  }
  return masked;
}

SmallVector<Value>
AttentionMatrixEmitter::getScores(Values raw, Value first,
                                  const std::array<Point, 2> &rows) {
  Value scale = scalar(parts.scale);
  if (evaluatesScores()) {
    SmallVector<Column> columns = getColumns(first);
    for (auto [i, score] : llvm::enumerate(raw)) {
      const Column &column = columns[getColumnOf(i)];
      Value scaled = mulF(score, scale);
      score = evaluate(*parts.score, {scaled},
                       join(rows[getRowOf(i)], column.point));
      if (column.exists)
        score = select(column.exists, score, minusInfinity());
    }
    return raw;
  }
  if (Value whole = isWhole(first)) {
    auto branch = scf::IfOp::create(builder, loc, TypeRange(ValueRange(raw)),
                                    whole, /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder, loc, raw);
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, loc, maskScores(raw, first, rows));
    raw = llvm::to_vector_of<Value>(branch.getResults());
  }
  if (!isFolded())
    for (Value &score : raw)
      score = mulF(score, scale);
  return raw;
}

Value AttentionMatrixEmitter::getShift(Value maximum) {
  return isFolded() ? mulF(maximum, scalar(-getFactor())) : Value();
}

Value AttentionMatrixEmitter::exponentiate(Value difference) {
  if (!parts.isFast)
    return expF(difference);
  return approximateExp2(builder, loc, mulF(difference, scalar(kLog2E)));
}

/// What a function makes of scores may be so far below 0, as masks are that add
/// the least number, that no factor goes before the difference.
Value AttentionMatrixEmitter::exponentiate(Value score, Value maximum,
                                           Value shift) {
  if (!isFolded())
    return exponentiate(subF(score, maximum));
  return approximateExp2(builder, loc, fma(score, scalar(getFactor()), shift));
}

Value AttentionMatrixEmitter::getCorrection(Value before, Value maximum,
                                            Value shift) {
  if (!isFolded())
    return exponentiate(subF(before, maximum));
  return approximateExp2(builder, loc, subF(shift, getShift(before)));
}

Value AttentionMatrixEmitter::getNegatedLogarithm(Value maximum,
                                                  Value inverse) {
  return fma(maximum, scalar(-kLog2E),
             math::Log2Op::create(builder, loc, inverse));
}

Value AttentionMatrixEmitter::getProbability(Value score,
                                             const Statistics &statistics) {
  Value weight =
      exponentiate(score, statistics.maximum, /*shift=*/statistics.maximum);
  return isFolded() ? weight : mulF(weight, statistics.inverse);
}

AttentionMatrixEmitter::Statistics
AttentionMatrixEmitter::loadRowStatistics(const Point &query) {
  Value which = arith::RemUIOp::create(builder, loc, lane, index(4));
  Statistics row{loadStats(query, /*isInverse=*/false),
                 loadStats(query, /*isInverse=*/true),
                 emitDelta(query, which, 4)};
  if (isFolded())
    row = {getNegatedLogarithm(row.maximum, row.inverse), Value(), row.delta};
  return row;
}

/// By one thread of a row, and by one block.
void AttentionMatrixEmitter::storeRowValues(
    const std::array<Point, 2> &queries,
    const std::array<Statistics, 2> &ofRows) {
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        add(pair, groupNumber), index(0));
  for (int64_t row = 0; row != 2; ++row) {
    Value exists = isBelow(add(firstRow, getThreadRow(row)), index(rowCount));
    emitIf(arith::AndIOp::create(builder, loc, isFirst, exists), [&] {
      auto store = [&](AttentionRowValue which, Value value) {
        memref::StoreOp::create(builder, loc, value, getWorkspace(),
                                getRowValueAddress(queries[row], which));
      };
      store(kDelta, ofRows[row].delta);
      if (parts.getRowValues() > kLogarithm)
        store(kLogarithm, ofRows[row].maximum);
    });
  }
}

/// Those of neighbouring columns lie side by side.
SmallVector<AttentionMatrixEmitter::Statistics>
AttentionMatrixEmitter::loadColumnStatistics() {
  SmallVector<Statistics> ofColumns(tiles.columns / 4);
  for (size_t i = 0; i != ofColumns.size(); i += 2) {
    Value place = add(pair, index(i * 4));
    if (statisticsStage)
      place = add(place, statisticsStage);
    auto load = [&](int64_t which) {
      return loadFloatPair(builder, loc, statisticsPointer,
                           add(place, index(which * tiles.columns)));
    };
    std::array<Value, 2> deltas = load(0), maxima = load(1), inverses;
    if (!isFolded())
      inverses = load(2);
    for (int64_t j = 0; j != 2; ++j)
      ofColumns[i + j] = {maxima[j], inverses[j], deltas[j]};
  }
  return ofColumns;
}

SmallVector<Value>
AttentionMatrixEmitter::getFactors(Value first,
                                   const std::array<Point, 2> &rows) {
  Values factors;
  if (!parts.hasFactor())
    return factors;
  SmallVector<Column> columns = getColumns(first);
  for (int64_t i = 0, e = tiles.columns / 2; i != e; ++i)
    factors.push_back(
        getFactorAt(join(rows[getRowOf(i)], columns[getColumnOf(i)].point)));
  return factors;
}

void AttentionMatrixEmitter::multiplyAll(Values &values, ValueRange factors) {
  for (auto [value, factor] : llvm::zip(values, factors))
    value = mulF(value, factor);
}

void AttentionMatrixEmitter::differentiate(
    Values &products, Values &gradients, Value first,
    const std::array<Point, 2> &rows,
    llvm::function_ref<Statistics(int64_t)> getStatistics) {
  Values scores = getScores(products, first, rows);
  SmallVector<Column> columns;
  if (evaluatesScores())
    columns = getColumns(first);
  Values factors = getFactors(first, rows);
  multiplyAll(gradients, factors);
  for (auto [i, product] : llvm::enumerate(products)) {
    Statistics statistics = getStatistics(i);
    Value weight = getProbability(scores[i], statistics);
    Value gradient = mulF(weight, subF(gradients[i], statistics.delta));
    if (evaluatesScores()) {
      const Column &column = columns[getColumnOf(i)];
      Value raw = mulF(product, scalar(parts.scale));
      gradient = evaluate(*parts.gradient, {gradient, raw},
                          join(rows[getRowOf(i)], column.point));
      if (column.exists) {
        weight = select(column.exists, weight, scalar(0));
        gradient = select(column.exists, gradient, scalar(0));
      }
    }
    product = weight;
    gradients[i] = gradient;
  }
  multiplyAll(products, factors);
}
