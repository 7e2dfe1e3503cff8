//===- Session.c - A C program built against the package ----------*- C -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "libstep.h"

#include <stdio.h>

int main(void) {
  fsdp_session *session;
  if (fsdp_create(step_artifact(), NULL, &session) != FSDP_OK ||
      fsdp_init_from_seed(session, 0) != FSDP_OK) {
    fprintf(stderr, "%s\n", fsdp_last_error(session));
    return 1;
  }
  fsdp_destroy(session);
  return STEP_RANKS == 2 ? 0 : 1;
}
