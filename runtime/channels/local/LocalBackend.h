//===- LocalBackend.h - Ranks are threads of this process -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_LOCAL_LOCALBACKEND_H
#define FSDP_RT_CHANNELS_LOCAL_LOCALBACKEND_H

#include "control/Backend.h"

#include <cstdint>
#include <memory>

namespace fsdp::rt {

struct LocalBackendOptions {
  /// Ranks to start, at least 1.
  int ranks = 1;
  /// Threads that a rank computes with, and one more for each queue that has
  /// a thread. Waiting ranks spin only where ranks * threadsPerRank is no more
  /// than availableCores().
  int threadsPerRank = 1;
  /// For experiments: every collective takes at least as long as its bytes
  /// (collectiveBytes) would take over a link of this bandwidth, after the
  /// latency, an hour at most. Each rank has one link, which its collectives
  /// share evenly while they are on it; latencies pass side by side, before
  /// that. Copies to and from the host cross links of their own, one for each
  /// direction, as slow as that one. 0: no link.
  double linkBytesPerSecond = 0;
  double linkLatencySeconds = 0;
  /// World::waitLimit.
  int64_t waitLimit = 0;

  bool hasLink() const {
    return linkBytesPerSecond > 0 || linkLatencySeconds > 0;
  }
};

/// The ranks' threads exist during run() only, which may be called again.
Result<std::unique_ptr<Backend>>
createLocalBackend(const LocalBackendOptions &options);

extern const BackendKind localBackend;

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_LOCAL_LOCALBACKEND_H
