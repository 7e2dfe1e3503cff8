//===- CudaUploadBuffer.h - Uploads beside a run ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program may use the places of its inputs for something else once it has
// read them, so the inputs of the next run cannot go there before the run ends.
// They are written to pinned memory and copied, on a stream of their own, to
// memory of the device beside the arena. Between two runs a copy on the device
// takes them to their places.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_CUDAUPLOADBUFFER_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_CUDAUPLOADBUFFER_H

#include "devices/cuda/driver/CudaMemory.h"

#include <memory>
#include <optional>

namespace fsdp::rt {

class CudaUploadBuffer final : public hal::UploadBuffer {
public:
  /// For places in `arena`, which must outlive it.
  static Result<std::unique_ptr<CudaUploadBuffer>> create(DeviceArena &arena,
                                                          int64_t bytes);
  ~CudaUploadBuffer() override;

  Result<char *> begin() override;
  Status send() override;
  Status place(int64_t begin, int64_t offset, int64_t bytes) override;

private:
  explicit CudaUploadBuffer(DeviceArena &arena) : arena_(arena) {}
  Status open(int64_t bytes);
  const CudaContext &context() const { return arena_.context_; }
  const DriverApi &api() const { return context().api(); }

  DeviceArena &arena_;
  std::optional<CudaStream> stream_;
  /// The pinned memory has been read, and then the device's.
  std::optional<CudaEvent> sent_, placed_;
  bool isSent_ = false, isPlaced_ = false;
  /// Whether copies to the arena come after what was sent last.
  bool isWaitedFor_ = false;
  std::unique_ptr<PinnedMemory> pinned_;
  std::unique_ptr<DeviceArena> device_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_CUDAUPLOADBUFFER_H
