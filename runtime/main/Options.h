//===- Options.h - The command line of a compiled program --------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_OPTIONS_H
#define FSDP_RT_MAIN_OPTIONS_H

#include "control/Backend.h"
#include "core/Status.h"
#include "data/Batches.h"
#include "data/Manifest.h"
#include "data/RateSchedule.h"
#include "data/TensorFiles.h"
#include "hal/DeviceKind.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::rt {

/// Whether a run is issued before the one before it is over.
enum class RunAhead {
  /// Where the device and the other options let it.
  Auto,
  On,
  Off
};

struct Options {
  std::optional<int> ranks;
  std::string backend, device; // empty: whatever fits
  std::vector<std::string> params;
  std::optional<uint64_t> seed; // --init
  // Empty: not given, here and below. "auto": --save's, where it has a
  // checkpoint.
  std::string resume;
  bool castParams = false;
  data::Renaming renaming; // --strip-prefix, --add-prefix, --omit-text
  std::string data;
  data::DataOptions dataOptions; // --token-bits, --data-ranks
  std::optional<int64_t> steps;
  std::optional<int64_t> accumulate;
  std::string evalData, saveOutputs;
  std::optional<int64_t> evalEvery, evalSteps;
  /// --lr, --clip-norm and --scalar, by the scalar's name.
  std::vector<std::pair<std::string, double>> scalars;
  std::optional<data::RateSchedule> rateSchedule; // --lr-schedule
  std::optional<int> threads;                     // per rank
  /// --blas and --queue-threads: what DeviceOptions has.
  std::map<std::string, std::string> deviceSettings;
  std::string metrics, trace, profile;
  std::string save;
  std::optional<int64_t> saveEvery, keep;
  int64_t logEvery = 1;
  bool saveTrained = false, stopOnNan = false, quiet = false;
  RunAhead runAhead = RunAhead::Auto;
  bool help = false, describe = false;
  std::optional<LinkModel> link;
  int64_t watchdogSeconds = 600; // 0: none

  /// Whether a value is given for the scalar of this name.
  bool hasScalar(const std::string &name) const;
  /// Of a step.
  int64_t microBatches() const { return accumulate.value_or(1); }
  /// "--params and --init", those of them that are given; empty: neither. With
  /// --resume it is where a checkpoint of --save-trained has the rest from.
  std::string startsFrom() const;
  bool resumesIfAny() const { return resume == resumeIfAny; }
  static constexpr const char *resumeIfAny = "auto";

  /// No training step is asked for, but an evaluation of the initial state.
  bool evaluatesOnly() const {
    return !evalData.empty() && data.empty() && !steps;
  }
};

/// Reads the arguments after the program's name. Refuses what is unknown (with
/// the nearest option), given twice, without its value, or at odds with
/// another option. With --help or --describe nothing else need be given.
Result<Options> parseOptions(const std::vector<std::string> &arguments);

/// What the options ask of this program, ranks and scalars, and of the device
/// that is to run it. Of a run that resumes, what a checkpoint may say is not
/// looked at: that is up to checkComplete, once it has.
Status checkOptions(const Options &options, const data::Manifest &manifest,
                    const hal::DeviceKind &device);

/// That whatever a step needs is given, and fits the program.
Status checkComplete(const Options &options, const data::Manifest &manifest);

/// Whether `name` is a scalar that says which micro-batches a step has.
bool isSetByRuntime(const data::Manifest &manifest, const std::string &name);

/// The text of --help.
std::string helpText(const std::string &program);

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_OPTIONS_H
