//===- ReceivedBytes.h - What sums over ranks receive -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_RECEIVEDBYTES_H
#define FSDP_ANALYSIS_STEP_RECEIVEDBYTES_H

#include "mlir/IR/BuiltinOps.h"

#include <map>

namespace mlir::fsdp {

/// By queue ("compute": of collectives that are not started), the bytes that a
/// CUDA device takes beside the arena for sums over ranks in the runtime's
/// order: what the largest start of any program receives from the other ranks,
/// as include/fsdp-rt/reductions.h counts it. Queues without sums are left out.
std::map<StringRef, int64_t> getReceivedBytes(ModuleOp module);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_RECEIVEDBYTES_H
