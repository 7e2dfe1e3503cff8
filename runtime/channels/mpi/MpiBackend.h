//===- MpiBackend.h - Ranks are processes of an MPI job ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This process is one rank. Open MPI 4.1 is opened at run time; without its
// header at configure time createMpiBackend refuses with that reason.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_MPI_MPIBACKEND_H
#define FSDP_RT_CHANNELS_MPI_MPIBACKEND_H

#include "control/Backend.h"
#include "control/Launch.h"

#include <cstdint>
#include <memory>

namespace fsdp::rt {

struct MpiBackendOptions {
  /// Threads of a rank that are busy at once; see LocalBackendOptions.
  int threadsPerRank = 1;
  /// Bytes in which a channel receives what it adds up; reserved when it
  /// is created.
  int64_t stagingBytes = int64_t(4) << 20;
  /// Largest single message.
  int64_t chunkBytes = int64_t(16) << 20;
  /// After a failure: how long the ranks wait for one that does not come to
  /// its end before they end the job.
  double graceSeconds = 5;
  /// World::waitLimit.
  int64_t waitLimit = 0;
};

/// Joins the job that `launch` describes (detectLaunch of this process's
/// environment). Refuses processes that MPI cannot connect (checkConnected). At
/// most one per process; MPI ends when it is destroyed. run() may be called
/// again unless it failed.
Result<std::unique_ptr<Backend>>
createMpiBackend(const LaunchInfo &launch, const MpiBackendOptions &options);

/// Runs `argv` (null-terminated, argv[0] a path or found on PATH) as `ranks`
/// processes under mpirun and waits for them. Returns the job's exit status,
/// one of Code, where a rank has told why it is not 0; fails where mpirun is
/// missing or fails itself, and where a rank was killed by a signal, naming it.
/// Until it returns, SIGINT, SIGTERM and SIGHUP (unless that is ignored) go to
/// every rank as SIGINT, and from the second one on to mpirun, which ends the
/// job and is killed with its ranks if it does not. A reader of this process's
/// output who goes away ends the job and this process, by SIGPIPE, silently.
/// Call it while the process has no other threads: they would take the signals.
Result<int> launchUnderMpirun(int ranks, char *const *argv);

extern const BackendKind mpiBackend;

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_MPI_MPIBACKEND_H
