//===- Extension.h - For doubles of libraries that work on streams --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Doubles of NCCL, cuBLASLt or cuDNN compute on the host. They give streams of
// the emulator work of their own, and read and write its memory.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_DRIVER_EXTENSION_H
#define FSDP_EMULATOR_DRIVER_EXTENSION_H

#include <cstddef>
#include <cstdint>

extern "C" {

/// Bytes that the work reads or writes.
struct FsdpEmulatorRange {
  unsigned long long pointer;
  size_t bytes;
  int isWritten;
};

/// Gives `stream` of the current context work. `run` is asked until it returns
/// 1, in between other streams go on; its ranges are looked at for bounds when
/// the work is issued and for races when it is done. -1 stops the device. Works
/// of one `turn`, a number other than 0, need an order among each other, as if
/// all wrote one memory. Returns a CUresult.
int fsdpEmulatorIssue(void *stream, const char *name, int (*run)(void *data),
                      void *data, void (*destroy)(void *data),
                      const FsdpEmulatorRange *ranges, size_t count,
                      unsigned long long turn);

/// Where the host has bytes of a device, or null: of the one whose work runs,
/// else the current context's.
void *fsdpEmulatorHostPointer(unsigned long long pointer, size_t bytes);

/// The ordinal of that device, or -1.
int fsdpEmulatorDevice(void);

/// The library is about to launch `name` for the first time on the current
/// context's device, or not for the first time: the first time it loads code,
/// which captures that are not relaxed forbid. Returns a CUresult.
int fsdpEmulatorLoadCode(const char *name);

/// How others may open the memory at `pointer` of the same device as above: the
/// handle types of its allocation, and 1 << 16 where the network may access it.
/// -1: they may by all that the driver has.
int fsdpEmulatorSharing(unsigned long long pointer);

/// Whether the device with that ordinal was given access to memory at `pointer`
/// of the same device as above, or cannot be.
int fsdpEmulatorIsAccessible(unsigned long long pointer, int ordinal);
}

#endif // FSDP_EMULATOR_DRIVER_EXTENSION_H
