//===- UnrollVectors.cpp - Vectors in memory, scalars elsewhere -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UnrollVectors.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {
class Unroller {
public:
  void unroll(Operation *op);

private:
  ArrayRef<Value> getElements(Value vector);
  SmallVector<Value> createElements(Operation *op, VectorType type,
                                    OpBuilder &builder);

  /// The elements of each vector that was unrolled, and of each that an
  /// unrolled op reads.
  llvm::DenseMap<Value, SmallVector<Value>> elements;
};
} // namespace

ArrayRef<Value> Unroller::getElements(Value vector) {
  SmallVector<Value> &known = elements[vector];
  if (known.empty()) {
    OpBuilder builder(vector.getContext());
    builder.setInsertionPointAfterValue(vector);
    llvm::append_range(
        known, vector::ToElementsOp::create(builder, vector.getLoc(), vector)
                   .getResults());
  }
  return known;
}

/// The elements of @op's result, computed by one op each; none where @op does
/// not compute its result element by element, as loads of vectors do not.
SmallVector<Value> Unroller::createElements(Operation *op, VectorType type,
                                            OpBuilder &builder) {
  Location loc = op->getLoc();
  int64_t count = type.getNumElements();
  SmallVector<Value> results;
  auto addConstant = [&](TypedAttr value) {
    results.push_back(arith::ConstantOp::create(builder, loc, value));
  };
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto values = cast<DenseElementsAttr>(constant.getValue());
    for (Attribute value : values.getValues<Attribute>())
      addConstant(cast<TypedAttr>(value));
    return results;
  }
  if (isa<vector::StepOp>(op)) {
    for (int64_t i = 0; i < count; ++i)
      addConstant(builder.getIndexAttr(i));
    return results;
  }
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op);
      broadcast && !isa<VectorType>(broadcast.getSourceType()))
    return SmallVector<Value>(count, broadcast.getSource());
  // Its mask is true in all lanes: SimtEmitter has no vectors that are masked.
  if (auto gather = dyn_cast<vector::GatherOp>(op)) {
    for (Value distance : getElements(gather.getIndices())) {
      Value index = arith::AddIOp::create(
          builder, loc, gather.getOffsets().front(), distance);
      results.push_back(
          memref::LoadOp::create(builder, loc, gather.getBase(), index));
    }
    return results;
  }
  if (!OpTrait::hasElementwiseMappableTraits(op))
    return results;
  for (int64_t i = 0; i < count; ++i) {
    OperationState state(loc, op->getName());
    for (Value operand : op->getOperands())
      state.operands.push_back(isa<VectorType>(operand.getType())
                                   ? getElements(operand)[i]
                                   : operand);
    state.addTypes(type.getElementType());
    state.addAttributes(op->getAttrs());
    results.push_back(builder.create(state)->getResult(0));
  }
  return results;
}

void Unroller::unroll(Operation *op) {
  if (op->getNumResults() != 1)
    return;
  auto type = dyn_cast<VectorType>(op->getResult(0).getType());
  if (!type)
    return;
  OpBuilder builder(op);
  SmallVector<Value> results = createElements(op, type, builder);
  if (results.empty())
    return;
  Value packed =
      vector::FromElementsOp::create(builder, op->getLoc(), type, results);
  op->getResult(0).replaceAllUsesWith(packed);
  elements[packed] = std::move(results);
  op->erase();
}

void fsdp::unrollVectors(gpu::GPUFuncOp function) {
  SmallVector<Operation *> ops;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) { ops.push_back(op); });
  Unroller unroller;
  for (Operation *op : ops)
    unroller.unroll(op);
}
