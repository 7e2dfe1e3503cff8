//===- KernelMemory.cpp - Where kernels' tensors lie ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels/Common/KernelMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::fsdp;

MemRefType fsdp::getFlatMemRef(Type type, Attribute space) {
  auto tensor = cast<RankedTensorType>(type);
  Type element = tensor.getElementType();
  if (element.isInteger(1))
    element = IntegerType::get(type.getContext(), 8);
  return MemRefType::get({tensor.getNumElements()}, element,
                         MemRefLayoutAttrInterface(), space);
}

static Value createGlobalConstant(Operation *table, OpBuilder &builder,
                                  Location loc, MemRefType type,
                                  DenseElementsAttr values) {
  Block &body = table->getRegion(0).front();
  unsigned count = 0;
  StringAttr name;
  for (auto global : body.getOps<memref::GlobalOp>()) {
    ++count;
    if (global.getType() == type && global.getInitialValueAttr() == values)
      name = global.getSymNameAttr();
  }
  if (!name) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&body);
    name = builder.getStringAttr("constant_" + Twine(count));
    memref::GlobalOp::create(builder, loc, name,
                             builder.getStringAttr("private"),
                             TypeAttr::get(type), values, builder.getUnitAttr(),
                             builder.getI64IntegerAttr(64));
  }
  return memref::GetGlobalOp::create(builder, loc, type, name.getValue());
}

void fsdp::createConstants(func::FuncOp kernel, Operation *table,
                           OpBuilder &builder, IRMapping &memory,
                           Attribute space) {
  for (auto constant : kernel.getBody().front().getOps<arith::ConstantOp>()) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!dense || dense.isSplat())
      continue;
    MemRefType type = getFlatMemRef(constant.getType(), space);
    auto flat = RankedTensorType::get(type.getShape(), type.getElementType());
    DenseElementsAttr values = dense;
    if (dense.getElementType().isInteger(1))
      values = dense.mapValues(type.getElementType(),
                               [](const APInt &v) { return v.zext(8); });
    values = values.reshape(flat);
    memory.map(
        constant.getResult(),
        createGlobalConstant(table, builder, constant.getLoc(), type, values));
  }
}
