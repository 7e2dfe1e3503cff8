//===- CudaDevice.h - Programs on a CUDA device -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every queue is a stream, every event of a program one of the driver's. A run
// is issued call by call, or a graph of all that would be issued is launched;
// the host waits at its end alone, and may have issued the next run before.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_RUN_CUDADEVICE_H
#define FSDP_RT_DEVICES_CUDA_RUN_CUDADEVICE_H

#include "core/WaitLimit.h"
#include "devices/cuda/driver/CudaSettings.h"
#include "devices/cuda/driver/Nvtx.h"
#include "devices/cuda/driver/RankZero.h"
#include "devices/cuda/run/CudaRank.h"
#include "hal/Device.h"
#include "hal/DeviceKind.h"
#include "hal/World.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace fsdp::rt {

class CudaDevice final : public hal::Device {
public:
  /// On the device that RankCards finds. `world` and `api` must outlive it.
  static Result<std::unique_ptr<CudaDevice>>
  create(World &world, const DriverApi &api, const hal::DeviceOptions &options);
  ~CudaDevice() override;

  hal::DeviceFacts facts() const override;
  hal::Memory &memory(fsdp_rt_memory which) override;
  Result<std::unique_ptr<hal::Executable>>
  load(hal::Recording recording) override;
  Status execute(hal::Executable &executable,
                 hal::RunRequest &request) override;
  Status awaitOldest(hal::RunTimes &times) override;
  Status synchronize(hal::RunTimes &times) override;

private:
  CudaDevice(World &world, const hal::DeviceOptions &options,
             const CudaSettings &settings)
      : world_(world), layout_(options.layout), threads_(options.threads),
        settings_(settings), rankZero_(world) {}
  Status openQueues();
  /// Makes it one graph; with --graph auto it stays without one where the
  /// driver or a library refuses that, then on all ranks. Collective.
  Status makeGraph(CudaExecutable &executable);
  /// Issues one exchange among ranks of each kind and size that the program
  /// has, on memory of their own: NCCL connects with other ranks now, so that a
  /// capture waits for none of them. Collective.
  Status connect(const CudaExecutable &executable);
  Status mapFirstExchanges(int64_t bytes);
  Status capture(CudaExecutable &executable);
  /// Whether the device and its communicators are as they were before a capture
  /// that failed.
  Status checkAfterCapture();
  /// The first rank that says false, or -1. Collective.
  Result<int> findRankWithout(bool isMine);
  /// Of what fails before a program runs: other ranks hear of it before this
  /// one frees what the driver keeps until their work has ended.
  Status giveUp(const Status &why);
  cu::Stream stream(int32_t queue) const { return streams_[queue]->get(); }
  const DriverApi &api() const { return rank_->context().api(); }
  Status check(cu::Error error, const char *call) const {
    return rank_->context().check(error, call);
  }

  /// A run that was issued and is not known to be over.
  struct PendingRun {
    CudaExecutable *executable;
    hal::RunRequest *request;
    uint64_t number;

    size_t passed() const { return executable->progress().count(number); }
  };
  /// Issues all of a run.
  Status begin(const PendingRun &run);
  Status issueProgram(const PendingRun &run);
  /// All calls, with times where there are records.
  Status issue(const CudaExecutable &executable, RunRecords *records);
  Status issueCall(const CudaExecutable &executable, size_t index,
                   RunRecords *records);
  Status issueStart(const CudaExecutable &executable, size_t index,
                    RunRecords *records);
  Status issueWorks(const CudaExecutable &executable, const CudaCall &call,
                    cu::Stream stream, const RunRecords *records);
  /// Whether the device is as it should be: work may be running.
  Status checkStreams() const;
  /// Returns when `query`, the driver's `call`, does not answer "not ready" any
  /// more, or with what failed first: the device or another rank.
  Status waitWhileNotReady(const std::function<cu::Error()> &query,
                           const char *call);
  Status waitForStreams();
  /// Calls that pending runs have passed.
  size_t countPassed() const;
  /// Adds to a failure of the first pending run that has not come to its end
  /// which calls it has not passed.
  Status locate(const Status &failure) const;
  /// Ends what runs and all communicators and graphs. Ends the process where
  /// the device does not come to the end of its work.
  void endWork(const Status &why);
  /// Returns when all streams are idle; false: they are not, and have made no
  /// progress within `limit`.
  bool drain(WaitLimit &limit);
  /// `what` does not come to its end.
  [[noreturn]] void endProcess(const Status &why, const char *what) const;
  /// Ends the oldest pending run.
  Status finishOldest();
  /// Of a run that could not be issued, where one before it failed.
  Status explainIssue(const Status &ofIssue, const Status &before) const;
  /// Why a pending run failed, the first that did.
  Status findFailure() const;
  /// Keeps the first failure and tells the other ranks.
  void fail(const Status &status);

  World &world_;
  hal::Layout layout_;
  int threads_;
  CudaSettings settings_;
  RankZero rankZero_;
  std::unique_ptr<CudaRank> rank_;
  /// By fsdp_rt_queue; none where the layout has no such queue.
  std::vector<std::optional<CudaStream>> streams_;
  /// By number; and how far queue 0 has come when a transfer is started.
  std::vector<CudaEvent> events_;
  std::optional<CudaEvent> position_;
  /// What connect() exchanges, until all of it is over.
  std::unique_ptr<DeviceArena> firstExchanges_;
  /// Of programs that still are.
  std::vector<std::weak_ptr<CudaGraph>> graphs_;
  /// In their order, which is that of their numbers, and how many there were.
  std::vector<PendingRun> pending_;
  uint64_t runs_ = 0;
  /// The run that was issued last as a profiler sees it, until it is over or
  /// another one is issued.
  std::optional<NvtxRange> range_;
  hal::RunTimes times_;
  /// Bytes of the device's memory that were taken when programs were loaded,
  /// and captured.
  int64_t codeBytes_ = 0, graphBytes_ = 0;
  /// Whether the run that failed made no progress.
  bool isStuck_ = false;
  /// Why programs are no graphs, of each that is none though it should be.
  std::vector<std::string> notes_;
  Status failure_;
};

extern const hal::DeviceKind cudaDevice;

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_RUN_CUDADEVICE_H
