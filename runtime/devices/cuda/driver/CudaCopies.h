//===- CudaCopies.h - Between the host and the device -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is uploaded is copied to pinned memory, from which a stream of its own
// takes it while the host goes on: it reads the next batch, or hands over the
// next piece. A run begins after all of it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_CUDACOPIES_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_CUDACOPIES_H

#include "core/Status.h"
#include "devices/cuda/driver/CudaContext.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace fsdp::rt {

/// The stream of uploads and downloads of a rank. Callable from several threads
/// whose current context is the device's.
class CudaCopies {
public:
  /// `context` must outlive it.
  static Result<std::unique_ptr<CudaCopies>> create(const CudaContext &context);
  ~CudaCopies();
  CudaCopies(const CudaCopies &) = delete;
  CudaCopies &operator=(const CudaCopies &) = delete;

  /// `src` may be used again on return.
  Status upload(cu::Pointer dst, const void *src, int64_t bytes);
  /// As an upload of zeros.
  Status clear(cu::Pointer dst, int64_t bytes);
  /// As an upload of bytes of the device's memory.
  Status place(cu::Pointer dst, cu::Pointer src, int64_t bytes);
  /// What is uploaded, placed or downloaded later comes after `event`.
  Status waitFor(cu::Event event);
  /// Completes `event` when all uploads so far have arrived.
  Status record(cu::Event event);
  /// Returns when the bytes have arrived.
  Status download(void *dst, cu::Pointer src, int64_t bytes);

  /// What is uploaded, placed or downloaded later comes after the run whose end
  /// `event` is; null: none is pending.
  void setRunEnd(cu::Event event);
  /// What `stream` is given later comes after all uploads so far.
  Status orderBefore(cu::Stream stream);
  /// Returns when nothing is on its way.
  Status finish() const;

private:
  /// Pinned memory is a ring of these: one may be overwritten when the device
  /// has taken all that was in it.
  static constexpr int64_t segmentBytes = int64_t(1) << 20;
  static constexpr size_t numSegments = 4;

  explicit CudaCopies(const CudaContext &context) : context_(context) {}
  Status open();
  Status nextSegment();
  /// Of a caller that holds the mutex.
  Status comeAfterRun();
  const DriverApi &api() const { return context_.api(); }

  const CudaContext &context_;
  std::optional<CudaStream> stream_;
  std::mutex mutex_;
  char *pinned_ = nullptr;
  /// For each segment, when it is free again.
  std::vector<CudaEvent> taken_;
  std::vector<bool> isUsed_;
  size_t segment_ = 0;
  int64_t filled_ = 0;
  /// Of all uploads; whether there were any that no stream waits for.
  std::optional<CudaEvent> arrived_;
  bool isOnTheWay_ = false;
  /// Of the last run, until the stream waits for it or the host has.
  cu::Event runEnd_ = nullptr;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_CUDACOPIES_H
