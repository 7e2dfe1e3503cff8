//===- CpuRank.h - The part of a host that computes for one rank *- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Memory, threads and libraries of one rank on this host's processors, and what
// its programs put on queue 0. In which order, and beside which transfers, is
// the device's.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CPU_CPURANK_H
#define FSDP_RT_DEVICES_CPU_CPURANK_H

#include "core/Status.h"
#include "core/ThreadPool.h"
#include "devices/cpu/ArenaMemory.h"
#include "devices/cpu/Blas.h"
#include "devices/cpu/RunTransfers.h"
#include "devices/cpu/TransferQueues.h"
#include "fsdp-rt/memory.h"
#include "hal/Device.h"
#include "hal/DeviceSettings.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::rt {

struct CpuOptions {
  /// Which of the artifact's targets is processors.
  int target = 0;
  /// Threads of this rank, the caller's included; at least 1.
  int threads = 1;
  /// Queues have threads if one rank says so: all ranks do alike.
  QueueThreads queueThreads = QueueThreads::Auto;
  /// Which BLAS library multiplies matrices.
  BlasKind blas = BlasKind::Auto;
  /// Bytes per thread for converting the panels of bf16 and f16 products.
  int64_t matmulWorkspaceBytes = defaultMatmulWorkspaceBytes;
};

/// From a device's settings, by cpuSettings().
Result<CpuOptions> parseCpuOptions(const hal::DeviceOptions &options);

/// hal::DeviceKind's functions, of devices that compute with a CpuRank.
Status checkCpuHost(const std::string &cpu,
                    const std::vector<std::string> &features);
const hal::DeviceSettings &cpuSettings();
int countBusyCpuThreads(const hal::DeviceOptions &options, bool hasLink,
                        int ranksOnHost);

struct CpuCall {
  hal::Call call;
  /// Of a launch, fsdp_rt_cpu_kernel_desc; of an attention,
  /// fsdp_rt_cpu_attention_desc.
  const void *code = nullptr;
  /// Of a launch: the addresses of its operands.
  char *const *operands = nullptr;
};

class CpuExecutable final : public hal::Executable {
public:
  explicit CpuExecutable(hal::Recording recording)
      : Executable(std::move(recording)) {}
  const std::vector<CpuCall> &calls() const { return calls_; }

private:
  friend class CpuRank;
  std::vector<CpuCall> calls_;
  std::vector<char *> operands_;
};

class CpuRank {
public:
  /// Reserves and touches all memory, starts the threads and opens the BLAS
  /// library. `localSize` ranks of this host do the same.
  static Result<std::unique_ptr<CpuRank>>
  create(int localSize, const hal::Layout &layout, const CpuOptions &options);

  /// Looks up addresses. Refuses what the BLAS library cannot multiply.
  Result<std::unique_ptr<CpuExecutable>> load(hal::Recording recording);

  /// Runs a call of queue 0 other than a start or a wait, of an executable of
  /// this rank. Adds what it took to `times`; allocates only to fail.
  Status run(const CpuCall &call, const hal::RunRequest &request,
             hal::RunTimes &times);

  /// Base of the device's memory: 2 MiB aligned, zero at creation.
  char *arena() { return arena_.data(); }
  RankMemory memory() { return {arena_.data(), host_.data()}; }
  hal::Memory &memory(fsdp_rt_memory which) {
    return which == FSDP_RT_HOST ? hostMemory_ : deviceMemory_;
  }
  ThreadPool &pool() { return pool_; }
  /// Of a device of this name that computes with it.
  hal::DeviceFacts facts(const char *name) const;

private:
  CpuRank(Arena arena, Arena host, Arena scratch, const Blas *blas,
          int64_t scratchBytes, const CpuOptions &options);

  /// Finds the code of a call, and refuses what it or the BLAS library cannot
  /// do. CpuRank.cpp defines it for descriptors that need that, and compute()
  /// for each of calls.def.
  template <typename Desc>
  Status resolve(CpuCall &call, const Desc &desc) const;
  /// Runs the call; allocates only to fail.
  template <typename Desc>
  Status compute(const CpuCall &call, const Desc &desc,
                 const hal::RunRequest &request);

  Arena arena_;
  Arena host_;
  Arena scratch_;
  ArenaMemory deviceMemory_{arena_}, hostMemory_{host_};
  const Blas *blas_;
  ThreadPool pool_;
  int target_;
  int64_t scratchBytes_;
  int64_t scratchStride_;
  int64_t workspaceBytes_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CPU_CPURANK_H
