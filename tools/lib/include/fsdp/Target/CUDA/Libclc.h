//===- Libclc.h - Functions of math for devices -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TARGET_CUDA_LIBCLC_H
#define FSDP_TARGET_CUDA_LIBCLC_H

#include "llvm/ADT/StringRef.h"

namespace mlir::fsdp {

/// LLVM bitcode of libclc for nvptx64, which defines OpenCL's functions under
/// their mangled names, without external references: a part of this program.
llvm::StringRef getLibclc();

} // namespace mlir::fsdp

#endif // FSDP_TARGET_CUDA_LIBCLC_H
