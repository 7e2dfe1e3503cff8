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

} // namespace mlir::fsdp

#endif // FSDP_ABI_TRANSFERS_H
