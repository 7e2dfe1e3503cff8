//===- ArenaMemory.cpp - An arena as a memory of the HAL ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cpu/ArenaMemory.h"

#include <cstring>
#include <string>

namespace fsdp::rt {

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
