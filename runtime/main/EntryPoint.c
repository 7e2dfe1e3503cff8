//===- EntryPoint.c - main of a compiled program ------------------*- C -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp-rt/fsdp-rt.h"

int main(int argc, char **argv) {
  return fsdp_rt_main(argc, argv, &fsdp_rt_program_entry);
}
