//===- Traffic.cpp - What transfers move ----------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "hal/Traffic.h"

#include <algorithm>

namespace fsdp::rt {

Traffic &Traffic::operator+=(const Traffic &other) {
  offloads += other.offloads;
  reloads += other.reloads;
  groups.resize(std::max(groups.size(), other.groups.size()));
  for (size_t group = 0; group < other.groups.size(); ++group)
    for (size_t kind = 0; kind < groups[group].size(); ++kind)
      groups[group][kind] += other.groups[group][kind];
  return *this;
}

} // namespace fsdp::rt
