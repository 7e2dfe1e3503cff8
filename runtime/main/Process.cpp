//===- Process.cpp - What a program is given by the one that starts it ----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Process.h"

#include "main/Main.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <new>
#include <string>
#include <system_error>

namespace fsdp::rt {

namespace {

/// For std::set_terminate. Allocates nothing where there is no memory.
[[noreturn]] void endWithException() {
  Status status;
  try {
    if (std::current_exception())
      std::rethrow_exception(std::current_exception());
    status = Status::internal("std::terminate was called");
  } catch (const std::bad_alloc &) {
    constexpr char text[] = "error: out of memory\n";
    ssize_t written = ::write(STDERR_FILENO, text, sizeof text - 1);
    (void)written; // there is nowhere else to tell it
    _exit(static_cast<int>(Code::Failed));
  } catch (const std::system_error &error) {
    status = Status::failed(error.what());
  } catch (const std::exception &error) {
    status = Status::internal(error.what());
  } catch (...) {
    status = Status::internal("an exception of unknown type");
  }
  _exit(reportFailure(status));
}

/// The size of other threads' stacks is that of the limit unless it is set.
Status prepareStacks() {
  constexpr rlim_t least = 256 << 10, ofThreads = 2 << 20;
  rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= ofThreads)
    return Status::ok();
  if (limit.rlim_cur < least)
    return Status::failed(
        "expected a stack of at least " + std::to_string(least >> 10) +
        " KiB, got a limit of " + std::to_string(limit.rlim_cur >> 10) +
        " KiB (ulimit -s)");
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, ofThreads);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
  return Status::ok();
}

} // namespace

Status prepareProcess() {
  // open() returns the lowest free number: those below `fd` are taken already.
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) != fd)
      _exit(1); // there is nowhere to tell it
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &ignore, nullptr);
  struct sigaction byDefault = {};
  byDefault.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &byDefault, nullptr);
  std::set_terminate(endWithException);
  ::setenv("OPENBLAS_NUM_THREADS", "1", /*overwrite=*/1);
  return prepareStacks();
}

} // namespace fsdp::rt
