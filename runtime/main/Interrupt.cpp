//===- Interrupt.cpp - Ctrl-C ---------------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Interrupt.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

namespace fsdp::rt {

namespace {

std::atomic<bool> requested{false};
static_assert(std::atomic<bool>::is_always_lock_free,
              "a signal handler must not lock");

std::atomic<int64_t> firstSecond{0}; // 0: none yet

/// Calls only what a handler may.
void note(int signal) {
  int error = errno;
  requested.store(true, std::memory_order_relaxed);
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  // Rounded up, so that it is never 0.
  int64_t second = now.tv_sec + 1, first = 0;
  if (!firstSecond.compare_exchange_strong(first, second) &&
      second > first + 1) {
    struct sigaction byDefault = {};
    byDefault.sa_handler = SIG_DFL;
    sigaction(signal, &byDefault, nullptr);
    raise(signal);
  }
  errno = error;
}

} // namespace

InterruptGuard::InterruptGuard() {
  requested = false;
  firstSecond = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previousInt_);
  sigaction(SIGTERM, &action, &previousTerm_);
  // nohup ignores it so that the program outlives its terminal.
  sigaction(SIGHUP, nullptr, &previousHup_);
  if (previousHup_.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, nullptr);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previousInt_, nullptr);
  sigaction(SIGTERM, &previousTerm_, nullptr);
  sigaction(SIGHUP, &previousHup_, nullptr);
}

bool InterruptGuard::wasRequested() {
  return requested.load(std::memory_order_relaxed);
}

} // namespace fsdp::rt
