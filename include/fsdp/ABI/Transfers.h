//===- Transfers.h - Kinds of transfers and queues --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// fsdp-rt/transfers.def for the compiler: what the dialect's ops are, what the
// cost model prices, what programs of the runtime name. Knows no IR.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ABI_TRANSFERS_H
#define FSDP_ABI_TRANSFERS_H

#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>

namespace mlir::fsdp {

enum class TransferKind : uint8_t {
#define FSDP_RT_TRANSFER(number, NAME, Name, spelling, QUEUE) Name = number,
#include "fsdp-rt/transfers.def"
};

/// By TransferKind.
constexpr std::array kTransferKindNames = {
#define FSDP_RT_TRANSFER(number, NAME, Name, spelling, QUEUE)                  \
  llvm::StringLiteral(#spelling),
#include "fsdp-rt/transfers.def"
};
constexpr unsigned kNumTransferKinds = kTransferKindNames.size();

/// Collectives come first.
constexpr unsigned kNumCollectives = 0
#define FSDP_RT_COLLECTIVE(number, NAME, Name, spelling, QUEUE) +1
#define FSDP_RT_HOST_COPY(number, NAME, Name, spelling, QUEUE)
#include "fsdp-rt/transfers.def"
    ;
#define FSDP_RT_COLLECTIVE(number, NAME, Name, spelling, QUEUE)                \
  static_assert(number < kNumCollectives);
#define FSDP_RT_HOST_COPY(number, NAME, Name, spelling, QUEUE)                 \
  static_assert(number >= kNumCollectives);
#include "fsdp-rt/transfers.def"

/// Whether a transfer is among the ranks of a group; else it is a copy between
/// the memories of one rank.
constexpr bool isCollective(TransferKind kind) {
  switch (kind) {
#define FSDP_RT_COLLECTIVE(number, NAME, Name, spelling, QUEUE)                \
  case TransferKind::Name:                                                     \
    return true;
#define FSDP_RT_HOST_COPY(number, NAME, Name, spelling, QUEUE)                 \
  case TransferKind::Name:                                                     \
    return false;
#include "fsdp-rt/transfers.def"
  }
  return false;
}

/// What runs beside each other, each in its order.
enum class Queue : uint8_t {
  Compute = 0,
#define FSDP_RT_QUEUE(number, NAME, Name, spelling) Name = number,
#include "fsdp-rt/transfers.def"
};

/// By Queue.
constexpr std::array kQueueNames = {
    llvm::StringLiteral("compute"),
#define FSDP_RT_QUEUE(number, NAME, Name, spelling)                            \
  llvm::StringLiteral(#spelling),
#include "fsdp-rt/transfers.def"
};
constexpr unsigned kNumQueues = kQueueNames.size();

namespace abi_detail {
#define FSDP_RT_QUEUE(number, NAME, Name, spelling)                            \
  constexpr Queue NAME##Queue = Queue::Name;
#define FSDP_RT_TRANSFER(number, NAME, Name, spelling, QUEUE)                  \
  constexpr TransferKind NAME##Kind = TransferKind::Name;
#include "fsdp-rt/transfers.def"
} // namespace abi_detail

/// The queue of a transfer that nothing assigns another.
constexpr Queue getQueue(TransferKind kind) {
  switch (kind) {
#define FSDP_RT_TRANSFER(number, NAME, Name, spelling, QUEUE)                  \
  case TransferKind::Name:                                                     \
    return abi_detail::QUEUE##Queue;
#include "fsdp-rt/transfers.def"
  }
  return Queue::Compute;
}

/// Whether @queue may run transfers of this kind.
constexpr bool runsOn(TransferKind kind, Queue queue) {
  struct {
    TransferKind kind;
    Queue queue;
  } also[] = {
#define FSDP_RT_ALSO_ON(NAME, QUEUE)                                           \
  {abi_detail::NAME##Kind, abi_detail::QUEUE##Queue},
#include "fsdp-rt/transfers.def"
  };
  for (auto it : also)
    if (it.kind == kind && it.queue == queue)
      return true;
  return queue == getQueue(kind);
}

/// Whether @queue brings what compute reads, ahead of it; the others take what
/// compute made.
constexpr bool isFetch(Queue queue) {
  return queue == Queue::AllGather || queue == Queue::H2D;
}

/// How large a collective's operands are: one part, or a part for each rank.
enum class OperandSize : uint8_t { Part, Whole };
/// What happens to the elements that ranks receive.
enum class ElementWork : uint8_t { Copies, Sums };

/// A collective's row of FSDP_RT_OPERANDS.
struct CollectiveShape {
  OperandSize source, result;
  ElementWork work;
};

namespace abi_detail {
constexpr OperandSize PARTSize = OperandSize::Part,
                      WHOLESize = OperandSize::Whole;
constexpr ElementWork COPIESWork = ElementWork::Copies,
                      SUMSWork = ElementWork::Sums;
} // namespace abi_detail

/// Of a kind for which isCollective() holds; a copy's sides are equal parts.
constexpr CollectiveShape getShape(TransferKind kind) {
#define FSDP_RT_OPERANDS(NAME, SRC, DST, WORK, received)                       \
  if (kind == abi_detail::NAME##Kind)                                          \
    return {abi_detail::SRC##Size, abi_detail::DST##Size,                      \
            abi_detail::WORK##Work};
#include "fsdp-rt/transfers.def"
  return {OperandSize::Part, OperandSize::Part, ElementWork::Copies};
}

/// Elements that one of @ranks receives in a collective of @count a rank:
/// docs/traffic.md. Of a kind for which isCollective() holds.
constexpr int64_t getReceived(TransferKind kind, int64_t ranks, int64_t count) {
#define FSDP_RT_OPERANDS(NAME, SRC, DST, WORK, received)                       \
  if (kind == abi_detail::NAME##Kind)                                          \
    return received;
#include "fsdp-rt/transfers.def"
  return 0;
}

/// Every collective has one row.
constexpr unsigned kNumShapes = 0
#define FSDP_RT_OPERANDS(NAME, SRC, DST, WORK, received) +1
#include "fsdp-rt/transfers.def"
    ;
static_assert(kNumShapes == kNumCollectives);

/// What PyTorch's profiler calls it.
constexpr llvm::StringLiteral getKernelName(TransferKind kind) {
#define FSDP_RT_KERNEL_NAME(NAME, name)                                        \
  if (kind == abi_detail::NAME##Kind)                                          \
    return name;
#include "fsdp-rt/transfers.def"
  return "";
}
constexpr unsigned kNumKernelNames = 0
#define FSDP_RT_KERNEL_NAME(NAME, name) +1
#include "fsdp-rt/transfers.def"
    ;
static_assert(kNumKernelNames == kNumTransferKinds);

} // namespace mlir::fsdp

#endif // FSDP_ABI_TRANSFERS_H
