//===- CudaMemory.h - The memories of a rank with a CUDA device -*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_CUDAMEMORY_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_CUDAMEMORY_H

#include "core/Status.h"
#include "devices/cuda/driver/CudaCopies.h"
#include "hal/Memory.h"

#include <cstdint>
#include <memory>
#include <string>

namespace fsdp::rt {

/// Refuses bytes that do not lie in a memory of `size` bytes.
Status checkRange(int64_t offset, int64_t bytes, int64_t size);

/// Bytes rounded up to a multiple of what cuBLASLt and cuDNN take for granted
/// of addresses, at most: 256.
constexpr int64_t alignPart(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// A range of the device's addresses that memory of its own backs, in whole
/// pages of the driver's allocations. Nobody has written to it.
class DeviceArena final : public hal::Memory {
public:
  /// Refuses what the device's free memory cannot hold; `what` names it then.
  /// `context` and `copies` must outlive it.
  static Result<std::unique_ptr<DeviceArena>> map(const CudaContext &context,
                                                  CudaCopies &copies,
                                                  int64_t bytes,
                                                  const std::string &what);
  ~DeviceArena() override;

  cu::Pointer base() const { return base_; }
  /// Of whole pages.
  int64_t mappedBytes() const { return static_cast<int64_t>(mapped_); }
  int64_t size() const override { return size_; }
  Status upload(int64_t offset, const void *src, int64_t bytes) override;
  Status download(int64_t offset, void *dst, int64_t bytes) const override;
  Result<std::unique_ptr<hal::UploadBuffer>>
  createUploadBuffer(int64_t bytes) override;
  /// Of the device's memory, what upload buffers have.
  int64_t uploadBytes() const { return uploadBytes_; }

private:
  friend class CudaUploadBuffer;

  DeviceArena(const CudaContext &context, CudaCopies &copies, int64_t bytes)
      : context_(context), copies_(copies), size_(bytes) {}
  Status open(const std::string &what);

  const CudaContext &context_;
  CudaCopies &copies_;
  int64_t size_;
  size_t mapped_ = 0;
  int64_t uploadBytes_ = 0;
  cu::Pointer base_ = 0;
  cu::AllocationHandle handle_ = 0;
  bool hasHandle_ = false, isMapped_ = false;
};

/// Memory of the host that the device reads and writes in place: its pages
/// stay where they are.
class PinnedMemory final : public hal::Memory {
public:
  /// `what` names it in errors.
  static Result<std::unique_ptr<PinnedMemory>>
  allocate(const CudaContext &context, int64_t bytes, const char *what);
  ~PinnedMemory() override;

  char *data() const { return data_; }
  int64_t size() const override { return size_; }
  Status upload(int64_t offset, const void *src, int64_t bytes) override;
  Status download(int64_t offset, void *dst, int64_t bytes) const override;

private:
  PinnedMemory(const CudaContext &context, int64_t bytes)
      : context_(context), size_(bytes) {}
  const CudaContext &context_;
  int64_t size_;
  char *data_ = nullptr;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_CUDAMEMORY_H
