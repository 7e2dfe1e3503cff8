//===- Memory.h - Memory of a rank -------------------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A rank has two memories: its device's, and the host's that copies of programs
// reach. Programs name places in them by offsets. Nobody outside of the device
// has an address: data moves by upload and download.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_MEMORY_H
#define FSDP_RT_HAL_MEMORY_H

#include "core/Status.h"

#include <cstdint>
#include <memory>

namespace fsdp::rt::hal {

/// Bytes that are written and sent to a device while a program runs there, and
/// that take their places in its memory between two runs.
class UploadBuffer {
public:
  virtual ~UploadBuffer() = default;

  /// Where the host writes the bytes; returns when those that were sent before
  /// have been read. This and send() are called on any one thread at a time,
  /// while a program runs.
  virtual Result<char *> begin() = 0;
  /// Starts to move all bytes, which the host must not change before the next
  /// begin().
  virtual Status send() = 0;
  /// As an upload of bytes [begin, begin + bytes) of what was sent last, to
  /// `offset` of the memory.
  virtual Status place(int64_t begin, int64_t offset, int64_t bytes) = 0;
};

class Memory {
public:
  virtual ~Memory() = default;
  virtual int64_t size() const = 0;

  /// Bytes [offset, offset + bytes) become those at `src`, for every program
  /// that is run later; `src` may be used again on return. Refuses what does
  /// not lie in the memory. Callable from several threads on ranges apart, not
  /// while a program runs.
  virtual Status upload(int64_t offset, const void *src, int64_t bytes) = 0;
  /// The same bytes, as the programs that were run before left them, to `dst`.
  virtual Status download(int64_t offset, void *dst, int64_t bytes) const = 0;

  /// Of `bytes` bytes; it must not outlive the memory. Here the bytes wait in
  /// the host's memory, which is all that a memory of the host needs.
  virtual Result<std::unique_ptr<UploadBuffer>>
  createUploadBuffer(int64_t bytes);
};

/// A place in a memory, which must outlive it.
struct Location {
  Memory *memory = nullptr;
  int64_t offset = 0;

  Location operator+(int64_t bytes) const { return {memory, offset + bytes}; }
  Status upload(const void *src, int64_t bytes) const {
    return memory->upload(offset, src, bytes);
  }
  Status download(void *dst, int64_t bytes) const {
    return memory->download(offset, dst, bytes);
  }
};

} // namespace fsdp::rt::hal

#endif // FSDP_RT_HAL_MEMORY_H
