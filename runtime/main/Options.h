//===- Options.h - The command line of a compiled program --------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_OPTIONS_H
#define FSDP_RT_MAIN_OPTIONS_H

#include "core/Blas.h"
#include "core/Status.h"
#include "core/TransferQueues.h"
#include "core/data/Manifest.h"
#include "core/data/TensorFiles.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::rt {

struct Options {
  enum class BackendKind { Auto, Local, Mpi };
  struct Link {
    double bytesPerSecond = 0, latencySeconds = 0;
  };

  std::optional<int> ranks;
  BackendKind backend = BackendKind::Auto;
  std::string params;           // empty: not given, here and below
  std::optional<uint64_t> seed; // --init
  std::string resume;
  bool castParams = false;
  data::Renaming renaming; // --strip-prefix, --add-prefix
  std::string data;
  std::optional<int64_t> steps;
  int64_t accumulate = 1; // micro-batches of a step
  std::string evalData, saveOutputs;
  std::optional<int64_t> evalEvery, evalSteps;
  /// --lr, --clip-norm and --scalar, by the scalar's name.
  std::vector<std::pair<std::string, double>> scalars;
  std::optional<int> threads; // per rank
  BlasKind blas = BlasKind::Auto;
  QueueThreads queueThreads = QueueThreads::Auto;
  std::string metrics, trace, profile;
  std::string save;
  std::optional<int64_t> saveEvery, keep;
  int64_t logEvery = 1;
  bool stopOnNan = false, quiet = false;
  bool help = false, describe = false;
  std::optional<Link> link;

  /// No training step is asked for, but an evaluation of the initial state.
  bool evaluatesOnly() const {
    return !evalData.empty() && data.empty() && !steps;
  }
};

/// Reads the arguments after the program's name. Refuses what is unknown (with
/// the nearest option), given twice, without its value, or at odds with
/// another option. With --help or --describe nothing else need be given.
Result<Options> parseOptions(const std::vector<std::string> &arguments);

/// What the options ask of this program: ranks, scalars.
Status checkOptions(const Options &options, const data::Manifest &manifest);

/// The text of --help.
std::string helpText(const std::string &program);

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_OPTIONS_H
