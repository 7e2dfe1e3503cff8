//===- Backend.h - How the ranks of a program come to be --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A backend starts (or joins) the ranks of a program and lets them communicate.
// One conformance suite (test/conformance) runs over every backend.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CONTROL_BACKEND_H
#define FSDP_RT_CONTROL_BACKEND_H

#include "control/Launch.h"
#include "core/Status.h"
#include "hal/World.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace fsdp::rt {

/// Runs `body` once per rank that this process hosts and returns the first
/// failure of the program (not the consequences of it on other ranks).
class Backend {
public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual Status run(const std::function<Status(World &)> &body) = 0;
  /// Whether this process is the one that should tell the user about the
  /// failure that run() returned: in a job of many processes all of them
  /// return the same failure. It should do so before this is destroyed: then
  /// its process may end, and with it the job.
  virtual bool reportsFailure() const = 0;
};

/// For experiments: how long what crosses between ranks takes at least.
struct LinkModel {
  double bytesPerSecond = 0, latencySeconds = 0;
};

struct BackendRequest {
  /// How this process was started.
  LaunchInfo launch;
  /// Of the program, at least 1.
  int ranks = 1;
  /// Valid while the backend is created: threads of a rank that are busy at
  /// once, given whether its collectives
  /// cross a link and how many ranks share its host.
  std::function<int(bool hasLink, int ranksOnHost)> countBusyThreads;
  std::optional<LinkModel> link;
  /// World::waitLimit.
  int64_t waitLimit = 0;
};

/// What a registry knows of a kind of backends.
struct BackendKind {
  const char *name;
  /// Each process of a job is one rank; else one process is all of them.
  bool isRankPerProcess;
  /// Where each process is one rank: refuses processes of several that it
  /// cannot connect. Null otherwise.
  Status (*checkLaunch)(const LaunchInfo &launch);
  Result<std::unique_ptr<Backend>> (*create)(const BackendRequest &request);
  /// Where each process is one rank: runs `argv` as `ranks` processes and waits
  /// for them; returns the job's exit status.
  Result<int> (*relaunch)(int ranks, char *const *argv);
};

} // namespace fsdp::rt

#endif // FSDP_RT_CONTROL_BACKEND_H
