//===- EmulatorHooks.h - The emulated driver for doubles --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the emulated libcuda.so.1 exports beside the driver's functions: doubles
// of libraries put work on its streams, which says what memory it touches.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CUDA_EMULATORHOOKS_H
#define FSDP_TEST_CUDA_EMULATORHOOKS_H

#include <cstddef>

extern "C" {

/// Bytes of the device's memory that work reads or writes.
struct FsdpEmulatorRange {
  unsigned long long address;
  size_t bytes;
  int isWrite;
};

/// Puts work on a stream of the current context: `run` is called once, when it
/// is the stream's turn, with `data`, which it frees. Returns a CUresult.
int fsdpEmulatorEnqueue(void *stream, const char *name, void (*run)(void *data),
                        void *data, const FsdpEmulatorRange *ranges,
                        size_t rangeCount);

/// Where the host finds memory of the current context's device; null where
/// [address, address + bytes) is not all allocated. For work that runs.
void *fsdpEmulatorHostAddress(unsigned long long address, size_t bytes);
}

#endif // FSDP_TEST_CUDA_EMULATORHOOKS_H
