//===- EmulatedDriver.h - What doubles of libraries call ---------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CUDA_EMULATEDDRIVER_H
#define FSDP_TEST_CUDA_EMULATEDDRIVER_H

#include "driver/Extension.h"

namespace fsdp::test {

/// The functions of the emulated driver that doubles of CUDA libraries call.
struct EmulatedDriver {
  decltype(&fsdpEmulatorIssue) issue;
  decltype(&fsdpEmulatorHostPointer) hostPointer;
  decltype(&fsdpEmulatorDevice) device;
  int (*isCapturing)(void *stream, int *status);

  /// The one that the program has opened; null where it has opened none.
  static const EmulatedDriver *get();
};

} // namespace fsdp::test

#endif // FSDP_TEST_CUDA_EMULATEDDRIVER_H
