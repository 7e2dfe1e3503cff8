//===- AttentionEmitter.cpp - Code for a tile of scores -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"
#include "fsdp-rt/cpu-attention.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace rt = ::fsdp::rt;

/// Keys that are handled at once; fixes the order in which a row is summed.
constexpr int64_t kLanes = rt::kTileUnit;
/// Keys whose factors are computed at once: rounds of a random number wait for
/// each other, so that only other numbers keep a processor busy.
constexpr int64_t kFactorLanes = 64;

AttentionTile mlir::fsdp::getAttentionTile(AttentionShapeAttr shape) {
  return {rt::getQueryTile(shape.getQueries(), shape.getBatchSize()),
          rt::getTileSize(shape.getKeys(), rt::kMaxTileKeys)};
}

int64_t mlir::fsdp::getAttentionScratch(AttentionShapeAttr shape,
                                        bool backward) {
  AttentionTile tile = getAttentionTile(shape);
  return rt::layOutAttention(backward, shape.getKeys(), shape.getHead(),
                             shape.getValue(), tile.queries, tile.keys)
             .size *
         int64_t(sizeof(float));
}

SmallVector<Type>
mlir::fsdp::getTileOperandTypes(Operation *op, ArrayRef<Type> capturedTypes) {
  bool backward = isa<AttentionBackwardOp>(op);
  AttentionTile tile =
      getAttentionTile(backward ? cast<AttentionBackwardOp>(op).getShape()
                                : cast<AttentionOp>(op).getShape());
  Builder builder(op->getContext());
  Type f32 = builder.getF32Type();
  Type scores = MemRefType::get({tile.queries * tile.keys}, f32);
  SmallVector<Type> types{
      MemRefType::get({rt::kPositionSize}, builder.getI64Type()), scores};
  if (backward)
    types.push_back(scores);
  types.push_back(MemRefType::get({rt::kTileRowFields * tile.queries}, f32));
  types.append(capturedTypes.begin(), capturedTypes.end());
  return types;
}

namespace {

/// A value at the keys of one vector: one for all, or one each.
struct Lanes {
  Value value;
  bool isVector = false;
  /// Of an index as it is, or as an integer: the same in 32 bits, which compare
  /// twice as fast. Null for anything else.
  Value narrow = {};
};

class TileEmitter {
public:
  TileEmitter(Operation *op, OpBuilder &builder, ValueRange operands);

  void emit(Value begin, Value end);

private:
  void emitScores();
  void emitExponentials();
  Value getReference(Value maximum);
  void emitCorrections(Value begin, Value end);
  void emitBackwardRow();
  /// Runs `body` at each vector of keys of the row, with the values that the
  /// one before left; the last one may be cut off.
  SmallVector<Value>
  emitKeys(ValueRange init,
           llvm::function_ref<SmallVector<Value>(ValueRange)> body);

  /// What a body yields at the current keys, as a vector.
  Value evaluate(Region &body, ArrayRef<Value> scores);
  void emitFactors();
  Value multiplyByFactors(Value value);
  Lanes evaluateOp(Operation &op, llvm::DenseMap<Value, Lanes> &values);
  void loadInvariants();
  Lanes loadCaptured(unsigned i);
  Value toVector(Lanes lanes);
  /// A coordinate, with its narrow form.
  Lanes getCoordinate(Value first, bool isVector);
  std::optional<Lanes> evaluateNarrow(Operation &op,
                                      llvm::DenseMap<Value, Lanes> &values);

  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(builder, loc, value);
  }
  Value scalar(float value) {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getF32FloatAttr(value));
  }
  Value splat(Value value) {
    return vector::BroadcastOp::create(
        builder, loc, VectorType::get({width}, value.getType()), value);
  }
  Value minusInfinity() {
    return scalar(-std::numeric_limits<float>::infinity());
  }
  Value add(Value a, Value b) {
    return arith::AddIOp::create(builder, loc, a, b);
  }
  Value mul(Value a, int64_t b) {
    return arith::MulIOp::create(builder, loc, a, index(b));
  }
  /// Number `i` of the position.
  Value position(int64_t i);
  Value loadRow(int64_t which);
  void storeRow(int64_t which, Value value);
  Value loadTile(Value tile);
  void storeTile(Value tile, Value value);
  /// In lanes behind the last key `otherwise`.
  Value masked(Value value, Value otherwise);

  bool backward;
  Region *score, *factor, *gradient = nullptr;
  AttentionShapeAttr shape;
  ArrayAttr capturedViews;
  AttentionTile tile;
  OpBuilder &builder;
  Location loc;
  Value at, scores, gradients, rows;
  /// The captured tensors, and their elements where all scores see one.
  SmallVector<Value> captured, invariants;

  SmallVector<Value> batchIndex;
  Value firstQuery, firstKey, columns;
  /// The row of the tile, and the current vector's first column.
  Value row, column;
  /// Keys of a vector.
  int64_t width = kLanes;
  /// The factors of the row's probabilities; null: they are 1.
  Value factors;
  /// Which lanes exist; null where all do.
  Value mask;
};

} // namespace

TileEmitter::TileEmitter(Operation *op, OpBuilder &builder, ValueRange operands)
    : backward(isa<AttentionBackwardOp>(op)), builder(builder),
      loc(op->getLoc()) {
  if (auto forwardOp = dyn_cast<AttentionOp>(op)) {
    shape = forwardOp.getShape();
    score = &forwardOp.getScore();
    factor = &forwardOp.getFactor();
    capturedViews = forwardOp.getCapturedViews();
  } else {
    auto backwardOp = cast<AttentionBackwardOp>(op);
    shape = backwardOp.getShape();
    score = &backwardOp.getScore();
    factor = &backwardOp.getFactor();
    gradient = &backwardOp.getGradient();
    capturedViews = backwardOp.getCapturedViews();
  }
  tile = getAttentionTile(shape);
  at = operands[0];
  scores = operands[1];
  if (backward)
    gradients = operands[2];
  rows = operands[backward ? 3 : 2];
  captured = llvm::to_vector(operands.drop_front(backward ? 4 : 3));
}

Value TileEmitter::position(int64_t i) {
  Value number = memref::LoadOp::create(builder, loc, at, index(i));
  return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                    number);
}

Value TileEmitter::loadRow(int64_t which) {
  return memref::LoadOp::create(builder, loc, rows,
                                add(row, index(which * tile.queries)));
}

void TileEmitter::storeRow(int64_t which, Value value) {
  memref::StoreOp::create(builder, loc, value, rows,
                          add(row, index(which * tile.queries)));
}

Value TileEmitter::loadTile(Value from) {
  return vector::LoadOp::create(builder, loc,
                                VectorType::get({width}, builder.getF32Type()),
                                from, add(mul(row, tile.keys), column));
}

void TileEmitter::storeTile(Value to, Value value) {
  vector::StoreOp::create(builder, loc, value, to,
                          add(mul(row, tile.keys), column));
}

Value TileEmitter::masked(Value value, Value otherwise) {
  if (!mask)
    return value;
  return arith::SelectOp::create(builder, loc, mask, value, otherwise);
}

Value TileEmitter::toVector(Lanes lanes) {
  return lanes.isVector ? lanes.value : splat(lanes.value);
}

/// Bools take a byte.
static Value toBool(OpBuilder &builder, Location loc, Value byte) {
  Value zero = arith::ConstantOp::create(builder, loc,
                                         builder.getZeroAttr(byte.getType()));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, byte,
                               zero);
}

/// Captured tensors of which all scores see one element: in front of the loops,
/// since what these store might be it, as far as LLVM knows.
void TileEmitter::loadInvariants() {
  invariants.assign(captured.size(), Value());
  for (auto [i, attr] : llvm::enumerate(capturedViews)) {
    auto view = cast<StridedAttr>(attr);
    if (llvm::all_of(view.getStrides().asArrayRef(),
                     [](int64_t stride) { return stride == 0; }))
      invariants[i] = memref::LoadOp::create(builder, loc, captured[i],
                                             index(view.getOffset()));
  }
}

/// The elements of a captured tensor at the current keys.
Lanes TileEmitter::loadCaptured(unsigned i) {
  if (invariants[i])
    return {invariants[i]};
  auto view = cast<StridedAttr>(capturedViews[i]);
  Value address = index(view.getOffset());
  for (auto [at, stride] : llvm::zip(batchIndex, view.getBatchStrides()))
    if (stride != 0)
      address = add(address, mul(at, stride));
  if (view.getRowStride() != 0)
    address = add(address, mul(add(firstQuery, row), view.getRowStride()));
  int64_t stride = view.getColumnStride();
  Value memory = captured[i];
  Type type = cast<MemRefType>(memory.getType()).getElementType();
  Lanes lanes;
  if (stride == 0) {
    lanes.value = memref::LoadOp::create(builder, loc, memory, address);
    return lanes;
  }
  lanes.isVector = true;
  address = add(address, mul(add(firstKey, column), stride));
  auto vectorType = VectorType::get({width}, type);
  Value zero =
      arith::ConstantOp::create(builder, loc, builder.getZeroAttr(vectorType));
  if (stride == 1 && !mask) {
    lanes.value =
        vector::LoadOp::create(builder, loc, vectorType, memory, address);
  } else if (stride == 1) {
    lanes.value = vector::MaskedLoadOp::create(builder, loc, vectorType, memory,
                                               address, mask, zero);
  } else {
    Value step = vector::StepOp::create(
        builder, loc, VectorType::get({width}, builder.getIndexType()));
    Value offsets =
        arith::MulIOp::create(builder, loc, step, splat(index(stride)));
    Value all =
        mask ? mask
             : arith::ConstantOp::create(
                   builder, loc,
                   DenseElementsAttr::get(
                       VectorType::get({width}, builder.getI1Type()), true))
                   .getResult();
    lanes.value = vector::GatherOp::create(builder, loc, vectorType, memory,
                                           address, offsets, all, zero);
  }
  return lanes;
}

Lanes TileEmitter::getCoordinate(Value first, bool isVector) {
  auto getForm = [&](Type type) {
    Value value = first;
    if (!type.isIndex())
      value = arith::IndexCastOp::create(builder, loc, type, first);
    if (!isVector)
      return value;
    Value step = vector::StepOp::create(
        builder, loc, VectorType::get({width}, builder.getIndexType()));
    if (!type.isIndex())
      step = arith::IndexCastOp::create(builder, loc,
                                        VectorType::get({width}, type), step);
    return arith::AddIOp::create(builder, loc, splat(value), step).getResult();
  };
  return {getForm(builder.getIndexType()), isVector,
          getForm(builder.getI32Type())};
}

/// Comparisons of coordinates. Sizes fit 31 bits: a BLAS takes no larger ones.
std::optional<Lanes>
TileEmitter::evaluateNarrow(Operation &op,
                            llvm::DenseMap<Value, Lanes> &values) {
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare)
    return std::nullopt;
  Lanes left = values.lookup(compare.getLhs()),
        right = values.lookup(compare.getRhs());
  if (!left.narrow || !right.narrow)
    return std::nullopt;
  bool isVector = left.isVector || right.isVector;
  auto get = [&](Lanes lanes) {
    return toVector({lanes.narrow, lanes.isVector || !isVector});
  };
  return Lanes{arith::CmpIOp::create(builder, loc, compare.getPredicate(),
                                     get(left), get(right)),
               isVector};
}

Lanes TileEmitter::evaluateOp(Operation &op,
                              llvm::DenseMap<Value, Lanes> &values) {
  if (auto narrow = evaluateNarrow(op, values))
    return *narrow;
  bool isVector = llvm::any_of(
      op.getOperands(), [&](Value v) { return values.lookup(v).isVector; });
  SmallVector<Value> operands;
  for (Value operand : op.getOperands()) {
    Lanes lanes = values.lookup(operand);
    operands.push_back(isVector ? toVector(lanes) : lanes.value);
  }
  Type type = op.getResult(0).getType();
  if (isVector)
    type = VectorType::get({width}, type);
  OperationState state(loc, op.getName());
  state.addOperands(operands);
  state.addTypes(type);
  state.addAttributes(op.getAttrs());
  Lanes result{builder.create(state)->getResult(0), isVector};
  if (isa<arith::IndexCastOp>(op) &&
      op.getResult(0).getType().getIntOrFloatBitWidth() >= 32)
    result.narrow = values.lookup(op.getOperand(0)).narrow;
  return result;
}

Value TileEmitter::evaluate(Region &body, ArrayRef<Value> first) {
  Block &block = body.front();
  llvm::DenseMap<Value, Lanes> values;
  unsigned next = 0;
  auto bind = [&](Lanes lanes) { values[block.getArgument(next++)] = lanes; };
  for (Value value : first)
    bind({value, /*isVector=*/true});
  for (Value value : batchIndex)
    bind({value});
  bind(getCoordinate(add(firstQuery, row), /*isVector=*/false));
  bind(getCoordinate(add(firstKey, column), /*isVector=*/true));
  for (unsigned i = 0, e = captured.size(); i != e; ++i) {
    BlockArgument arg = block.getArgument(next);
    if (arg.use_empty()) {
      ++next;
      continue;
    }
    Lanes lanes = loadCaptured(i);
    if (arg.getType().isInteger(1))
      lanes.value = toBool(builder, loc, lanes.value);
    bind(lanes);
  }
  for (Operation &op : block.without_terminator())
    values[op.getResult(0)] = evaluateOp(op, values);
  return toVector(values.lookup(block.getTerminator()->getOperand(0)));
}

SmallVector<Value>
TileEmitter::emitKeys(ValueRange init,
                      llvm::function_ref<SmallVector<Value>(ValueRange)> body) {
  Value step = index(width);
  Value rest = arith::RemUIOp::create(builder, loc, columns, step);
  Value whole = arith::SubIOp::create(builder, loc, columns, rest);
  mask = Value();
  auto loop = scf::ForOp::create(builder, loc, index(0), whole, step, init);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    column = loop.getInductionVar();
    SmallVector<Value> carried = body(loop.getRegionIterArgs());
    if (!init.empty())
      scf::YieldOp::create(builder, loc, carried);
  }
  Value zero = index(0);
  Value isCut =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, rest, zero);
  auto branch = scf::IfOp::create(builder, loc, init.getTypes(), isCut,
                                  /*withElseRegion=*/!init.empty());
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    column = whole;
    mask = vector::CreateMaskOp::create(
        builder, loc, VectorType::get({width}, builder.getI1Type()), rest);
    SmallVector<Value> carried = body(loop.getResults());
    if (!init.empty()) {
      scf::YieldOp::create(builder, loc, carried);
      builder.setInsertionPointToStart(branch.elseBlock());
      scf::YieldOp::create(builder, loc, loop.getResults());
    }
  }
  mask = Value();
  return llvm::to_vector_of<Value>(branch.getResults());
}

/// The scores of a row, and their maximum.
void TileEmitter::emitScores() {
  Value lowestLanes = splat(minusInfinity());
  SmallVector<Value> maxima =
      emitKeys({lowestLanes}, [&](ValueRange carried) -> SmallVector<Value> {
        Value value = evaluate(*score, {loadTile(scores)});
        storeTile(scores, value);
        value = masked(value, lowestLanes);
        // One instruction. What is no number never wins; it shows in the sum.
        Value wins = arith::CmpFOp::create(
            builder, loc, arith::CmpFPredicate::OGT, value, carried[0]);
        return {arith::SelectOp::create(builder, loc, wins, value, carried[0])};
      });
  Value before = loadRow(0);
  // Not maximumf: it becomes several instructions for one vmaxps.
  constexpr auto numbers = arith::FastMathFlags::nnan;
  Value highest = vector::ReductionOp::create(
      builder, loc, vector::CombiningKind::MAXNUMF, maxima[0], numbers);
  Value after =
      arith::MaxNumFOp::create(builder, loc, before, highest, numbers);
  storeRow(0, after);
  storeRow(2, before);
}

/// What is taken from the scores of rows whose maximum so far is `maximum`: of
/// rows without a key 0, since -inf + inf is no number.
Value TileEmitter::getReference(Value maximum) {
  Value lowest = minusInfinity(), zero = scalar(0);
  if (isa<VectorType>(maximum.getType())) {
    lowest = splat(lowest);
    zero = splat(zero);
  }
  Value isEmpty = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ,
                                        maximum, lowest);
  return arith::SelectOp::create(builder, loc, isEmpty, zero, maximum);
}

/// Their exponentials.
void TileEmitter::emitExponentials() {
  emitFactors();
  Value reference = splat(getReference(loadRow(0)));
  Value zeros = splat(scalar(0));
  SmallVector<Value> sums =
      emitKeys({zeros}, [&](ValueRange carried) -> SmallVector<Value> {
        Value difference =
            arith::SubFOp::create(builder, loc, loadTile(scores), reference);
        Value value = math::ExpOp::create(builder, loc, difference);
        storeTile(scores, multiplyByFactors(value));
        value = masked(value, zeros);
        return {arith::AddFOp::create(builder, loc, carried[0], value)};
      });
  storeRow(3,
           vector::ReductionOp::create(builder, loc, vector::CombiningKind::ADD,
                                       sums[0], arith::FastMathFlags::reassoc));
}

/// What was summed before, in terms of the new maxima; several rows at once.
void TileEmitter::emitCorrections(Value begin, Value end) {
  auto loop = scf::ForOp::create(builder, loc, begin, end, index(kLanes));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  auto type = VectorType::get({kLanes}, builder.getF32Type());
  auto address = [&](int64_t which) {
    return add(loop.getInductionVar(), index(which * tile.queries));
  };
  auto load = [&](int64_t which) -> Value {
    return vector::LoadOp::create(builder, loc, type, rows, address(which));
  };
  Value difference =
      arith::SubFOp::create(builder, loc, load(2), getReference(load(0)));
  Value correction = math::ExpOp::create(builder, loc, difference);
  Value before = arith::MulFOp::create(builder, loc, load(1), correction);
  Value total = arith::AddFOp::create(builder, loc, before, load(3));
  vector::StoreOp::create(builder, loc, total, rows, address(1));
  vector::StoreOp::create(builder, loc, correction, rows, address(2));
}

/// The factors of the row's probabilities.
void TileEmitter::emitFactors() {
  if (factor->empty())
    return;
  width = kFactorLanes;
  emitKeys({}, [&](ValueRange) -> SmallVector<Value> {
    vector::StoreOp::create(builder, loc, evaluate(*factor, {}), factors,
                            column);
    return {};
  });
  width = kLanes;
}

/// @value times the factors at the current keys.
Value TileEmitter::multiplyByFactors(Value value) {
  if (factor->empty())
    return value;
  Value row =
      vector::LoadOp::create(builder, loc, value.getType(), factors, column);
  return arith::MulFOp::create(builder, loc, value, row);
}

void TileEmitter::emitBackwardRow() {
  emitFactors();
  Value maximum = splat(loadRow(0)), inverse = splat(loadRow(1)),
        delta = splat(loadRow(2));
  emitKeys({}, [&](ValueRange) -> SmallVector<Value> {
    Value raw = loadTile(scores);
    Value difference =
        arith::SubFOp::create(builder, loc, evaluate(*score, {raw}), maximum);
    Value probability = arith::MulFOp::create(
        builder, loc, math::ExpOp::create(builder, loc, difference).getResult(),
        inverse);
    storeTile(scores, multiplyByFactors(probability));
    Value centred = arith::SubFOp::create(
        builder, loc, multiplyByFactors(loadTile(gradients)), delta);
    Value behind = arith::MulFOp::create(builder, loc, probability, centred);
    storeTile(gradients, evaluate(*gradient, {behind, raw}));
    return {};
  });
}

void TileEmitter::emit(Value begin, Value end) {
  // A smaller batch has leading dimensions of 1.
  for (int64_t i = rt::kFirstQuery - shape.getBatch().size();
       i != rt::kFirstQuery; ++i)
    batchIndex.push_back(position(i));
  firstQuery = position(rt::kFirstQuery);
  firstKey = position(rt::kFirstKey);
  columns = position(rt::kTileColumns);
  loadInvariants();
  if (!factor->empty())
    factors = memref::AllocaOp::create(
        builder, loc,
        MemRefType::get({int64_t(llvm::alignTo(tile.keys, kFactorLanes))},
                        builder.getF32Type()));
  auto emitRows = [&](void (TileEmitter::*emitRow)()) {
    auto loop = scf::ForOp::create(builder, loc, begin, end, index(1));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    row = loop.getInductionVar();
    (this->*emitRow)();
  };
  if (backward)
    return emitRows(&TileEmitter::emitBackwardRow);
  // One after the other, so that rows do not wait for their maxima.
  emitRows(&TileEmitter::emitScores);
  emitRows(&TileEmitter::emitExponentials);
  emitCorrections(begin, end);
}

void mlir::fsdp::emitAttentionTile(Operation *op, OpBuilder &builder,
                                   Value begin, Value end,
                                   ValueRange operands) {
  TileEmitter(op, builder, operands).emit(begin, end);
}
