//===- CudaDevice.h - Programs on a CUDA device -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every queue is a stream, every event of a program one of the driver's. A run
// is issued call by call and the host waits at its end alone.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_CUDADEVICE_H
#define FSDP_RT_DEVICES_CUDA_CUDADEVICE_H

#include "devices/cuda/CudaRank.h"
#include "hal/Device.h"
#include "hal/DeviceKind.h"
#include "hal/World.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace fsdp::rt {

class CudaDevice final : public hal::Device {
public:
  /// The device with the rank's number on its host. `world` and `api` must
  /// outlive it.
  static Result<std::unique_ptr<CudaDevice>>
  create(World &world, const DriverApi &api, const hal::Layout &layout,
         int target, int threads, Reduction reduction);
  ~CudaDevice() override;

  hal::DeviceFacts facts() const override;
  hal::Memory &memory(fsdp_rt_memory which) override;
  Result<std::unique_ptr<hal::Executable>>
  load(hal::Recording recording) override;
  Status execute(hal::Executable &executable,
                 const hal::RunRequest &request) override;
  Status synchronize(hal::RunTimes &times) override;

private:
  CudaDevice(World &world, const hal::Layout &layout, int threads);
  Status openQueues();
  cu::Stream stream(int32_t queue) const { return streams_[queue]->get(); }
  const DriverApi &api() const { return rank_->context().api(); }
  Status check(cu::Error error, const char *call) const {
    return rank_->context().check(error, call);
  }

  Status issue(CudaExecutable &executable, const hal::RunRequest &request);
  Status issueCall(const CudaExecutable &executable, size_t index,
                   RunRecords *records);
  Status issueStart(const CudaExecutable &executable, size_t index,
                    RunRecords *records);
  Status issueWorks(const CudaExecutable &executable, const CudaCall &call,
                    cu::Stream stream);
  Status issueWork(const CudaWork &work, cu::Stream stream);

  /// Returns when all streams are idle, or with what failed first: the device
  /// or another rank.
  Status waitForStreams();
  /// Ends the run that was issued.
  Status finish(hal::RunTimes &times);
  /// Keeps the first failure and tells the other ranks.
  void fail(const Status &status);

  World &world_;
  hal::Layout layout_;
  int threads_;
  /// Whether the host waits after each call, so that a failure names it: the
  /// environment variable CUDA_LAUNCH_BLOCKING.
  bool isBlocking_;
  std::unique_ptr<CudaRank> rank_;
  /// By fsdp_rt_queue; none where the layout has no such queue.
  std::vector<std::optional<CudaStream>> streams_;
  /// By number; and how far queue 0 has come when a transfer is started.
  std::vector<CudaEvent> events_;
  std::optional<CudaEvent> position_;
  /// The run that was issued last, until it is over.
  CudaExecutable *pending_ = nullptr;
  const hal::RunRequest *request_ = nullptr;
  hal::RunTimes times_;
  Status failure_;
};

extern const hal::DeviceKind cudaDevice;

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_CUDADEVICE_H
