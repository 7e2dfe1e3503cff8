//===- CudaWork.h - What a stream is given at once --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_CUDAWORK_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_CUDAWORK_H

#include "core/Status.h"
#include "devices/cuda/driver/CudaContext.h"
#include "devices/cuda/driver/CudaImages.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::rt {

/// A launch, copy, product, exchange or the like, whose arguments are the same
/// in every run. It may be enqueued any number of times, also into a graph, and
/// outlives the graphs that hold it.
class CudaWork {
public:
  virtual ~CudaWork() = default;

  virtual Status enqueue(cu::Stream stream) const = 0;
  /// As enqueue, for work that waits by itself until the kernel before it in
  /// the stream has ended: it may begin before.
  virtual Status enqueueEarly(cu::Stream stream) const {
    return enqueue(stream);
  }
  /// Whether it is a launch whose code waits for the kernel before it.
  virtual bool waitsForGrid() const { return false; }

  /// Whether enqueueEarly may stand for enqueue: so do both this work and the
  /// one before it in its stream wait.
  bool isDependent = false;
};

/// A launch's parameters, which several launches may share.
class LaunchParameters {
public:
  explicit LaunchParameters(std::vector<cu::Pointer> values)
      : values_(std::move(values)) {
    for (cu::Pointer &value : values_)
      addresses_.push_back(&value);
  }
  LaunchParameters(const LaunchParameters &) = delete;
  LaunchParameters &operator=(const LaunchParameters &) = delete;

  /// As the driver takes them.
  void **addresses() { return addresses_.data(); }

private:
  std::vector<cu::Pointer> values_;
  std::vector<void *> addresses_;
};

class LaunchWork final : public CudaWork {
public:
  /// `context` must outlive it.
  LaunchWork(const CudaContext &context, const CudaKernel &kernel,
             std::shared_ptr<LaunchParameters> parameters)
      : context_(context), kernel_(kernel), parameters_(std::move(parameters)) {
  }

  Status enqueue(cu::Stream stream) const override;
  Status enqueueEarly(cu::Stream stream) const override;
  bool waitsForGrid() const override { return kernel_.waitsForGrid; }
  /// "GRID x BLOCK of SHARED BYTES".
  std::string describeShape() const;

private:
  const CudaContext &context_;
  CudaKernel kernel_;
  std::shared_ptr<LaunchParameters> parameters_;
};

/// A call of the driver.
class CallWork final : public CudaWork {
public:
  using Call = std::function<Status(cu::Stream)>;
  explicit CallWork(Call call) : call_(std::move(call)) {}

  Status enqueue(cu::Stream stream) const override { return call_(stream); }

private:
  Call call_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_CUDAWORK_H
