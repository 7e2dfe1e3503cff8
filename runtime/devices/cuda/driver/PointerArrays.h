//===- PointerArrays.h - Addresses in a device's memory ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_POINTERARRAYS_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_POINTERARRAYS_H

#include "devices/cuda/driver/CudaMemory.h"

#include <memory>
#include <vector>

namespace fsdp::rt {

/// Arrays of addresses beside the arena, for products that find the matrices of
/// a batch by them. They stay as long as this does.
class PointerArrays {
public:
  /// Both must outlive it.
  PointerArrays(const CudaContext &context, CudaCopies &copies)
      : context_(context), copies_(copies) {}

  /// Copies an array to the device, and returns where it lies when it has
  /// arrived.
  Result<cu::Pointer> add(const std::vector<cu::Pointer> &addresses);

  int64_t mappedBytes() const;

private:
  const CudaContext &context_;
  CudaCopies &copies_;
  /// Each of at least `blockBytes`; the last one has room.
  static constexpr int64_t blockBytes = int64_t(1) << 20;
  std::vector<std::unique_ptr<DeviceArena>> blocks_;
  int64_t used_ = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_POINTERARRAYS_H
