//===- LateDevice.h - Processors whose queues run late ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A device for tests, which finds what a device that completes every call at
// once forgives. Nothing runs before synchronize(). Then queue 0 is the
// caller's thread and every other queue one of its own; which of the works that
// may begin does so next is drawn from a seed, and so is how much compute is
// preferred: where it always is, each transfer begins at the last of the
// moments that the contract allows. Memory that a program does not own is NaN
// when a run begins, and so is what a transfer will write when it begins. The
// seed is FSDP_LATE_SEED of the environment, or 1, with rank and run.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_DEVICES_CPU_LATE_LATEDEVICE_H
#define FSDP_TEST_DEVICES_CPU_LATE_LATEDEVICE_H

#include "Fault.h"
#include "LateMemory.h"
#include "devices/cpu/CpuRank.h"
#include "hal/Device.h"
#include "hal/DeviceKind.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace fsdp::rt {

class LateDevice final : public hal::Device {
public:
  static Result<std::unique_ptr<LateDevice>>
  create(World &world, const hal::Layout &layout, const CpuOptions &options,
         uint64_t seed, Fault fault = {});
  ~LateDevice() override;

  hal::DeviceFacts facts() const override { return rank_->facts("cpu-late"); }
  hal::Memory &memory(fsdp_rt_memory which) override {
    return which == FSDP_RT_HOST ? host_ : device_;
  }
  Result<std::unique_ptr<hal::Executable>>
  load(hal::Recording recording) override;
  Status execute(hal::Executable &executable,
                 hal::RunRequest &request) override;
  Status awaitOldest(hal::RunTimes &times) override {
    return synchronize(times);
  }
  Status synchronize(hal::RunTimes &times) override;

  /// An address that only the device may use.
  char *arena() { return rank_->arena(); }

private:
  /// A queue beside the computation.
  struct Lane {
    HostChannels channels;
    /// Given and not complete, in order; the first may be under way.
    std::deque<const hal::Call *> given;
    bool isBusy = false;
    std::thread thread;
  };
  struct Event {
    bool isComplete = false, isAwaited = false;
    TransferRecord record;
  };

  LateDevice(World &world, const hal::Layout &layout,
             std::unique_ptr<CpuRank> rank, uint64_t seed, Fault fault);
  void startThreads();
  void serve(Lane &lane);
  Status runTransfer(const hal::Call &call, const HostChannels &channels,
                     ThreadPool *pool, TransferRecord &record);
  /// A call of queue 0 other than a start or a wait.
  Status compute(const CpuCall &call, const hal::RunRequest &request);
  Status play(const CpuExecutable &executable, const hal::RunRequest &request);
  Status playInOrder(const CpuExecutable &executable,
                     const hal::RunRequest &request);
  Status playQueues(const CpuExecutable &executable,
                    const hal::RunRequest &request);
  bool passWait(const hal::Call &call, const hal::RunRequest &request);
  std::vector<Lane *> readyLanes();
  void addTransfer(const TransferRecord &done, const hal::RunRequest &request);
  bool below(double probability) {
    return std::uniform_real_distribution<double>()(random_) < probability;
  }

  World &world_;
  hal::Layout layout_;
  std::unique_ptr<CpuRank> rank_;
  Fault fault_;
  LateMemory device_, host_;
  struct Run {
    CpuExecutable *executable;
    hal::RunRequest *request;
  };
  std::vector<Run> pending_;
  hal::RunTimes times_;
  std::mt19937_64 random_;

  /// Of a layout without queues.
  HostChannels channels_;
  /// By fsdp_rt_queue; null where the layout has none.
  std::vector<std::unique_ptr<Lane>> lanes_;
  /// Guards what follows, and the lanes.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> events_;
  bool isEnding_ = false;
  Status failure_;
};

extern const hal::DeviceKind cpuLateDevice;

} // namespace fsdp::rt

#endif // FSDP_TEST_DEVICES_CPU_LATE_LATEDEVICE_H
