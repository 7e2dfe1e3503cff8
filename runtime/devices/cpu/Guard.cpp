//===- Guard.cpp - Memory outside of its planned life ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cpu/Guard.h"

#include <cstring>

namespace fsdp::rt {

namespace {

constexpr unsigned char dead = 0xff;

/// The first of `bytes` bytes that is not dead; -1: all are.
int64_t findTouched(const char *from, int64_t bytes) {
  if (bytes == 0 || (static_cast<unsigned char>(from[0]) == dead &&
                     std::memcmp(from, from + 1, bytes - 1) == 0))
    return -1;
  int64_t i = 0;
  while (static_cast<unsigned char>(from[i]) == dead)
    ++i;
  return i;
}

std::string describe(const fsdp_rt_guarded_desc &buffer) {
  return std::string(buffer.name ? buffer.name : "") + " (" +
         std::to_string(buffer.bytes) + " bytes at " +
         std::to_string(buffer.offset) +
         (buffer.memory == FSDP_RT_HOST ? " of the host's arena)"
                                        : " of the arena)");
}

std::string describeByte(const char *arena, int64_t at) {
  constexpr char digits[] = "0123456789abcdef";
  auto byte = static_cast<unsigned char>(arena[at]);
  return std::string("byte 0x") + digits[byte / 16] + digits[byte % 16] +
         " at " + std::to_string(at);
}

Status apply(const fsdp_rt_guarded_desc &buffer, const RankMemory &memory) {
  char *arena = memory.base(buffer.memory);
  char *at = arena + buffer.offset;
  if (buffer.action == FSDP_RT_GUARD_FILL) {
    std::memset(at, dead, buffer.bytes + buffer.border);
    return Status::ok();
  }
  // What lies behind the buffer first: who begins finds both dead.
  int64_t touched = findTouched(at + buffer.bytes, buffer.border);
  if (touched >= 0)
    return Status::failed(
        "expected nobody to write to the " + std::to_string(buffer.border) +
        " bytes behind " + describe(buffer) + ", got " +
        describeByte(arena, buffer.offset + buffer.bytes + touched));
  if (buffer.action == FSDP_RT_GUARD_BEGIN) {
    touched = findTouched(at, buffer.bytes);
    if (touched >= 0)
      return Status::failed("expected nobody to write to " + describe(buffer) +
                            " before its life begins, got " +
                            describeByte(arena, buffer.offset + touched));
  } else if (buffer.action == FSDP_RT_GUARD_END) {
    std::memset(at, dead, buffer.bytes);
  }
  return Status::ok();
}

/// `wanted`: of the action.
template <typename Predicate>
Status applyAll(const fsdp_rt_guard_desc &desc, const RankMemory &memory,
                Predicate wanted) {
  auto buffers = static_cast<const fsdp_rt_guarded_desc *const *>(desc.buffers);
  for (int64_t i = 0; i < desc.buffer_count; ++i)
    if (wanted(buffers[i]->action))
      if (Status s = apply(*buffers[i], memory))
        return s.withContext(std::string("guard at ") +
                             (desc.name ? desc.name : ""));
  return Status::ok();
}

} // namespace

Status runGuard(const fsdp_rt_guard_desc &desc, const RankMemory &memory) {
  return applyAll(desc, memory, [](int32_t) { return true; });
}

Status runGuardBefore(const fsdp_rt_guard_desc &desc,
                      const RankMemory &memory) {
  return applyAll(desc, memory, [](int32_t action) {
    return action == FSDP_RT_GUARD_FILL || action == FSDP_RT_GUARD_BEGIN;
  });
}

Status runGuardBehind(const fsdp_rt_guard_desc &desc,
                      const RankMemory &memory) {
  return applyAll(desc, memory, [](int32_t action) {
    return action == FSDP_RT_GUARD_END || action == FSDP_RT_GUARD_KEEP;
  });
}

} // namespace fsdp::rt
