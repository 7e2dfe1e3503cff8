//===- StateMemory.h - Where a rank's state lies ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_STATEMEMORY_H
#define FSDP_RT_DATA_STATEMEMORY_H

#include "data/Manifest.h"
#include "hal/Memory.h"

namespace fsdp::rt::data {

/// A rank's two memories. Buffers and accumulators are in the device's,
/// parameters and optimizer states where the manifest says.
struct StateMemory {
  hal::Memory *device = nullptr;
  hal::Memory *host = nullptr; // may be null where no state is there

  hal::Location at(fsdp_rt_memory memory, int64_t offset) const {
    return {memory == FSDP_RT_HOST ? host : device, offset};
  }
  hal::Location at(const FlatParam &flat) const {
    return at(flat.memory, flat.offset);
  }
  hal::Location at(const Residual &residual) const {
    return {device, residual.offset};
  }
  hal::Location at(const Buffer &buffer) const {
    return {device, buffer.offset};
  }
  hal::Location at(const OptimizerState &state) const {
    return at(state.memory, state.offset);
  }
};

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_STATEMEMORY_H
