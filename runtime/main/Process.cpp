//===- Process.cpp - What a program is given by the one that starts it ----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <initializer_list>

namespace fsdp::rt {

void prepareProcess() {
  // open() returns the lowest free number: those below `fd` are taken already.
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) != fd)
      _exit(1); // there is nowhere to tell it
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &ignore, nullptr);
}

} // namespace fsdp::rt
