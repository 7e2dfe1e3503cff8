//===- ApproxFunc.h - Ops that may be approximated --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_LOWER_APPROXFUNC_H
#define FSDP_PASSES_LOWER_APPROXFUNC_H

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::fsdp {

/// Whether @op has fastmath<afn>: a device may compute it by approximate
/// instructions.
inline bool hasApproxFunc(Operation *op) {
  auto floats = dyn_cast<arith::ArithFastMathInterface>(op);
  arith::FastMathFlagsAttr flags =
      floats ? floats.getFastMathFlagsAttr() : nullptr;
  return flags &&
         bitEnumContainsAll(flags.getValue(), arith::FastMathFlags::afn);
}

} // namespace mlir::fsdp

#endif // FSDP_PASSES_LOWER_APPROXFUNC_H
