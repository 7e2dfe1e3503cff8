//===- LazyMemory.cpp - Zeroed memory that takes no room until it is used -===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "execution/LazyMemory.h"

#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace fsdp::emulator {

LazyMemory::LazyMemory(size_t bytes) {
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t used = (bytes + page - 1) / page * page;
  length = used + page;
  void *mapped = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    throw std::bad_alloc();
  begin = static_cast<uint8_t *>(mapped);
  mprotect(begin + used, page, PROT_NONE);
}

LazyMemory::~LazyMemory() {
  if (begin)
    munmap(begin, length);
}

namespace {

/// Bits [first, last) of a word, last <= 64.
uint64_t bitRange(size_t first, size_t last) {
  uint64_t below = last == 64 ? ~uint64_t{0} : (uint64_t{1} << last) - 1;
  return below & ~((uint64_t{1} << first) - 1);
}

/// Calls visit(word, bits) for each word that [offset, offset + count) touches,
/// as long as it returns true.
template <typename Visit>
bool visitWords(uint64_t *words, size_t offset, size_t count, Visit visit) {
  for (size_t end = offset + count; offset < end;) {
    size_t next = offset / 64 * 64 + 64;
    size_t last = end < next ? end % 64 : 64;
    if (!visit(words[offset / 64], bitRange(offset % 64, last)))
      return false;
    offset = next;
  }
  return true;
}

} // namespace

bool ByteSet::containsAll(size_t offset, size_t count) const {
  return visitWords(words(), offset, count, [](uint64_t &word, uint64_t bits) {
    return (word & bits) == bits;
  });
}

void ByteSet::insert(size_t offset, size_t count) {
  visitWords(words(), offset, count, [](uint64_t &word, uint64_t bits) {
    // Pages of a set that stays as it is are not written.
    if ((word & bits) != bits)
      word |= bits;
    return true;
  });
}

void ByteSet::erase(size_t offset, size_t count) {
  visitWords(words(), offset, count, [](uint64_t &word, uint64_t bits) {
    if (word & bits)
      word &= ~bits;
    return true;
  });
}

void ByteSet::copy(size_t offset, const ByteSet &other, size_t from,
                   size_t count) {
  if (other.containsAll(from, count)) {
    insert(offset, count);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    if (other.contains(from + i))
      insert(offset + i, 1);
    else
      erase(offset + i, 1);
  }
}

} // namespace fsdp::emulator
