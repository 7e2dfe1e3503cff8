//===- RunStart.h - What a run begins from ----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_RUNSTART_H
#define FSDP_RT_MAIN_RUNSTART_H

#include "control/Consensus.h"
#include "core/Status.h"
#include "data/Batches.h"
#include "data/Checkpoint.h"
#include "data/Parameters.h"
#include "main/Options.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt {

/// The checkpoint that a run goes on from, if any, and the options that are
/// then in force.
struct RunStart {
  Options options;
  /// How --data is read: the options', and what they leave open as the
  /// checkpoint's was, where its data is read on. --eval-data takes the
  /// options' alone.
  data::DataOptions dataOptions;
  /// --data and --lr-schedule are the checkpoint's.
  bool takesData = false, takesSchedule = false;
  std::optional<data::CheckpointInfo> checkpoint;
  int64_t firstStep = 1;
  /// --resume auto found the state after the last step.
  bool isDone = false;
  /// For the user to read: what was taken from the checkpoint.
  std::vector<std::string> notes;
};

/// Finds the checkpoint of --resume, and takes from it what decides the next
/// step and `given` does not say. With --resume auto rank 0 decides whether
/// there is one, and which. Collective.
Result<RunStart> findStart(const Options &given, const data::Manifest &manifest,
                           int rank, Consensus &ranks);

/// Resolves --lr-schedule for the steps that the run takes. Refuses a program
/// without learning rate, a warm-up that does not end before the decay, and a
/// run that goes on where the rate is 0.
Status settleSchedule(RunStart &start, const data::Manifest &manifest);

/// What --params and --init say.
data::ParameterSource sourceOf(const Options &options);

/// CheckpointOrigin::rateSchedule.
std::string scheduleText(const Options &options);

/// "cannot open ..": of data that was taken from a checkpoint, says so.
Status explainData(const RunStart &start, const Status &status);

/// The values of the scalars that users set, of the program that trains.
std::map<std::string, double> scalarsOf(const Options &options,
                                        const data::Manifest &manifest);

/// Samples of all ranks that a step takes: rows of the first input, or batches
/// where it has no dimension.
int64_t samplesPerStep(const data::Manifest &manifest, int64_t ranks,
                       int64_t microBatches);

/// Units of `source` before the first that the state of `checkpoint` did not
/// take, and 0 without one.
int64_t unitsTaken(const std::optional<data::CheckpointInfo> &checkpoint,
                   const data::BatchSource &source);

/// What a run that goes on from a checkpoint with `data` has not in common with
/// the one that saved it, a line each.
std::vector<std::string> compareStart(const RunStart &start,
                                      const data::Manifest &manifest,
                                      const data::DataIdentity &data);

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_RUNSTART_H
