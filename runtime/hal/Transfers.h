//===- Transfers.h - Kinds of transfers and queues --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// fsdp-rt/transfers.def for the runtime. Kinds are fsdp_rt_transfer_kind,
// queues fsdp_rt_queue, both as the int32_t of descriptors, which may be wrong.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_TRANSFERS_H
#define FSDP_RT_HAL_TRANSFERS_H

#include "fsdp-rt/abi.h"

#include <cstdint>
#include <optional>
#include <string>

namespace fsdp::rt {

constexpr int32_t numTransferKinds = 0
#define FSDP_RT_TRANSFER(number, NAME, Name, spelling, QUEUE) +1
#include "fsdp-rt/transfers.def"
    ;
/// The computation's, 0, included.
constexpr int32_t numQueues = 1
#define FSDP_RT_QUEUE(number, NAME, Name, spelling) +1
#include "fsdp-rt/transfers.def"
    ;

/// "all_gather", ...; null where there is no such kind.
const char *transferName(int32_t kind);
std::optional<int32_t> transferFromName(const std::string &name);
/// Among the ranks of a group.
bool isCollective(int32_t kind);
/// Between the memories of one rank.
bool isHostCopy(int32_t kind);

/// The `part_count` descriptors of a start whose kind is a collective's.
inline const fsdp_rt_collective_desc *const *
collectivesOf(const fsdp_rt_start_desc &start) {
  return static_cast<const fsdp_rt_collective_desc *const *>(start.parts);
}

/// The memories between which a copy goes, as fsdp_rt_memory.
struct CopySides {
  int32_t from, to;
};
/// Of a kind for which isHostCopy() holds.
CopySides sidesOf(int32_t kind);

/// The manifest's name of a queue beside the computation, "all_gather", ...;
/// null where there is none.
const char *queueName(int32_t queue);
std::optional<int32_t> queueFromName(const std::string &name);

/// The queue of a transfer that no program assigns another; 0 of no kind.
int32_t queueOf(int32_t kind);
/// Whether a queue beside the computation may run transfers of this kind.
bool runsOn(int32_t kind, int32_t queue);

/// What ranks do together beside transfers: the meetings of control. Numbered
/// after the kinds of transfers.
enum ControlKind : int32_t {
  controlBroadcast = numTransferKinds,
  controlBarrier
};
/// The name of a kind of transfer or control; "unknown" of none.
const char *meetingName(int32_t kind);

/// What a collective's row of FSDP_RT_OPERANDS says.
struct CollectiveShape {
  /// Whether an operand holds a part for each rank, or one part.
  bool isSrcWhole = false, isDstWhole = false;
  /// Whether elements of different ranks are added up.
  bool isSum = false;
  /// How many parts an operand holds in a group of `ranks`.
  int64_t srcParts(int64_t ranks) const { return isSrcWhole ? ranks : 1; }
  int64_t dstParts(int64_t ranks) const { return isDstWhole ? ranks : 1; }
};
/// Of a kind for which isCollective() holds.
CollectiveShape shapeOf(int32_t kind);

/// What PyTorch's profiler calls the kernel or copy; null where there is no
/// such kind.
const char *kernelName(int32_t kind);

/// Bytes that one rank of `ranks` receives in a collective of `count` elements
/// a rank: docs/traffic.md.
int64_t collectiveBytes(int32_t kind, int64_t ranks, int64_t count,
                        int64_t elementBytes);

} // namespace fsdp::rt

#endif // FSDP_RT_HAL_TRANSFERS_H
