//===- FSDPCopyOps.cpp - L2: copies between device and host ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

using namespace mlir;
using namespace mlir::fsdp;

LogicalResult HostType::verify(function_ref<InFlightDiagnostic()> emitError,
                               RankedTensorType tensor) {
  // host_c1
  Type element = tensor.getElementType();
  if (tensor.hasStaticShape() &&
      (isa<FloatType>(element) || element.isSignlessInteger()))
    return success();
  return emitError() << "expected a tensor of static shape with float or "
                        "signless integer elements, got "
                     << tensor;
}

LogicalResult OffloadOp::verify() {
  // offload_c1
  if (getResult().getType().getTensor() == getInput().getType())
    return success();
  return emitOpError("expected ")
         << getInput().getType() << " in the host's memory, got "
         << getResult().getType().getTensor();
}

LogicalResult ReloadOp::verify() {
  // reload_c1
  if (getInput().getType().getTensor() == getResult().getType())
    return success();
  return emitOpError("expected a result of ")
         << getInput().getType().getTensor() << ", got "
         << getResult().getType();
}
