//===- ReductionChoice.h - Who adds up over ranks ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_REDUCTIONCHOICE_H
#define FSDP_SCHEDULE_REDUCTIONCHOICE_H

#include "fsdp/Cost/Cluster.h"
#include "fsdp/Schedule/StepProgram.h"

namespace mlir::fsdp::sched {

/// What sums of a program's transfers take, each alone, by who adds up.
struct ReductionTimes {
  Time exact = 0, nccl = 0;
};

/// Of @transfers, sums whose groups are places in @groups, among @worldSize
/// ranks. An error where the ranks do not fit the cluster.
llvm::Expected<ReductionTimes>
getReductionTimes(const Cluster &cluster, int64_t worldSize,
                  llvm::ArrayRef<StepTransfer> transfers,
                  llvm::ArrayRef<RankGroup> groups);

/// Whether the bits of processors are worth what they take: at most half as
/// long again as NCCL's sums.
bool isExactFast(const ReductionTimes &times);

} // namespace mlir::fsdp::sched

#endif // FSDP_SCHEDULE_REDUCTIONCHOICE_H
