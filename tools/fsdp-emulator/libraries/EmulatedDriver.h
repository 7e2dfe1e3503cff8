//===- EmulatedDriver.h - What doubles of libraries call --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_LIBRARIES_EMULATEDDRIVER_H
#define FSDP_EMULATOR_LIBRARIES_EMULATEDDRIVER_H

#include "driver/Extension.h"

namespace fsdp::emulator {

/// The functions of the emulated driver that doubles of CUDA libraries call.
struct EmulatedDriver {
  decltype(&fsdpEmulatorIssue) issue;
  decltype(&fsdpEmulatorHostPointer) hostPointer;
  decltype(&fsdpEmulatorDevice) device;
  decltype(&fsdpEmulatorLoadCode) loadCode;
  decltype(&fsdpEmulatorSharing) sharing;
  decltype(&fsdpEmulatorIsAccessible) isAccessible;
  int (*isCapturing)(void *stream, int *status);

  /// The one that the program has opened; null where it has opened none.
  static const EmulatedDriver *get();
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_LIBRARIES_EMULATEDDRIVER_H
