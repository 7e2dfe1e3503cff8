//===- FileChecks.cpp - What upstream's verifiers let pass ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FileChecks.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::fsdp;

static LogicalResult verifyReassociation(Operation *op) {
  if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
           memref::ExpandShapeOp, memref::CollapseShapeOp>(op))
    return success();
  auto groups = dyn_cast_or_null<ArrayAttr>(
      op->getInherentAttr("reassociation").value_or(Attribute()));
  if (!groups)
    return success(); // The op's verifier says so.
  int64_t next = 0;
  for (Attribute group : groups) {
    auto entries = dyn_cast<ArrayAttr>(group);
    if (!entries)
      return success();
    for (Attribute entry : entries) {
      auto number = dyn_cast<IntegerAttr>(entry);
      if (!number || !number.getType().isInteger(64))
        return success();
      if (number.getInt() != next++)
        return op->emitOpError("expected reassociation indices that count from "
                               "0, here ")
               << next - 1 << ", got " << number.getInt();
    }
  }
  return success();
}

LogicalResult fsdp::verifyFileOps(Operation *root) {
  WalkResult result = root->walk([](Operation *op) {
    return succeeded(verifyReassociation(op)) ? WalkResult::advance()
                                              : WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}
