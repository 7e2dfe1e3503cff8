//===- Interrupt.h - Ctrl-C --------------------------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_INTERRUPT_H
#define FSDP_RT_MAIN_INTERRUPT_H

#include <csignal>

namespace fsdp::rt {

/// While it lives, a SIGINT, SIGTERM or SIGHUP, unless that was ignored before,
/// is only noted. One that comes more than
/// a second after the first does what it does by default, so that a program
/// that does not get to its next step can still be ended; sooner ones are
/// copies of the first, which a terminal and a launcher may both send. One at a
/// time in a process.
class InterruptGuard {
public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard &) = delete;
  InterruptGuard &operator=(const InterruptGuard &) = delete;

  /// Whether one came. Callable from any thread.
  static bool wasRequested();

private:
  struct sigaction previousInt_, previousTerm_, previousHup_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_INTERRUPT_H
