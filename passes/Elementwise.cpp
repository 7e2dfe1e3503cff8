//===- Elementwise.cpp - Building elementwise ops -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Passes/Elementwise.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::fsdp;

Value fsdp::createElementwise(
    OpBuilder &builder, Location loc, RankedTensorType resultType,
    ValueRange inputs,
    llvm::function_ref<Value(OpBuilder &, Location, ValueRange)> body) {
  int64_t rank = resultType.getRank();
  AffineMap identity = builder.getMultiDimIdentityMap(rank);
  AffineMap scalar = AffineMap::get(rank, 0, builder.getContext());
  SmallVector<AffineMap> maps;
  for (Value input : inputs)
    maps.push_back(cast<RankedTensorType>(input.getType()).getRank() == rank
                       ? identity
                       : scalar);
  maps.push_back(identity);
  Value empty = tensor::EmptyOp::create(builder, loc, resultType.getShape(),
                                        resultType.getElementType());
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  return linalg::GenericOp::create(
             builder, loc, resultType, inputs, empty, maps, iterators,
             [&](OpBuilder &b, Location l, ValueRange args) {
               linalg::YieldOp::create(b, l, body(b, l, args.drop_back()));
             })
      .getResult(0);
}

Value fsdp::createCast(OpBuilder &builder, Location loc, Value value,
                       RankedTensorType type) {
  auto from = cast<RankedTensorType>(value.getType());
  if (from == type)
    return value;
  unsigned width = from.getElementTypeBitWidth(),
           target = type.getElementTypeBitWidth();
  Type element = type.getElementType();
  return createElementwise(
      builder, loc, type, value,
      [&](OpBuilder &b, Location l, ValueRange args) -> Value {
        Value x = args[0];
        // f16 and bf16 convert through f32, which holds both.
        if (width == target)
          x = arith::ExtFOp::create(b, l, b.getF32Type(), x);
        if (width < target)
          return arith::ExtFOp::create(b, l, element, x);
        return arith::TruncFOp::create(b, l, element, x);
      });
}
