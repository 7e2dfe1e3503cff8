//===- FileChecks.h - What upstream's verifiers let pass --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_DRIVER_FILECHECKS_H
#define FSDP_LIB_DRIVER_FILECHECKS_H

#include "mlir/IR/Operation.h"

namespace mlir::fsdp {

/// Refuses, with an error at the op, what a file may say of upstream's ops that
/// their verifiers accept and that passes, upstream's too, die of:
/// - reassociations of reshapes that are not 0, 1, .. in order. Verifiers see
///   them as dimensions of affine maps, which are 32 bits wide.
/// Made for IR that has not been verified. Linear.
LogicalResult verifyFileOps(Operation *root);

} // namespace mlir::fsdp

#endif // FSDP_LIB_DRIVER_FILECHECKS_H
