//===- Guard.cpp - Memory outside of its planned life ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cpu/Guard.h"

#include "hal/GuardRules.h"

#include <cstring>

namespace fsdp::rt {

namespace {

using hal::deadByte;

/// The first of `bytes` bytes that is not dead; -1: all are.
int64_t findTouched(const char *from, int64_t bytes) {
  if (bytes == 0 || (static_cast<unsigned char>(from[0]) == deadByte &&
                     std::memcmp(from, from + 1, bytes - 1) == 0))
    return -1;
  int64_t i = 0;
  while (static_cast<unsigned char>(from[i]) == deadByte)
    ++i;
  return i;
}

Status apply(const fsdp_rt_guard_desc &guard,
             const fsdp_rt_guarded_desc &buffer, const RankMemory &memory) {
  char *arena = memory.base(buffer.memory);
  char *at = arena + buffer.offset;
  if (buffer.action == FSDP_RT_GUARD_FILL) {
    std::memset(at, deadByte, buffer.bytes + buffer.border);
    return Status::ok();
  }
  auto look = [&](bool isBehind, int64_t offset, int64_t bytes) {
    int64_t found = findTouched(arena + offset, bytes);
    return found < 0 ? Status::ok()
                     : hal::touched(
                           guard, buffer, isBehind, offset + found,
                           static_cast<unsigned char>(arena[offset + found]));
  };
  // What lies behind the buffer first: who begins finds both dead.
  if (Status s = look(true, buffer.offset + buffer.bytes, buffer.border))
    return s;
  if (hal::looksInside(buffer.action))
    return look(false, buffer.offset, buffer.bytes);
  if (buffer.action == FSDP_RT_GUARD_END)
    std::memset(at, deadByte, buffer.bytes);
  return Status::ok();
}

/// `wanted`: of the action.
template <typename Predicate>
Status applyAll(const fsdp_rt_guard_desc &desc, const RankMemory &memory,
                Predicate wanted) {
  auto buffers = static_cast<const fsdp_rt_guarded_desc *const *>(desc.buffers);
  for (int64_t i = 0; i < desc.buffer_count; ++i)
    if (wanted(buffers[i]->action))
      if (Status s = apply(desc, *buffers[i], memory))
        return s;
  return Status::ok();
}

} // namespace

Status runGuard(const fsdp_rt_guard_desc &desc, const RankMemory &memory) {
  return applyAll(desc, memory, [](int32_t) { return true; });
}

Status runGuardBefore(const fsdp_rt_guard_desc &desc,
                      const RankMemory &memory) {
  return applyAll(desc, memory, hal::actsBefore);
}

Status runGuardBehind(const fsdp_rt_guard_desc &desc,
                      const RankMemory &memory) {
  return applyAll(desc, memory,
                  [](int32_t action) { return !hal::actsBefore(action); });
}

} // namespace fsdp::rt
