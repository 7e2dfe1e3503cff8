//===- ModelConfig.h - Is it the model that was traced? ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A checkpoint's tensors do not say what is computed with them: an epsilon or
// the base of rotary angles. The config.json beside them does.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_MODELCONFIG_H
#define FSDP_RT_DATA_MODELCONFIG_H

#include "core/Status.h"
#include "data/Manifest.h"

#include <string>
#include <vector>

namespace fsdp::rt::data {

/// Refuses `folder` (with its slash, or empty) where the config.json in it says
/// otherwise than the manifest's `config`: numbers are compared by value, lists
/// as a whole, objects by their entries. Of an object that config.json lacks, an
/// entry may stand in the object around it, where older files have it. Entries
/// that it lacks are not compared; neither is a file without `model_type`, which
/// is no model's. One that is no strict JSON is not compared, and `notes` says
/// so. Nothing is compared where the manifest has none.
Status checkModelConfig(const Manifest &manifest, const std::string &folder,
                        std::vector<std::string> &notes);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_MODELCONFIG_H
