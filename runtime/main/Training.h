//===- Training.h - The loop over the steps ----------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_TRAINING_H
#define FSDP_RT_MAIN_TRAINING_H

#include "control/Backend.h"
#include "core/Status.h"
#include "data/Manifest.h"
#include "fsdp-rt/abi.h"
#include "main/Options.h"
#include "registry/Registry.h"

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt {

/// A failure that is the program's and not one rank's, and the step at which
/// any failure came. Shared by the ranks' threads.
class FailureRecord {
public:
  /// Keeps the first.
  void setFailure(const Status &failure);
  /// `isOwn`: the failure is of the rank that says so. What another rank waited
  /// for then may be of a step before or after it.
  void setStep(int64_t step, bool isOwn = true);
  /// That the run ended for want of a reader, and is complete up to there.
  void setUnread();
  bool isUnread() const;
  /// What to tell the user, where the backend reports `ofBackend`.
  Status explain(const Status &ofBackend) const;

private:
  mutable std::mutex mutex_;
  std::optional<Status> failure_;
  int64_t step_ = 0, stepOfOthers_ = 0; // 0: none
  bool isUnread_ = false;
};

/// What all ranks of a run share; nothing in it changes but the record.
struct TrainingRun {
  const fsdp_rt_artifact &artifact;
  const data::Manifest &manifest;
  const Options &options;
  DeviceChoice device;
  /// For the user to read: what became of the options.
  std::vector<std::string> notes;
  int threadsPerRank;
  int ranksPerProcess;
  /// Whether standard output is a terminal.
  bool isOnTerminal;
  /// Whether the run ends where nobody reads its standard output any more.
  bool endsWithOutput;
  FailureRecord &record;
};

/// One rank of the run, from its initial state to its last step. Everything
/// that a user may have got wrong is refused before the first step. Collective.
Status train(World &host, const TrainingRun &run);

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_TRAINING_H
