//===- OwnTensors.cpp - What each rank has for itself ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/OwnTensors.h"

namespace fsdp::rt::data {

static std::vector<OwnTensor> collect(const Manifest &manifest, bool all) {
  std::vector<OwnTensor> tensors;
  for (const FlatParam &flat : manifest.flatParams) {
    if (!all && !flat.perRank)
      continue;
    auto add = [&](const std::string &kind, const Member &member,
                   const std::string &suffix, Dtype dtype,
                   fsdp_rt_memory memory, int64_t offset) {
      tensors.push_back({kind + member.fqn + suffix, dtype, member.shape,
                         member.numel, memory,
                         offset + member.offset * dtypeSize(dtype)});
    };
    for (const Member &member : flat.members) {
      add("params/", member, "", flat.dtype, flat.memory, flat.offset);
      for (const OptimizerState &state : flat.states)
        if (!state.scalar)
          add("optimizer/", member, "." + state.name, state.dtype, state.memory,
              state.offset);
    }
  }
  for (const Buffer &buffer : manifest.buffers)
    if (all || buffer.perRank)
      tensors.push_back({"params/" + buffer.fqn, buffer.dtype, buffer.shape,
                         buffer.numel, FSDP_RT_DEVICE, buffer.offset});
  for (const Residual &residual : manifest.residuals)
    tensors.push_back({std::string(residualPrefix) + residual.name,
                       residual.dtype, residual.shape, residual.numel,
                       FSDP_RT_DEVICE, residual.offset});
  return tensors;
}

std::vector<OwnTensor> ownTensors(const Manifest &manifest) {
  return collect(manifest, /*all=*/false);
}

std::vector<OwnTensor> possibleOwnTensors(const Manifest &manifest) {
  return collect(manifest, /*all=*/true);
}

Shape stackedShape(const OwnTensor &tensor, int64_t ranks) {
  Shape shape = {ranks};
  shape.insert(shape.end(), tensor.shape.begin(), tensor.shape.end());
  return shape;
}

} // namespace fsdp::rt::data
