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
#include <vector>

namespace fsdp::rt {

/// The work of one start whose reduce_scatters or all_reduces the runtime adds
/// up itself (--reduction exact): sends and receives, and kernels that sum.
/// SumPlan says who adds up what. In the order of the stream:
///   1. ranks of a node exchange elements and add up those of the node;
///   2. with two levels, ranks of equal place exchange these sums, and add up
///      those of all nodes;
///   3. of an all_reduce in parts, ranks of equal place exchange the parts that
///      they have added up, and then ranks of a node exchange all that they
///      have.
/// The last sum divides, and rounds once.
class SumLoader {
public:
  SumLoader(CudaLoader &loader, const fsdp_rt_start_desc &start,
            const NcclChannel &channel);
  Status load();

private:
  /// One collective of the start, and its memory in the scratch.
  struct Part {
    const fsdp_rt_collective_desc &desc;
    SumPlan plan;
    cu::Pointer scratch;
    Dtype dtype() const { return static_cast<Dtype>(desc.dtype); }
    bool hasResultsOfOthers() const {
      return !plan.isScatter && !plan.isDirect;
    }
    cu::Pointer partial(int64_t sum) const {
      return scratch + static_cast<cu::Pointer>(plan.receivedBytes() +
                                                sum * plan.partialStride());
    }
  };
  cu::Pointer placeOf(int64_t offset, const Part &part, int64_t owner) const;
  /// Where the result of this rank's own sum comes to.
  cu::Pointer resultOf(const Part &part) const;
  int64_t ownOf(const Part &part) const {
    return part.plan.owner(node_, place_);
  }

  void addElements();
  Status addSumsOfNode(const Part &part);
  void addSumsOfNodes();
  Status addSumOverNodes(const Part &part);
  void addResultsBetweenNodes();
  void addResultsOfNode();
  /// `bytes` each way; neither where they are 0.
  static void addSend(NcclExchange &exchange, cu::Pointer src, int64_t bytes,
                      int64_t peer);
  static void addReceive(NcclExchange &exchange, cu::Pointer dst, int64_t bytes,
                         int64_t peer);

  CudaLoader &loader_;
  const NcclChannel &channel_;
  SumPlacement placement_;
  /// This rank's.
  int64_t node_, place_;
  std::vector<Part> parts_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_RUN_SUMLOADER_H
