//===- OtherAbiProgram.c - A program of another time --------------*- C -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp-rt/abi.h"

#include <stddef.h>

static int32_t step(fsdp_rt_context *ctx) {
  (void)ctx;
  return 0;
}

const fsdp_rt_program fsdp_rt_program_entry = {99, 0, "{}", step, NULL};
