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

static const fsdp_rt_program program = {"train", step, NULL};

const fsdp_rt_artifact fsdp_rt_artifact_entry = {99, 1, "{}", &program, NULL};
