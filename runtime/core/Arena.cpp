//===- Arena.cpp - Memory reserved once -----------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Arena.h"

#include "core/Host.h"
#include "core/ThreadPool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace fsdp::rt {

Result<Arena> Arena::map(int64_t bytes, const char *what) {
  std::string wanted =
      "cannot reserve " + std::to_string(bytes) + " bytes for the " + what;
  if (bytes < 0)
    return Status::failed(wanted + ": expected at least 0");
  Arena arena;
  if (bytes == 0)
    return Result<Arena>(std::move(arena));
  // The kernel would promise more than the machine has and kill the process
  // when the pages are touched.
  int64_t limit = memoryLimit();
  if (limit > 0 && bytes > limit)
    return Status::failed(wanted + ": expected at most the " +
                          std::to_string(limit) + " bytes of this host");
  int64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void *base = mmap(nullptr, rounded + alignment, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return Status::failed(wanted + ": " + std::strerror(errno));
  arena.base_ = base;
  arena.mapped_ = rounded + alignment;
  uintptr_t aligned = (reinterpret_cast<uintptr_t>(base) + alignment - 1) /
                      alignment * alignment;
  arena.data_ = reinterpret_cast<char *>(aligned);
  arena.size_ = bytes;
  // Refused on systems without huge pages, which then serve small ones.
  madvise(arena.data_, rounded, MADV_HUGEPAGE);
  return Result<Arena>(std::move(arena));
}

Arena::~Arena() {
  if (base_)
    munmap(base_, mapped_);
}

void Arena::touch(ThreadPool &pool) const {
  int64_t page = sysconf(_SC_PAGESIZE);
  // In units of a huge page, so that two threads never fault the same one.
  auto part = [&](int, int64_t begin, int64_t end) {
    int64_t stop = std::min(end * alignment, size_);
    for (int64_t at = begin * alignment; at < stop; at += page)
      *static_cast<volatile char *>(data_ + at) = 0;
  };
  pool.parallelFor((size_ + alignment - 1) / alignment, 1, part);
}

} // namespace fsdp::rt
