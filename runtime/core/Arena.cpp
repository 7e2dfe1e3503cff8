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

Status ArenaMemory::check(int64_t offset, int64_t bytes) const {
  if (offset >= 0 && bytes >= 0 && bytes <= size() - offset)
    return Status::ok();
  return Status::internal("expected bytes inside the " +
                          std::to_string(size()) + " of a memory, got " +
                          std::to_string(bytes) + " at " +
                          std::to_string(offset));
}

Status ArenaMemory::upload(int64_t offset, const void *src, int64_t bytes) {
  if (Status s = check(offset, bytes))
    return s;
  if (bytes > 0)
    std::memcpy(arena_.data() + offset, src, bytes);
  return Status::ok();
}

Status ArenaMemory::download(int64_t offset, void *dst, int64_t bytes) const {
  if (Status s = check(offset, bytes))
    return s;
  if (bytes > 0)
    std::memcpy(dst, arena_.data() + offset, bytes);
  return Status::ok();
}

} // namespace fsdp::rt
