//===- Interrupt.cpp - Ctrl-C ---------------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>
#include <system_error>

namespace fsdp::rt {

namespace {

std::atomic<bool> requested{false};

sigset_t endingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  // nohup ignores it so that the program outlives its terminal.
  struct sigaction hangup;
  if (sigaction(SIGHUP, nullptr, &hangup) != 0 || hangup.sa_handler != SIG_IGN)
    sigaddset(&signals, SIGHUP);
  return signals;
}

} // namespace

SignalBlock::SignalBlock(const sigset_t &signals) {
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
}

SignalBlock::~SignalBlock() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

sigset_t SignalBlock::ofOthers() {
  sigset_t signals;
  sigfillset(&signals);
  for (int fault : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP})
    sigdelset(&signals, fault);
  return signals;
}

InterruptGuard::InterruptGuard() : block_(endingSignals()) {
  requested = false;
}

Status InterruptGuard::start() {
  sigset_t signals = endingSignals();
  fd_ = signalfd(-1, &signals, SFD_CLOEXEC);
  if (fd_ < 0)
    return Status::failed(std::string("cannot wait for signals: ") +
                          std::strerror(errno));
  try {
    watcher_ = std::thread([this] { watch(); });
  } catch (const std::system_error &error) {
    return Status::failed(std::string("cannot start the thread that waits for "
                                      "signals: ") +
                          error.what());
  }
  pthread_setname_np(watcher_.native_handle(), "fsdp-signals");
  return Status::ok();
}

InterruptGuard::~InterruptGuard() {
  if (watcher_.joinable()) {
    isEnding_.store(true);
    pthread_kill(watcher_.native_handle(), SIGTERM);
    watcher_.join();
  }
  if (fd_ >= 0)
    close(fd_);
  // What came meanwhile has been noted and must not end the process now.
  sigset_t signals = endingSignals();
  timespec now = {};
  while (sigtimedwait(&signals, nullptr, &now) > 0) {
  }
}

void InterruptGuard::watch() {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> first;
  while (true) {
    pollfd pending = {fd_, POLLIN, 0};
    if (poll(&pending, 1, -1) < 0)
      continue;
    if (isEnding_.load())
      return;
    // Noted before it is taken, so that it is one or the other at any time.
    requested.store(true);
    signalfd_siginfo info;
    if (::read(fd_, &info, sizeof info) != sizeof info)
      continue;
    Clock::time_point now = Clock::now();
    if (!first)
      first = now;
    if (now - *first <= std::chrono::seconds(1))
      continue;
    int signal = static_cast<int>(info.ssi_signo);
    struct sigaction byDefault = {};
    byDefault.sa_handler = SIG_DFL;
    sigaction(signal, &byDefault, nullptr);
    sigset_t signals = endingSignals();
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    raise(signal);
  }
}

bool InterruptGuard::wasRequested() {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  // In this order: what is no longer pending has been noted.
  return sigismember(&pending, SIGINT) == 1 ||
         sigismember(&pending, SIGTERM) == 1 ||
         sigismember(&pending, SIGHUP) == 1 || requested.load();
}

PipeGuard::PipeGuard() {
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before_);
}

PipeGuard::~PipeGuard() { sigaction(SIGPIPE, &before_, nullptr); }

} // namespace fsdp::rt
