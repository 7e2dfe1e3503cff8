//===- MeetingPoint.h - Where processes of a job meet -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CONTROL_MEETINGPOINT_H
#define FSDP_RT_CONTROL_MEETINGPOINT_H

#include "control/Launch.h"

#include <string>
#include <vector>

namespace fsdp::rt {

/// In rank 0's environment: MeetingPoint::listener.
constexpr const char *listenerVariable = "FSDP_RENDEZVOUS_FD";

/// The rendezvous of a job: where rank 0 listens and the others connect.
struct MeetingPoint {
  /// A name or an address of rank 0's host.
  std::string host;
  /// Of rank 0: the descriptor of a socket that listens there already, which
  /// its launcher has left it; none where below 0.
  int listener = -1;
  /// Rank 0 takes the first that is free; the others try them in turn. More
  /// than one only where `job` tells this job from others that do the same.
  std::vector<int> ports;
  /// Identifies the job: equal on all of its ranks and part of the handshake,
  /// so that ranks of other jobs at the same port are turned away.
  std::string job;
};

/// Reads MASTER_ADDR and MASTER_PORT. Under torchrun whose agent itself listens
/// at that port (TORCHELASTIC_USE_AGENT_STORE), the ports are those after it;
/// under srun, where they are not set, the host is the first of
/// SLURM_STEP_NODELIST and the ports follow from the step's number. Reads
/// `listenerVariable` on rank 0. An error that says what to set, where the
/// environment does not tell.
Result<MeetingPoint> findMeetingPoint(const Environment &environment,
                                      const LaunchInfo &launch);

/// "gpu03" of "gpu[03-05,7],login1", "rack1n04" of "rack[1-2]n[04-08]"; empty
/// where it is no such list.
std::string firstSlurmHost(const std::string &list);

} // namespace fsdp::rt

#endif // FSDP_RT_CONTROL_MEETINGPOINT_H
