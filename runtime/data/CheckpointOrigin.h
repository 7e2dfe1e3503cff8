//===- CheckpointOrigin.h - What a checkpoint came from ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// State fits any program with the same parameters and optimizer states. What
// else made it is written beside it, so that going on with something else is
// said.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_CHECKPOINTORIGIN_H
#define FSDP_RT_DATA_CHECKPOINTORIGIN_H

#include "core/Status.h"
#include "data/Json.h"
#include "data/Manifest.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt::data {

/// What --data named, as far as it can be told without its path.
struct DataIdentity {
  std::string kind; // BatchSource::kind()
  std::string name; // of the file, without its folders; empty: no file
  int64_t bytes = 0;
  std::string digest; // of the file, or of its first and last 32 MiB
  /// Batches of a rank that a step takes: micro-batches.
  int64_t batchesPerStep = 1;
};

struct CheckpointOrigin {
  std::optional<TracedProgram> traced;
  std::optional<DataIdentity> data; // none: a session's caller gave the inputs
};

/// `spec` is --data's, `kind` what it was opened as, and `batchesPerStep` is
/// --accumulate's.
Result<DataIdentity> identifyData(const std::string &spec,
                                  const std::string &kind,
                                  int64_t batchesPerStep);

/// Adds what is known to a checkpoint's meta.json, and reads it.
void writeOrigin(const CheckpointOrigin &origin, nlohmann::json &meta);
CheckpointOrigin readOrigin(const JsonReader &meta);

/// One line for the user per thing that both know and that differs: the step,
/// the optimizer, the data, and at which of its batches the step after `step`
/// begins. They say what it was and what it is.
std::vector<std::string> differences(const CheckpointOrigin &saved,
                                     const CheckpointOrigin &present,
                                     int64_t step);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_CHECKPOINTORIGIN_H
