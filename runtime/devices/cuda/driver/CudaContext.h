//===- CudaContext.h - A rank's CUDA device ---------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_CUDACONTEXT_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_CUDACONTEXT_H

#include "core/Status.h"
#include "devices/cuda/driver/DriverApi.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::rt {

/// One device and its primary context, which libraries share.
class CudaContext {
public:
  /// Of the device with this number; makes the context the thread's.
  static Result<std::unique_ptr<CudaContext>> create(const DriverApi &api,
                                                     int ordinal);
  ~CudaContext();
  CudaContext(const CudaContext &) = delete;
  CudaContext &operator=(const CudaContext &) = delete;

  const DriverApi &api() const { return api_; }
  cu::Context get() const { return context_; }
  cu::Device device() const { return device_; }
  int ordinal() const { return ordinal_; }
  /// "NVIDIA H100 80GB HBM3".
  const std::string &name() const { return name_; }
  /// "device 0 (NVIDIA H100 80GB HBM3)".
  std::string describe() const;
  /// 90 is sm_90.
  int capability() const { return capability_; }
  /// Why kernels cannot begin before those before them have ended; empty: they
  /// can. `inGraphs`: of programs that are graphs.
  std::string whyNoDependentLaunch(bool inGraphs) const;
  /// Of streams; numbers of the driver, the smaller the earlier.
  int lowestPriority() const { return lowestPriority_; }
  int highestPriority() const { return highestPriority_; }
  /// Why these are the same; empty: they are not.
  const std::string &whyNoPriorities() const { return whyNoPriorities_; }
  int64_t maxGrid() const { return maxGrid_; }
  int multiprocessors() const { return multiprocessors_; }
  /// Bytes of a block, at most, of functions that ask for more than usual.
  int64_t maxSharedBytes() const { return maxSharedBytes_; }

  /// How memory of the device is allocated: so that other processes and the
  /// network can open it, where the driver says that they could.
  const cu::AllocationProperties &allocation() const { return allocation_; }
  /// Devices of other ranks that are threads of this process, which read and
  /// write this one's memory. Those that can are given access to all memory
  /// that is mapped from then on.
  Status setPeers(const std::vector<int> &ordinals);
  const std::vector<cu::Device> &peers() const { return peers_; }

  /// Bytes of the device's memory that anybody has taken.
  Result<int64_t> takenBytes() const;
  /// The same when the context had just been made: its own, and what other
  /// processes have.
  int64_t contextBytes() const { return contextBytes_; }

  /// The driver's calls act on the context of their thread.
  Status makeCurrent() const;

  /// Success, or what the call returned.
  Status check(cu::Error error, const char *call) const {
    return api_.check(error, call);
  }

private:
  CudaContext(const DriverApi &api, int ordinal)
      : api_(api), ordinal_(ordinal) {}
  Status open();
  Status readAttribute(int attribute, int &value) const;
  Status chooseAllocation();
  void readPriorities();

  const DriverApi &api_;
  int ordinal_;
  cu::Device device_ = 0;
  cu::Context context_ = nullptr;
  std::string name_;
  int capability_ = 0;
  int maxGrid_ = 0, maxSharedBytes_ = 0, multiprocessors_ = 0;
  int lowestPriority_ = 0, highestPriority_ = 0;
  std::string whyNoPriorities_;
  cu::AllocationProperties allocation_ = {};
  std::vector<cu::Device> peers_;
  int64_t contextBytes_ = 0;
};

/// An event of a context, which must outlive it.
class CudaEvent {
public:
  static Result<CudaEvent> create(const CudaContext &context, unsigned flags);
  CudaEvent(CudaEvent &&other) noexcept
      : context_(other.context_), event_(other.event_) {
    other.event_ = nullptr;
  }
  CudaEvent &operator=(CudaEvent &&) = delete;
  ~CudaEvent() {
    if (event_)
      (void)context_->api().eventDestroy(event_);
  }
  cu::Event get() const { return event_; }

private:
  CudaEvent(const CudaContext &context, cu::Event event)
      : context_(&context), event_(event) {}
  const CudaContext *context_;
  cu::Event event_;
};

/// Whose blocks a device starts first, of kernels that wait.
enum class StreamPriority { Lowest, Highest };

/// A stream that does not wait for the legacy one.
class CudaStream {
public:
  static Result<CudaStream>
  create(const CudaContext &context,
         StreamPriority priority = StreamPriority::Lowest);
  CudaStream(CudaStream &&other) noexcept
      : context_(other.context_), stream_(other.stream_) {
    other.stream_ = nullptr;
  }
  CudaStream &operator=(CudaStream &&) = delete;
  ~CudaStream() {
    if (stream_)
      (void)context_->api().streamDestroy(stream_);
  }
  cu::Stream get() const { return stream_; }

private:
  CudaStream(const CudaContext &context, cu::Stream stream)
      : context_(&context), stream_(stream) {}
  const CudaContext *context_;
  cu::Stream stream_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_CUDACONTEXT_H
