//===- EntryPoint.c - main of a compiled program ------------------*- C -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp-rt/fsdp-rt.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  int status = fsdp_rt_main(argc, argv, &fsdp_rt_artifact_entry);
  if (status == FSDP_OK)
    return status;
  /* The destructors of libraries that could not start, as OpenBLAS without
   * memory for its threads, may wait for ever. What failed has been told. */
  fflush(NULL);
  _Exit(status);
}
