//===- LateMemory.cpp - Memory that the host cannot reach -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LateMemory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

namespace fsdp::rt {

static void protect(char *base, int64_t bytes, int access) {
  int64_t page = sysconf(_SC_PAGESIZE);
  if (bytes > 0 && mprotect(base, (bytes + page - 1) / page * page, access))
    std::abort();
}

LateMemory::LateMemory(hal::Memory &inner, char *base, int64_t state,
                       Fault &fault)
    : inner_(inner), base_(base), state_(state), fault_(fault) {
  protect(base_, size(), PROT_NONE);
}

LateMemory::~LateMemory() { protect(base_, size(), PROT_READ | PROT_WRITE); }

void LateMemory::open() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (users_++ == 0)
    protect(base_, size(), PROT_READ | PROT_WRITE);
}

void LateMemory::close() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (--users_ == 0)
    protect(base_, size(), PROT_NONE);
}

void LateMemory::setPending(bool isPending) {
  std::lock_guard<std::mutex> lock(mutex_);
  isPending_ = isPending;
}

Status LateMemory::checkIdle(const char *what) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!isPending_)
    return Status::ok();
  return Status::internal(std::string("expected ") + what +
                          " when no run is under way, got one that was not "
                          "waited for");
}

Status LateMemory::upload(int64_t offset, const void *src, int64_t bytes) {
  if (Status s = checkIdle("an upload"))
    return s;
  if (Status s = fault_.pass(Fault::Place::Upload))
    return s;
  open();
  Status status = inner_.upload(offset, src, bytes);
  close();
  std::lock_guard<std::mutex> lock(mutex_);
  if (status.isOk() && bytes > 0)
    uploaded_.emplace_back(offset, offset + bytes);
  return status;
}

Status LateMemory::download(int64_t offset, void *dst, int64_t bytes) const {
  if (Status s = checkIdle("a download"))
    return s;
  open();
  Status status = inner_.download(offset, dst, bytes);
  close();
  return status;
}

void LateMemory::poison() {
  std::sort(uploaded_.begin(), uploaded_.end());
  int64_t from = state_;
  uploaded_.emplace_back(size(), size());
  for (auto [begin, end] : uploaded_) {
    if (begin > from)
      std::memset(base_ + from, 0xff, static_cast<size_t>(begin - from));
    from = std::max(from, end);
  }
  uploaded_.clear();
}

} // namespace fsdp::rt
