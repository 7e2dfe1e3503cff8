//===- Process.h - What a program is given by the one that starts it -*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_PROCESS_H
#define FSDP_RT_MAIN_PROCESS_H

#include "core/Status.h"

namespace fsdp::rt {

/// Prepares a process whose command line is this program's, before anything
/// else is opened or started:
///   - Opens /dev/null in the place of each closed standard stream: the next
///     file that is opened would take its number, and what is printed would
///     land there.
///   - Ignores SIGXFSZ: a write beyond the limit of file sizes (ulimit -f) then
///     fails with EFBIG.
///   - Gives SIGCHLD its default effect: where it is ignored, as a parent may
///     have left it, nobody learns how the processes of ranks have ended.
///   - Keeps OpenBLAS, of which the ranks' threads make calls of one thread,
///     from starting threads of its own: those that get no memory wait for it
///     for ever, and the process's end waits for them.
///   - Tells an exception that leaves a thread, as for want of memory, as an
///     error, and ends the process with its exit status.
///   - Gives threads stacks of at least 2 MiB, whatever the limit of the first
///     thread's (ulimit -s). Refuses one that is too small for a program.
Status prepareProcess();

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_PROCESS_H
