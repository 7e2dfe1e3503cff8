//===- OwnTensors.h - What each rank has for itself --------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_OWNTENSORS_H
#define FSDP_RT_DATA_OWNTENSORS_H

#include "data/Manifest.h"

#include <string>
#include <string_view>
#include <vector>

namespace fsdp::rt::data {

/// Names of residuals begin so.
constexpr std::string_view residualPrefix = "residuals/";

/// A tensor that differs between ranks: a buffer that the step changes, a
/// parameter whose gradient is not reduced, a state of such a parameter, or a
/// residual.
struct OwnTensor {
  /// "params/<name>" or "optimizer/<name>", as in the file of that name, or
  /// "residuals/<name>".
  std::string name;
  Dtype dtype = FSDP_RT_F32;
  Shape shape;
  int64_t numel = 0;
  fsdp_rt_memory memory = FSDP_RT_DEVICE; // its arena
  int64_t offset = 0;                     // bytes, in that

  int64_t bytes() const { return numel * dtypeSize(dtype); }
};

/// All of them, in the manifest's order. (States of one element follow from the
/// number of steps and are equal on all ranks.)
std::vector<OwnTensor> ownTensors(const Manifest &manifest);

/// Every tensor of the model that a program could have as its ranks' own, as
/// names and shapes: which ones do, may change between a save and a resume.
std::vector<OwnTensor> possibleOwnTensors(const Manifest &manifest);

/// The shape that holds `tensor` of so many ranks.
Shape stackedShape(const OwnTensor &tensor, int64_t ranks);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_OWNTENSORS_H
