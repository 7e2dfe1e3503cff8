//===- CpuDevice.h - Programs on the processors of this host ----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Queue 0 is the caller's thread and its pool: its work is complete when the
// call has been played. The other queues are TransferQueues.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CPU_CPUDEVICE_H
#define FSDP_RT_DEVICES_CPU_CPUDEVICE_H

#include "devices/cpu/CpuRank.h"
#include "devices/cpu/TransferQueues.h"
#include "hal/Device.h"
#include "hal/DeviceKind.h"
#include "hal/World.h"

#include <cstdint>
#include <memory>

namespace fsdp::rt {

class CpuDevice final : public hal::Device {
public:
  /// Collective over all ranks. `world` must outlive the device.
  static Result<std::unique_ptr<CpuDevice>>
  create(World &world, const hal::Layout &layout, const CpuOptions &options);

  hal::DeviceFacts facts() const override { return rank_->facts("cpu"); }
  hal::Memory &memory(fsdp_rt_memory which) override {
    return rank_->memory(which);
  }
  Result<std::unique_ptr<hal::Executable>>
  load(hal::Recording recording) override;
  Status execute(hal::Executable &executable,
                 hal::RunRequest &request) override;
  Status awaitOldest(hal::RunTimes &times) override {
    return synchronize(times);
  }
  Status synchronize(hal::RunTimes &times) override;

  /// What it computes with.
  CpuRank &rank() { return *rank_; }

private:
  CpuDevice(World &world, const hal::Layout &layout,
            std::unique_ptr<CpuRank> rank)
      : world_(world), layout_(layout), rank_(std::move(rank)) {}
  Status openQueues(const CpuOptions &options);
  Status play(const CpuExecutable &executable, const hal::RunRequest &request);
  Status play(const CpuCall &call, const hal::RunRequest &request);
  Status start(const hal::Call &call, const hal::RunRequest &request);
  Status startInOrder(const hal::Call &call, const hal::RunRequest &request);
  void wait(const hal::Call &call, const hal::RunRequest &request);
  void addTransfer(const TransferRecord &done);

  World &world_;
  hal::Layout layout_;
  std::unique_ptr<CpuRank> rank_;
  /// Of a layout without queues.
  HostChannels channels_;
  hal::RunTimes times_;
  /// Runs that were begun: events of each are told from those before.
  uint32_t runs_ = 0;
  Status failure_;
  /// Last, so that its threads end first. Null without queues.
  std::unique_ptr<TransferQueues> queues_;
};

extern const hal::DeviceKind cpuDevice;

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CPU_CPUDEVICE_H
