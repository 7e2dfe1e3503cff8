//===- CudaLoader.h - From recorded calls to work ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_RUN_CUDALOADER_H
#define FSDP_RT_DEVICES_CUDA_RUN_CUDALOADER_H

#include "core/Status.h"
#include "devices/cuda/kernels/OwnKernels.h"
#include "devices/cuda/run/CudaExecutable.h"
#include "devices/cuda/run/CudaRank.h"

#include <cstdint>
#include <set>
#include <vector>

namespace fsdp::rt {

/// Fills an executable whose recording is there.
class CudaLoader {
public:
  CudaLoader(CudaRank &rank, CudaExecutable &made) : rank_(rank), made_(made) {}
  Status load();

private:
  friend class SumLoader;

  /// The work of call `index`. CudaLoader.cpp defines it for each descriptor of
  /// calls.def.
  template <typename Desc>
  Status addCall(size_t index, const Desc &desc);
  /// Decides which launches may begin before the one before has ended.
  void chainLaunches();
  /// What tells the host that the call has come to its end.
  Status addMark(size_t index);
  /// Decides which attentions are the library's.
  Status chooseAttentions();
  /// The launches of an attention by our kernels, which do not become work.
  Result<OwnCode> getOwnAttention(size_t index);
  Status addOwnAttention(const fsdp_rt_attention_desc &desc, bool backward);
  Status addTransfers(const fsdp_rt_start_desc &desc);
  Status addCollectives(const fsdp_rt_start_desc &start);
  void addStagedExchange(const fsdp_rt_start_desc &start);
  NcclExchange *addExchange(const NcclChannel &channel);
  Status addOwnPart(int32_t kind, const fsdp_rt_collective_desc &desc);
  Status addDivision(const fsdp_rt_collective_desc &desc, cu::Pointer src);
  Status addNcclSums(const fsdp_rt_start_desc &start, NcclChannel &channel);
  void addGathers(const fsdp_rt_start_desc &start, const NcclChannel &channel);
  void addAllToAlls(const fsdp_rt_start_desc &start,
                    const NcclChannel &channel);
  void addHostCopy(int32_t kind, const fsdp_rt_host_copy_desc &desc);

  /// Memory for what checks and guards find.
  Status makeReports();
  Status addGuards(const fsdp_rt_guard_desc &desc, bool before, bool after);
  Status addGuard(const fsdp_rt_guard_desc &desc,
                  const fsdp_rt_guarded_desc &buffer);
  void addDead(const fsdp_rt_guarded_desc &buffer, int64_t bytes);
  Status addSearch(const CudaReport &report, int64_t offset, int64_t bytes);
  void addHostGuard(int64_t offset, int64_t bytes, RunReport *report);
  /// One more report, of a check or a guard.
  RunReport *addReport(CudaReport report);
  /// The starts for which nothing waits.
  void findLastEvents();

  /// A call's code for this device; null: none.
  const fsdp_rt_cuda_code_desc *codeOf(const void *implementations) const;
  /// The launches of a call's code, which all have these parameters, and last
  /// the address of the call's workspace if the code needs one.
  struct Workspace {
    int64_t offset, bytes;
  };
  Status addCode(const void *implementations,
                 std::vector<cu::Pointer> parameters, Workspace workspace);
  Status addKernel(const fsdp_rt_cuda_kernel_desc &kernel,
                   std::shared_ptr<LaunchParameters> parameters);
  /// A kernel of the runtime itself.
  Status addOwnKernel(const OwnLaunch &launch);
  static std::shared_ptr<LaunchParameters>
  parametersOf(std::vector<cu::Pointer> values) {
    return std::make_shared<LaunchParameters>(std::move(values));
  }
  void add(std::unique_ptr<CudaWork> work);
  void add(CallWork::Call call);
  void addFill(cu::Pointer dst, unsigned char value, int64_t bytes);
  void addCopyOnDevice(cu::Pointer dst, cu::Pointer src, int64_t bytes);
  void addCopyToHost(void *dst, cu::Pointer src, int64_t bytes);
  void addCopyToDevice(cu::Pointer dst, const void *src, int64_t bytes);

  /// The executable keeps it.
  void keep(std::shared_ptr<void> memory) {
    made_.memory_.push_back(std::move(memory));
  }

  cu::Pointer at(int64_t offset) const;

  CudaRank &rank_;
  CudaExecutable &made_;
  int64_t searches_ = 0;
  NcclExchange *lastExchange_ = nullptr;
  /// Events of the exchanges on other queues that were started and not waited
  /// for: what queue 0 is given now may run beside them.
  std::set<int64_t> openTransfers_;
  /// Work, whose algorithms are chosen at the end.
  std::vector<CudaProduct *> products_;
  /// By call; they become work.
  ChosenAttentions attentions_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_RUN_CUDALOADER_H
