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

#ifndef FSDP_RT_DEVICES_CUDA_CUDAEXECUTABLE_H
#define FSDP_RT_DEVICES_CUDA_CUDAEXECUTABLE_H

#include "devices/cuda/CudaAttentions.h"
#include "devices/cuda/CudaGraph.h"
#include "devices/cuda/CudaImages.h"
#include "devices/cuda/CudaMemory.h"
#include "devices/cuda/CudaProducts.h"
#include "devices/cuda/NcclTransfers.h"
#include "devices/cuda/RunProgress.h"
#include "devices/cuda/RunRecords.h"
#include "devices/cuda/StagedTransfers.h"
#include "hal/Device.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt {

/// What a stream is given at once.
struct CudaWork {
  enum class Kind {
    Launch,
    Product,
    Attention,
    Fill,
    CopyOnDevice,
    CopyToHost,
    CopyToDevice,
    HostFunction,
    Exchange,
    StagedExchange
  };
  Kind kind = Kind::Launch;
  /// Of a launch.
  CudaKernel kernel;
  void **parameters = nullptr;
  /// Whether it may begin before the launch before it has ended.
  bool isDependent = false;
  const CudaProduct *product = nullptr;
  const CudaAttention *attention = nullptr;
  /// Of copies and fills; the host's side is `host`.
  cu::Pointer dst = 0, src = 0;
  void *host = nullptr;
  size_t bytes = 0;
  unsigned char value = 0;
  /// Of a function of the host, which is given `host`.
  cu::HostFunction function = nullptr;
  const NcclExchange *exchange = nullptr;
  const StagedExchange *staged = nullptr;
};

/// A call and its work: [begin, end) of the executable's.
struct CudaCall {
  hal::Call call;
  size_t begin = 0, end = 0;
};

/// What a check or a guard found, in memory of the host.
struct CudaReport {
  /// Of a check: its byte, 1 until the check has run.
  const fsdp_rt_check_desc *check = nullptr;
  char *flag = nullptr;
  /// Of a check: the unit in which it stands; empty: none.
  std::string unit;
  /// Of a guard: what searchKernel finds in a buffer, or after it.
  const fsdp_rt_guard_desc *guard = nullptr;
  const fsdp_rt_guarded_desc *buffer = nullptr;
  bool isBehind = false;
  uint64_t *found = nullptr;
};

/// A part of the host's memory that a guard fills or searches.
struct HostGuard {
  unsigned char *at = nullptr;
  int64_t bytes = 0;
  /// Null: it fills.
  uint64_t *found = nullptr;
};

class CudaExecutable final : public hal::Executable {
public:
  explicit CudaExecutable(hal::Recording recording)
      : Executable(std::move(recording)) {}

  const std::vector<CudaCall> &calls() const { return calls_; }
  const std::vector<CudaWork> &works() const { return works_; }

  /// Before a run: no check and no guard has failed, no call was passed.
  void clearReports();
  /// After a run, or what of it came to its end: the first that failed.
  Status findFailure(const std::string &checkNote) const;

  /// All of a run; null: it is issued call by call.
  const CudaGraph *graph() const { return graph_ ? &*graph_ : nullptr; }
  void setGraph(CudaGraph graph) { graph_.emplace(std::move(graph)); }

  /// How far its run has come.
  const RunProgress &progress() const { return progress_; }

  /// Times of its calls; made for the first run that is recorded.
  RunRecords &records() { return records_; }

private:
  friend class CudaLoader;

  struct Parameters {
    std::vector<cu::Pointer> values;
    std::vector<void *> addresses;
  };

  std::vector<CudaCall> calls_;
  std::vector<CudaWork> works_;
  /// Work points into these.
  std::deque<Parameters> parameters_;
  std::vector<std::unique_ptr<CudaProduct>> products_;
  ChosenAttentions attentions_;
  std::vector<std::unique_ptr<NcclExchange>> exchanges_;
  std::vector<std::unique_ptr<StagedExchange>> stagedExchanges_;
  std::vector<std::shared_ptr<DeviceArena>> scratch_;
  std::vector<std::shared_ptr<PinnedMemory>> staging_;
  std::deque<HostGuard> hostGuards_;
  std::unique_ptr<PinnedMemory> flags_;
  /// What guards found, on the device and then on the host.
  std::unique_ptr<DeviceArena> foundOnDevice_;
  std::unique_ptr<PinnedMemory> found_;
  /// In the order of the program.
  std::vector<CudaReport> reports_;
  RunProgress progress_;
  RunRecords records_;
  /// It uses all of the above.
  std::optional<CudaGraph> graph_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_CUDAEXECUTABLE_H
