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

#include <string>
#include <vector>

namespace fsdp::rt::data {

/// All parameters, in the manifest's order, then all buffers.
std::vector<WantedTensor> wantedParameters(const Manifest &manifest);

/// Reads what `rank` holds from what TensorFiles::open finds at `path`, and
/// sets the optimizer's states to their initial values. A config.json beside
/// the files must be the traced model's. Every parameter must be
/// there, under its name or a tied one (under several it must be the same); so
/// must buffers without an initialiser. Other buffers may be absent: they are
/// initialised, and a line in `notes` says so. Only this rank's bytes are read.
/// `cast`: see matchTensors. A failure while reading leaves the memory part
/// written; any other leaves it as it was.
Status loadParameters(const Manifest &manifest, int rank,
                      const std::string &path, const Renaming &renaming,
                      bool cast, const StateMemory &memory,
                      std::vector<std::string> &notes);

/// The parameters and buffers alone, from tensors that matchTensors found for
/// wantedParameters, in its order.
Status readParameters(const Manifest &manifest, int rank,
                      const std::vector<MatchedTensor> &matched,
                      const StateMemory &memory);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_PARAMETERS_H
