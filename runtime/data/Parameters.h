//===- Parameters.h - A rank's parameters from a file ------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_PARAMETERS_H
#define FSDP_RT_DATA_PARAMETERS_H

#include "core/Status.h"
#include "data/Manifest.h"
#include "data/StateMemory.h"
#include "data/TensorMatch.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace fsdp::rt::data {

/// All parameters, in the manifest's order, then all buffers.
std::vector<WantedTensor> wantedParameters(const Manifest &manifest);

/// Where parameters come from.
struct ParameterSource {
  /// What TensorFiles::open takes; none: all are drawn.
  std::vector<std::string> files;
  Renaming renaming;
  /// See matchTensors.
  bool cast = false;
  /// Of --init: draws what the files lack, on so many threads.
  std::optional<uint64_t> seed;
  int threads = 1;
};

/// Lines for the user.
struct LoadNotes {
  std::vector<std::string> warnings, remarks;
};

/// Reads what `rank` holds from the files of `source`, and sets the optimizer's
/// states to their initial values. A config.json beside a file must be the
/// traced model's. Every parameter must be there, under its name or a tied one
/// (under several it must be the same), unless it is one of `others`, which the
/// caller writes himself, or it has an initialiser and there is a seed; so must
/// buffers without an initialiser. What is drawn, or set to the initial value
/// of a buffer, is told in `notes`. Only this rank's bytes are read. Without
/// files all is drawn. A failure while reading leaves the memory part written;
/// any other leaves it as it was.
Status loadParameters(const Manifest &manifest, int rank,
                      const ParameterSource &source, const StateMemory &memory,
                      LoadNotes &notes,
                      const std::set<std::string> &others = {});

/// The parameters and buffers alone, from tensors that matchTensors found for
/// wantedParameters, in its order. What has none is left as it is; the padding
/// of parameters becomes zero.
Status readParameters(const Manifest &manifest, int rank,
                      const std::vector<MatchedTensor> &matched,
                      const StateMemory &memory);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_PARAMETERS_H
