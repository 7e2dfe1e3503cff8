//===- Futex.h - Sleeping on a word -----------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_FUTEX_H
#define FSDP_RT_CORE_FUTEX_H

#include "core/Clock.h"

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace fsdp::rt {

/// Sleeps while `word` holds `expected`, until woken. May return early: callers
/// look at the word again.
void futexWait(std::atomic<uint32_t> &word, uint32_t expected);
/// The same for a second at most.
void futexWaitBriefly(std::atomic<uint32_t> &word, uint32_t expected);

/// Wakes every thread that sleeps on `word`.
void futexWakeAll(std::atomic<uint32_t> &word);

/// One turn of a busy wait: tells the core that nothing is happening.
inline void spinPause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// How long a thread with a core of its own looks for work before it sleeps.
constexpr int64_t spinNanoseconds = 40'000;

/// Looks for so long whether `isOver` holds; returns whether it does. Where
/// threads share cores (no `spin`), who is waited for may need this one; but if
/// it is about to come, giving way is much cheaper than sleeping.
template <typename IsOver>
bool waitBriefly(bool spin, IsOver isOver) {
  for (int64_t start = nowNanoseconds(); !isOver();) {
    if (nowNanoseconds() - start >= spinNanoseconds)
      return false;
    if (!spin)
      sched_yield();
    for (int i = 0; i < 16 && spin; ++i)
      spinPause();
  }
  return true;
}

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_FUTEX_H
