//===- Arena.h - Memory reserved once ---------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_ARENA_H
#define FSDP_RT_CORE_ARENA_H

#include "core/Status.h"

#include <cstdint>
#include <utility>

namespace fsdp::rt {

class ThreadPool;

/// One anonymous mapping, aligned to 2 MiB, in huge pages where the system
/// grants them. Owns the memory.
class Arena {
public:
  static constexpr int64_t alignment = int64_t(2) << 20;

  /// Reserves `bytes` (0 gives an empty arena). `what` names it in errors:
  /// "arena". Refuses sizes beyond what this host could ever hold.
  static Result<Arena> map(int64_t bytes, const char *what);

  Arena() = default;
  ~Arena();
  Arena(Arena &&other) noexcept { swap(other); }
  Arena &operator=(Arena &&other) noexcept {
    swap(other);
    return *this;
  }

  char *data() const { return data_; }
  int64_t size() const { return size_; }

  /// Touches every page, each thread of `pool` the part that parallelFor
  /// would give it, so that no step takes a page fault.
  void touch(ThreadPool &pool) const;

private:
  void swap(Arena &other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(base_, other.base_);
    std::swap(mapped_, other.mapped_);
  }
  char *data_ = nullptr;
  int64_t size_ = 0;
  void *base_ = nullptr;
  int64_t mapped_ = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_ARENA_H
