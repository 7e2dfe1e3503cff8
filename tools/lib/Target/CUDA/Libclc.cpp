//===- Libclc.cpp - Functions of math for devices -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/CUDA/Libclc.h"

// CMake defines FSDP_LIBCLC: the path of the bitcode, quoted.
asm(".section .rodata\n"
    ".balign 16\n"
    ".globl fsdp_libclc_begin, fsdp_libclc_end\n"
    ".hidden fsdp_libclc_begin, fsdp_libclc_end\n"
    "fsdp_libclc_begin:\n"
    ".incbin " FSDP_LIBCLC "\n"
    "fsdp_libclc_end:\n"
    ".previous\n");

extern "C" {
extern const char fsdp_libclc_begin[];
extern const char fsdp_libclc_end[];
}

llvm::StringRef mlir::fsdp::getLibclc() {
  return {fsdp_libclc_begin, size_t(fsdp_libclc_end - fsdp_libclc_begin)};
}
