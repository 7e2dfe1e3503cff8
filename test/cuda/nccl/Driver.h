//===- Driver.h - The emulated driver, as the double uses it ----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CUDA_NCCL_DRIVER_H
#define FSDP_TEST_CUDA_NCCL_DRIVER_H

#include "driver/Extension.h"

namespace fsdp::test::nccl {

struct Driver {
  decltype(&fsdpEmulatorIssue) issue;
  decltype(&fsdpEmulatorHostPointer) hostPointer;
  decltype(&fsdpEmulatorDevice) device;
  int (*isCapturing)(void *stream, int *status);

  /// The one that the program has opened; null where it has opened none.
  static const Driver *get();
};

} // namespace fsdp::test::nccl

#endif // FSDP_TEST_CUDA_NCCL_DRIVER_H
