//===- OptimizerBody.cpp - The optimizer on one shard ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OptimizerBody.h"
#include "fsdp/Analysis/Contract/OptimizerContract.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace mlir::fsdp;

ShardRuns ShardRuns::get(FlatParamOp flat, MeshOp mesh, Value rank) {
  ShardRuns runs;
  for (const FlatParamOp::Run &run : llvm::drop_begin(flat.getRuns()))
    runs.borders.push_back(run.begin);
  runs.rank = rank;
  runs.shardNumel = flat.getShardNumel(mesh);
  for (Attribute name : flat.getShardAxes()) {
    // Ranks are numbered with the last axis of the mesh innermost.
    int64_t stride = 1;
    for (auto axis : llvm::reverse(mesh.getAxes().getAsRange<MeshAxisAttr>())) {
      if (axis.getName() == name) {
        runs.axes.push_back({stride, axis.getSize()});
        break;
      }
      stride *= axis.getSize();
    }
  }
  return runs;
}

void OptimizerInliner::map(Value formal, Value actual) {
  for (IRMapping &mapping : maps)
    mapping.map(formal, actual);
}

SmallVector<Value> OptimizerInliner::getByRun(Value formal) const {
  return llvm::map_to_vector(maps, [&](const IRMapping &mapping) {
    return mapping.lookupOrDefault(formal);
  });
}

bool OptimizerInliner::differs(Value formal) const {
  return !llvm::all_equal(getByRun(formal));
}

void OptimizerInliner::findDependents(Block &body) {
  for (BlockArgument formal : body.getArguments())
    if (differs(formal))
      dependents.insert(formal);
  addDependents(body, dependents);
}

Value OptimizerInliner::lookup(Value formal) const {
  return differs(formal) ? Value() : maps.front().lookupOrNull(formal);
}

/// The flat type with the shard's size; other types as they are; null where
/// there is no such type.
Type OptimizerInliner::getSizedType(Type type) const {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.hasStaticShape())
    return type;
  if (tensor.getRank() != 1)
    return {};
  return RankedTensorType::get(runs.shardNumel, tensor.getElementType());
}

static bool isFlat(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() > 0;
}

//===----------------------------------------------------------------------===//
// Ops that read the same in all runs
//===----------------------------------------------------------------------===//

LogicalResult OptimizerInliner::copyOnce(Operation &op) {
  Location loc = op.getLoc();
  if (auto dim = dyn_cast<tensor::DimOp>(op)) {
    map(dim, arith::ConstantIndexOp::create(builder, loc, runs.shardNumel));
    return success();
  }
  if (auto empty = dyn_cast<tensor::EmptyOp>(op)) {
    auto type =
        dyn_cast_or_null<RankedTensorType>(getSizedType(empty.getType()));
    if (!type)
      return failure();
    map(empty, tensor::EmptyOp::create(builder, loc, type.getShape(),
                                       type.getElementType()));
    return success();
  }
  if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
    auto type =
        dyn_cast_or_null<RankedTensorType>(getSizedType(splat.getType()));
    if (!type)
      return failure();
    map(splat, tensor::SplatOp::create(
                   builder, loc, maps.front().lookup(splat.getInput()), type));
    return success();
  }
  // Sizes agree by construction, so an assertion about them holds. One about
  // values would be lost: refuse it.
  if (isa<cf::AssertOp>(op)) {
    Operation *condition = op.getOperand(0).getDefiningOp();
    return success(isa_and_nonnull<arith::CmpIOp>(condition) &&
                   isa<IndexType>(condition->getOperand(0).getType()));
  }
  Operation *copy = builder.clone(op, maps.front());
  for (auto [formal, result] : llvm::zip(op.getResults(), copy->getResults())) {
    Type type = getSizedType(result.getType());
    if (!type)
      return failure();
    result.setType(type);
    map(formal, result);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Ops that read what differs among runs
//===----------------------------------------------------------------------===//

void OptimizerInliner::copyByRun(Operation &op) {
  Operation *first = nullptr;
  for (IRMapping &mapping : maps) {
    Operation *copy = builder.clone(op, mapping);
    if (!first)
      first = copy;
    for (auto [formal, own, common] :
         llvm::zip(op.getResults(), copy->getResults(), first->getResults()))
      mapping.map(formal, dependents.contains(formal) ? own : common);
  }
}

Value OptimizerInliner::createSelect(OpBuilder &nested, Location loc,
                                     Value rank, ValueRange values) const {
  Type i64 = nested.getI64Type();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(nested, loc,
                                     nested.getI64IntegerAttr(value));
  };
  // Of all iterations: the elements of the flat parameter before this shard.
  Value before = constant(0);
  for (const ShardRuns::Axis &axis : runs.axes) {
    Value place =
        arith::DivUIOp::create(nested, loc, rank, constant(axis.stride));
    place = arith::RemUIOp::create(nested, loc, place, constant(axis.size));
    before = arith::MulIOp::create(nested, loc, before, constant(axis.size));
    before = arith::AddIOp::create(nested, loc, before, place);
  }
  before =
      arith::MulIOp::create(nested, loc, before, constant(runs.shardNumel));
  Value index = arith::IndexCastOp::create(
      nested, loc, i64, linalg::IndexOp::create(nested, loc, 0));
  // The last run that does not begin after the element.
  Value selected = values.back();
  for (unsigned run = values.size() - 1; run-- != 0;) {
    Value border =
        arith::SubIOp::create(nested, loc, constant(runs.borders[run]), before);
    Value isBefore = arith::CmpIOp::create(
        nested, loc, arith::CmpIPredicate::slt, index, border);
    selected =
        arith::SelectOp::create(nested, loc, isBefore, values[run], selected);
  }
  return selected;
}

void OptimizerInliner::createSelected(Location loc, Value scalar,
                                      Value formal) {
  auto type = cast<RankedTensorType>(getSizedType(formal.getType()));
  SmallVector<Value> inputs = getByRun(scalar);
  inputs.push_back(runs.rank);
  SmallVector<AffineMap> indexing(inputs.size(),
                                  AffineMap::get(1, 0, builder.getContext()));
  indexing.push_back(builder.getDimIdentityMap());
  Value init = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                       type.getElementType());
  auto generic = linalg::GenericOp::create(
      builder, loc, type, inputs, init, indexing, utils::IteratorType::parallel,
      [&](OpBuilder &nested, Location l, ValueRange args) {
        linalg::YieldOp::create(nested, l,
                                createSelect(nested, l, args[runs.size()],
                                             args.take_front(runs.size())));
      });
  map(formal, generic.getResult(0));
}

LogicalResult OptimizerInliner::copySelecting(linalg::GenericOp op) {
  MLIRContext *context = builder.getContext();
  SmallVector<Value> inputs, outputs;
  SmallVector<AffineMap> indexing;
  /// Of each argument of the old body, its first one in the new body.
  SmallVector<unsigned> places;
  for (OpOperand *operand : op.getDpsInputOperands()) {
    places.push_back(inputs.size());
    SmallVector<Value> values = getByRun(operand->get());
    unsigned count = llvm::all_equal(values) ? 1 : values.size();
    llvm::append_range(inputs, ArrayRef(values).take_front(count));
    indexing.append(count, op.getMatchingIndexingMap(operand));
  }
  // What the body takes from outside, where that differs.
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(op->getRegions(), captured);
  llvm::MapVector<Value, unsigned> capturedPlaces;
  for (Value value : captured) {
    if (!differs(value))
      continue;
    if (isa<ShapedType>(value.getType()))
      return failure();
    capturedPlaces[value] = inputs.size();
    llvm::append_range(inputs, getByRun(value));
    indexing.append(runs.size(), AffineMap::get(op.getNumLoops(), 0, context));
  }
  unsigned rankPlace = inputs.size();
  inputs.push_back(runs.rank);
  indexing.push_back(AffineMap::get(op.getNumLoops(), 0, context));
  SmallVector<Type> types;
  for (OpOperand &operand : op.getDpsInitsMutable()) {
    places.push_back(inputs.size() + outputs.size());
    outputs.push_back(maps.front().lookup(operand.get()));
    indexing.push_back(op.getMatchingIndexingMap(&operand));
    types.push_back(outputs.back().getType());
  }
  auto generic = linalg::GenericOp::create(
      builder, op.getLoc(), types, inputs, outputs, indexing,
      op.getIteratorTypesArray(),
      [&](OpBuilder &nested, Location loc, ValueRange args) {
        IRMapping body = maps.front();
        for (auto [value, place] : capturedPlaces)
          body.map(value, createSelect(nested, loc, args[rankPlace],
                                       args.slice(place, runs.size())));
        for (OpOperand &operand : op->getOpOperands()) {
          unsigned place = places[operand.getOperandNumber()];
          body.map(op.getMatchingBlockArgument(&operand),
                   differs(operand.get())
                       ? createSelect(nested, loc, args[rankPlace],
                                      args.slice(place, runs.size()))
                       : args[place]);
        }
        for (Operation &inner : *op.getBody())
          nested.clone(inner, body);
      });
  for (auto [formal, result] : llvm::zip(op.getResults(), generic.getResults()))
    map(formal, result);
  return success();
}

bool OptimizerInliner::readsDifferent(Operation &op) const {
  auto isDifferent = [&](Value value) { return differs(value); };
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(op.getRegions(), captured);
  return llvm::any_of(op.getOperands(), isDifferent) ||
         llvm::any_of(captured, isDifferent);
}

LogicalResult OptimizerInliner::copy(Operation &op) {
  if (!readsDifferent(op))
    return copyOnce(op);
  if (llvm::none_of(op.getResultTypes(), isFlat)) {
    copyByRun(op);
    return success();
  }
  if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
    createSelected(op.getLoc(), splat.getInput(), splat);
    return success();
  }
  if (auto fill = dyn_cast<linalg::FillOp>(op)) {
    createSelected(op.getLoc(), fill.getInputs().front(), fill->getResult(0));
    return success();
  }
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return copySelecting(generic);
  return failure();
}
