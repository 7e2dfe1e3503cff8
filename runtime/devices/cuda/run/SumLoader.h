//===- SumLoader.h - Sums over ranks in the order of abi.def ----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_RUN_SUMLOADER_H
#define FSDP_RT_DEVICES_CUDA_RUN_SUMLOADER_H

#include "devices/cuda/run/CudaLoader.h"
#include "fsdp-rt/reductions.h"

#include <cstdint>

namespace fsdp::rt {

/// The work of one start whose reduce_scatters or all_reduces the runtime adds
/// up itself (--reduction exact): sends and receives, and kernels that sum.
class SumLoader {
public:
  SumLoader(CudaLoader &loader, const fsdp_rt_start_desc &start,
            const NcclChannel &channel)
      : loader_(loader), start_(start), channel_(channel) {}
  Status load();

private:
  /// One collective of the start, and where in the scratch what it receives
  /// begins.
  struct Part {
    const fsdp_rt_collective_desc &desc;
    AllReducePlan plan;
    int64_t size;
    cu::Pointer scratch;
    int64_t stride() const {
      return getReceivedStride(plan.parts.length, size);
    }
  };
  bool isScatter() const { return start_.kind == FSDP_RT_REDUCE_SCATTER; }
  std::vector<Part> makeParts(cu::Pointer scratch) const;
  void addPieces(NcclExchange &exchange, const Part &part) const;
  Status addSum(const Part &part);
  void addSumsOfOthers(const std::vector<Part> &parts);

  CudaLoader &loader_;
  const fsdp_rt_start_desc &start_;
  const NcclChannel &channel_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_RUN_SUMLOADER_H
