//===- CudaExecutable.h - A program on a CUDA device ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each call of a program becomes work for a stream, with all addresses and
// parameters in place: a run gives it to the driver and looks up nothing.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_RUN_CUDAEXECUTABLE_H
#define FSDP_RT_DEVICES_CUDA_RUN_CUDAEXECUTABLE_H

#include "devices/cuda/blas/CudaProducts.h"
#include "devices/cuda/dnn/CudaAttentions.h"
#include "devices/cuda/driver/CudaGraph.h"
#include "devices/cuda/driver/CudaImages.h"
#include "devices/cuda/driver/CudaMemory.h"
#include "devices/cuda/kernels/OwnKernels.h"
#include "devices/cuda/nccl/NcclTransfers.h"
#include "devices/cuda/nccl/StagedTransfers.h"
#include "devices/cuda/run/RunProgress.h"
#include "devices/cuda/run/RunRecords.h"
#include "hal/Device.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::rt {

/// A call and its work: [begin, end) of the executable's.
struct CudaCall {
  hal::Call call;
  size_t begin = 0, end = 0;
};

/// What a check or a guard found, in memory of the host.
struct CudaReport {
  const fsdp_rt_check_desc *check = nullptr;
  /// Of a check: the unit in which it stands; empty: none.
  std::string unit;
  /// Of a guard: what a search finds in a buffer, or after it.
  const fsdp_rt_guard_desc *guard = nullptr;
  const fsdp_rt_guarded_desc *buffer = nullptr;
  bool isBehind = false;
  const RunReport *report = nullptr;
};

class CudaExecutable final : public hal::Executable {
public:
  explicit CudaExecutable(hal::Recording recording)
      : Executable(std::move(recording)) {}

  const std::vector<CudaCall> &calls() const { return calls_; }
  const std::vector<std::unique_ptr<CudaWork>> &works() const { return works_; }
  /// Works that NCCL does, with their calls' numbers, in the program's order.
  struct Exchange {
    size_t call;
    const NcclExchange *work;
  };
  const std::vector<Exchange> &exchanges() const { return exchanges_; }

  int maxPending() const override { return maxPending_; }
  void setMaxPending(int runs) { maxPending_ = runs; }

  /// After run `run`, or what of it came to its end: the first that failed.
  /// None has in the runs before.
  Status findFailure(uint64_t run, const std::string &checkNote) const;

  /// Events of starts for which queue 0 does not wait: the last of each queue.
  const std::vector<int64_t> &lastEvents() const { return lastEvents_; }

  /// All of a run; null: it is issued call by call.
  const std::shared_ptr<CudaGraph> &graph() const { return graph_; }
  void setGraph(CudaGraph graph) {
    graph_ = std::make_shared<CudaGraph>(std::move(graph));
  }
  void dropGraph() { graph_ = nullptr; }

  /// How far its run has come.
  const RunProgress &progress() const { return progress_; }

  /// Times of its calls; made for the first run that is recorded.
  RunRecords &records() { return records_; }

private:
  friend class CudaLoader;

  std::vector<CudaCall> calls_;
  std::vector<std::unique_ptr<CudaWork>> works_;
  std::vector<Exchange> exchanges_;
  /// Memory that work uses, which other programs of the rank use as well.
  std::vector<std::shared_ptr<void>> memory_;
  /// What searches of guards found, on the device.
  std::unique_ptr<DeviceArena> foundOnDevice_;
  std::unique_ptr<PinnedMemory> runReports_;
  /// In the order of the program.
  std::vector<CudaReport> reports_;
  std::vector<int64_t> lastEvents_;
  int maxPending_ = 1;
  RunProgress progress_;
  RunRecords records_;
  /// It uses all of the above. The device destroys it when a run has failed.
  std::shared_ptr<CudaGraph> graph_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_RUN_CUDAEXECUTABLE_H
