//===- Traffic.h - What transfers move --------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_TRAFFIC_H
#define FSDP_RT_HAL_TRAFFIC_H

#include "hal/Transfers.h"

#include <array>
#include <cstdint>
#include <vector>

namespace fsdp::rt {

struct TransferCounter {
  int64_t calls = 0;
  int64_t bytes = 0;

  TransferCounter &operator+=(const TransferCounter &other) {
    calls += other.calls;
    bytes += other.bytes;
    return *this;
  }
};

/// Calls and bytes of this rank's transfers.
struct Traffic {
  /// Copies to the host and back.
  TransferCounter offloads, reloads;
  /// groups[g][kind], by the manifest's group.
  std::vector<std::array<TransferCounter, numTransferKinds>> groups;

  Traffic &operator+=(const Traffic &other);
};

} // namespace fsdp::rt

#endif // FSDP_RT_HAL_TRAFFIC_H
