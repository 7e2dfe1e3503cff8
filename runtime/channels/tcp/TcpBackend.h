//===- TcpBackend.h - Ranks are processes that connect by TCP ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_TCP_TCPBACKEND_H
#define FSDP_RT_CHANNELS_TCP_TCPBACKEND_H

#include "control/Backend.h"
#include "control/Launch.h"
#include "control/MeetingPoint.h"

#include <functional>
#include <memory>

namespace fsdp::rt {

struct TcpBackendOptions {
  /// How long ranks wait for those that do not come to the start: hosts with
  /// cold file systems are minutes apart.
  double connectSeconds = 600;
  /// How long ranks that have met, and so run, try to connect for a channel; no
  /// longer than connectSeconds.
  double reachSeconds = 60;
  /// Takes a line for the user now and then while they wait.
  std::function<void(const std::string &)> tell;
  /// After a failure: how long they wait for one that does not come to its end.
  double graceSeconds = 5;
  /// World::waitLimit.
  int64_t waitLimit = 0;
};

/// Joins the job of `launch`, whose ranks meet at `point`. run() may be called
/// again unless it failed.
Result<std::unique_ptr<Backend>>
createTcpBackend(const LaunchInfo &launch, const MeetingPoint &point,
                 const TcpBackendOptions &options);

struct TcpLaunchOptions {
  /// After a rank has ended with a failure: how long the others, which hear of
  /// it, have to end by themselves; and then, after a SIGTERM, until SIGKILL.
  double graceSeconds = 15, terminationSeconds = 5;
};

/// Runs `argv` (null-terminated, argv[0] a path) as `ranks` processes of this
/// host, with the variables that torchrun sets, and waits for them. Returns the
/// exit status of the first that ended with another than 0; fails where a rank
/// was killed by a signal that did not come from here, naming it.
///
/// Until it returns, SIGINT, SIGTERM and SIGHUP, unless they were ignored
/// before, go to every rank as SIGINT, from the second one on as SIGKILL; where
/// ranks ended by them, it returns 128 + the signal that came last. SIGCHLD
/// must not be ignored.
Result<int> launchProcesses(int ranks, char *const *argv,
                            const TcpLaunchOptions &options = {});

extern const BackendKind tcpBackend;

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_TCP_TCPBACKEND_H
