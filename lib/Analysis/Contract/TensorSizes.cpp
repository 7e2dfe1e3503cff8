//===- TensorSizes.cpp - Bytes and dimensions of tensors ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Those of an index, where the width is the machine's, are 8.
static int64_t getElementBytes(Type element) {
  return element.isIntOrFloat()
             ? llvm::divideCeil(element.getIntOrFloatBitWidth(), 8)
             : 8;
}

RankedTensorType fsdp::getTensor(Type type) {
  auto host = dyn_cast<HostType>(type);
  return dyn_cast<RankedTensorType>(host ? host.getTensor() : type);
}

int64_t fsdp::getTensorBytes(Type type) {
  RankedTensorType tensor = getTensor(type);
  return tensor.getNumElements() * getElementBytes(tensor.getElementType());
}

bool fsdp::isOfCountableRank(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  return !shaped || !shaped.hasRank() || shaped.getRank() <= kMostRank;
}

bool fsdp::isOfCountableBytes(Type type) {
  RankedTensorType tensor = getTensor(type);
  if (!tensor || !tensor.hasStaticShape())
    return true;
  int64_t bytes = getElementBytes(tensor.getElementType());
  for (int64_t size : tensor.getShape())
    if (llvm::MulOverflow(bytes, size, bytes))
      return false;
  return bytes <= kMostTensorBytes;
}
