//===- Interrupt.h - Ctrl-C -------------------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// No signal handler may run on a thread that computes: products of oneDNN 2.6
// use a buffer of the heap as their stack, and the frame of a handler that
// interrupts one overwrites what lies below that buffer.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_INTERRUPT_H
#define FSDP_RT_MAIN_INTERRUPT_H

#include "core/Status.h"

#include <atomic>
#include <csignal>
#include <thread>

namespace fsdp::rt {

/// While it lives, the calling thread and those that it starts take none of
/// some signals. They are left to other threads, or pending.
class SignalBlock {
public:
  explicit SignalBlock(const sigset_t &signals);
  ~SignalBlock();
  SignalBlock(const SignalBlock &) = delete;
  SignalBlock &operator=(const SignalBlock &) = delete;

  /// All but those that a thread's own faults raise.
  static sigset_t ofOthers();

private:
  sigset_t before_;
};

/// While it lives, a SIGINT, SIGTERM or SIGHUP, unless that was ignored before,
/// is only noted, by a thread that does nothing else: the calling thread and
/// those that it starts block them. One that comes more than a second after the
/// first does what it does by default, so that a program that does not get to
/// its next step can still be ended; sooner ones are copies of the first, which
/// a terminal and a launcher may both send. One at a time in a process; make it
/// before other threads.
class InterruptGuard {
public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard &) = delete;
  InterruptGuard &operator=(const InterruptGuard &) = delete;

  /// Starts the thread. Fails where the system has none left.
  Status start();
  /// Whether one came, to the process or the calling thread. Callable from any
  /// thread that blocks them.
  static bool wasRequested();

private:
  void watch();

  SignalBlock block_;
  /// What is pending can be read from it.
  int fd_ = -1;
  std::atomic<bool> isEnding_{false};
  std::thread watcher_;
};

/// While it lives, a write to a pipe that nobody reads fails with EPIPE and
/// does not end the process, so that its state is saved first.
class PipeGuard {
public:
  PipeGuard();
  ~PipeGuard();
  /// Whether such a write would have ended the process: not where SIGPIPE was
  /// ignored before.
  bool hasReplacedEnd() const { return before_.sa_handler == SIG_DFL; }
  PipeGuard(const PipeGuard &) = delete;
  PipeGuard &operator=(const PipeGuard &) = delete;

private:
  struct sigaction before_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_INTERRUPT_H
