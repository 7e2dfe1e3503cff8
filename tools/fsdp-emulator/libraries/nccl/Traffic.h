//===- Traffic.h - Bytes that a communicator's ranks send -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_LIBRARIES_NCCL_TRAFFIC_H
#define FSDP_EMULATOR_LIBRARIES_NCCL_TRAFFIC_H

#include "Types.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fsdp::emulator::nccl {

/// What one rank of a communicator sends to others, by kind of call. Of sends
/// their bytes; of collectives those of a ring through the ranks in their
/// order, which a rank sends to the next one. (The double itself moves others.)
class Traffic {
public:
  /// `isOnNode`: for each rank, whether it is on this one's node.
  void add(const Call &call, int rank, const std::vector<bool> &isOnNode);
  /// Appends a line to the file that FSDP_NCCL_TRAFFIC names, if it does.
  void write(const std::string &communicator, int rank, int ranks) const;

private:
  struct Count {
    uint64_t calls = 0, within = 0, between = 0;
  };
  std::map<std::string, Count> counts_;
};

} // namespace fsdp::emulator::nccl

#endif // FSDP_EMULATOR_LIBRARIES_NCCL_TRAFFIC_H
