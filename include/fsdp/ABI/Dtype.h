//===- Dtype.h - Element types at run time ----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ABI_DTYPE_H
#define FSDP_ABI_DTYPE_H

#include "mlir/IR/BuiltinTypes.h"

#include <optional>

namespace mlir::fsdp {

/// The fsdp_rt_dtype of an element type; nullopt where the runtime has none.
std::optional<int> getRuntimeDtype(Type type);

/// Its name in the manifest and in safetensors ("F32"); empty where the runtime
/// has none.
llvm::StringRef getDtypeName(Type type);

} // namespace mlir::fsdp

#endif // FSDP_ABI_DTYPE_H
