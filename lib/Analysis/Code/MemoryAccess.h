//===- MemoryAccess.h - What code for GPUs loads and stores -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_CODE_MEMORYACCESS_H
#define FSDP_LIB_ANALYSIS_CODE_MEMORYACCESS_H

#include "mlir/IR/Value.h"

#include <optional>

namespace mlir::fsdp {

/// An access of a thread to global memory.
struct Access {
  /// What it is of: a function's argument.
  Value memory;
  int64_t bytes = 0;
  bool isStore = false;
};

/// The access that @op is; none where it is none, or of a block's memory.
std::optional<Access> getAccess(Operation &op);

/// Elements of a vector, else 1; bytes of an element or a vector.
int64_t getLanes(Type type);
int64_t getBytes(Type type);

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_CODE_MEMORYACCESS_H
