//===- LazyMemory.h - Zeroed memory that takes no room until it is used ---===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_EXECUTION_LAZYMEMORY_H
#define FSDP_EMULATOR_EXECUTION_LAZYMEMORY_H

#include <cstddef>
#include <cstdint>
#include <utility>

namespace fsdp::emulator {

/// Pages of the host, all zeros, with an inaccessible one behind them.
class LazyMemory {
public:
  LazyMemory() = default;
  /// Throws std::bad_alloc.
  explicit LazyMemory(size_t bytes);
  LazyMemory(LazyMemory &&other) noexcept
      : begin(std::exchange(other.begin, nullptr)),
        length(std::exchange(other.length, 0)) {}
  LazyMemory &operator=(LazyMemory &&other) noexcept {
    std::swap(begin, other.begin);
    std::swap(length, other.length);
    return *this;
  }
  ~LazyMemory();

  uint8_t *data() const { return begin; }
  explicit operator bool() const { return begin; }

private:
  uint8_t *begin = nullptr;
  /// With the page behind.
  size_t length = 0;
};

/// A set of bytes of an allocation, one bit for each.
class ByteSet {
public:
  ByteSet() = default;
  explicit ByteSet(size_t bytes) : bits(bytes / 8 + 16) {}

  bool containsAll(size_t offset, size_t count) const;
  bool contains(size_t offset) const {
    return words()[offset / 64] >> (offset % 64) & 1;
  }
  void insert(size_t offset, size_t count);
  void erase(size_t offset, size_t count);
  /// Bytes [offset, offset + count) become those of `other` from `from` on.
  void copy(size_t offset, const ByteSet &other, size_t from, size_t count);

private:
  uint64_t *words() const { return reinterpret_cast<uint64_t *>(bits.data()); }

  LazyMemory bits;
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_EXECUTION_LAZYMEMORY_H
