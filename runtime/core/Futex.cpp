//===- Futex.cpp - Sleeping on a word -------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace fsdp::rt {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t),
              "the kernel compares the bare word");

void futexWait(std::atomic<uint32_t> &word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futexWaitBriefly(std::atomic<uint32_t> &word, uint32_t expected) {
  timespec second = {1, 0};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, &second, nullptr, 0);
}

void futexWakeAll(std::atomic<uint32_t> &word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

} // namespace fsdp::rt
