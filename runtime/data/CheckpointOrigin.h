//===- CheckpointOrigin.h - What a checkpoint came from ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// State fits any program with the same parameters and optimizer states. What
// else decides the next step is written beside it. A run that resumes takes
// options that are not given from there, and warns of those that are given with
// other values.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_CHECKPOINTORIGIN_H
#define FSDP_RT_DATA_CHECKPOINTORIGIN_H

#include "core/Status.h"
#include "data/Json.h"
#include "data/Manifest.h"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt::data {

/// Units and samples are counted up to here: sums of two do not overflow.
constexpr int64_t maxTaken = std::numeric_limits<int64_t>::max() / 4;

/// What --data named, and how far it was read.
struct DataIdentity {
  /// --data's, of a file the absolute path; empty: an older version did not
  /// say. Files are compared without it.
  std::string source;
  std::string kind;  // BatchSource::kind()
  std::string ranks; // nameOf(DataOptions::Ranks)
  std::string name;  // of the file, without its folders; empty: no file
  int64_t bytes = 0;
  std::string digest; // of the file, or of its first and last 32 MiB
  /// Batches of a rank that a step takes: micro-batches.
  int64_t batchesPerStep = 1;
  /// Samples of all ranks that a step takes; none: an older version did not
  /// say.
  std::optional<int64_t> samplesPerStep;
  /// BatchSource::unit(), and units before the first that no step has taken;
  /// none: an older version counted batches of as many ranks from the first
  /// step on.
  std::string unit;
  std::optional<int64_t> taken;
};

/// The device that computed the state, and what it had chosen:
/// hal::DeviceFacts. Written where it has chosen anything.
struct DeviceIdentity {
  std::string name;
  std::map<std::string, std::string> choices;
  /// DeviceFacts::plain, which is not written.
  std::map<std::string, std::string> plain = {};
};

struct CheckpointOrigin {
  /// Of the program that trains, those that users set, with the values of the
  /// step that the state followed from; empty where an older version saved.
  std::map<std::string, double> scalars;
  std::optional<TracedProgram> traced;
  std::optional<DataIdentity> data; // none: a session's caller gave the inputs
  std::optional<DeviceIdentity> device;
  /// RateSchedule::text(); empty: the learning rate is that of `scalars`.
  std::string rateSchedule;
};

/// `spec` is --data's, and `kind` what it was opened as.
Result<DataIdentity> identifyData(const std::string &spec,
                                  const std::string &kind);

/// The option of a run that sets a scalar: "--lr", "--scalar total"; with a
/// value: "--lr 0.1", "--scalar total=5".
std::string optionOf(const std::string &scalar);
std::string optionOf(const std::string &scalar, const std::string &value);

/// Adds what is known to a checkpoint's meta.json, and reads it.
void writeOrigin(const CheckpointOrigin &origin, nlohmann::json &meta);
CheckpointOrigin readOrigin(const JsonReader &meta);

/// One line for the user per thing that both know and that differs: scalars,
/// the step, the optimizer, the data, and how much of it a step takes. They say
/// what it was and what it is.
std::vector<std::string> differences(const CheckpointOrigin &saved,
                                     const CheckpointOrigin &present);

/// The same for what a device has chosen, if both are of one kind of device:
/// then sums have another order.
std::vector<std::string> differences(const DeviceIdentity &saved,
                                     const DeviceIdentity &present);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_CHECKPOINTORIGIN_H
