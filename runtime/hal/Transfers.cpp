//===- Transfers.cpp - Kinds of transfers and queues ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "hal/Transfers.h"

namespace fsdp::rt {

namespace {
// The rows of the table are numbered in its order.
enum RowOfTransfer {
#define FSDP_RT_TRANSFER(number, NAME, Name, spelling, QUEUE) NAME##_ROW,
#include "fsdp-rt/transfers.def"
};
enum RowOfQueue {
  COMPUTE_ROW,
#define FSDP_RT_QUEUE(number, NAME, Name, spelling) NAME##_QUEUE_ROW,
#include "fsdp-rt/transfers.def"
};
#define FSDP_RT_TRANSFER(number, NAME, Name, spelling, QUEUE)                  \
  static_assert(number == NAME##_ROW);
#define FSDP_RT_QUEUE(number, NAME, Name, spelling)                            \
  static_assert(number == NAME##_QUEUE_ROW);
#include "fsdp-rt/transfers.def"

// The words of FSDP_RT_OPERANDS as fields of CollectiveShape.
constexpr bool PART = false, WHOLE = true, COPIES = false, SUMS = true;
} // namespace

const char *transferName(int32_t kind) {
  switch (kind) {
#define FSDP_RT_TRANSFER(number, NAME, Name, spelling, QUEUE)                  \
  case number:                                                                 \
    return #spelling;
#include "fsdp-rt/transfers.def"
  }
  return nullptr;
}

std::optional<int32_t> transferFromName(const std::string &name) {
  for (int32_t kind = 0; kind < numTransferKinds; ++kind)
    if (name == transferName(kind))
      return kind;
  return std::nullopt;
}

bool isCollective(int32_t kind) {
  switch (kind) {
#define FSDP_RT_COLLECTIVE(number, NAME, Name, spelling, QUEUE)                \
  case number:                                                                 \
    return true;
#define FSDP_RT_HOST_COPY(number, NAME, Name, spelling, QUEUE)                 \
  case number:                                                                 \
    return false;
#include "fsdp-rt/transfers.def"
  }
  return false;
}

bool isHostCopy(int32_t kind) {
  return transferName(kind) && !isCollective(kind);
}

CopySides sidesOf(int32_t kind) {
  if (kind == FSDP_RT_OFFLOAD)
    return {FSDP_RT_DEVICE, FSDP_RT_HOST};
  return {FSDP_RT_HOST, FSDP_RT_DEVICE};
}

const char *queueName(int32_t queue) {
  switch (queue) {
#define FSDP_RT_QUEUE(number, NAME, Name, spelling)                            \
  case number:                                                                 \
    return #spelling;
#include "fsdp-rt/transfers.def"
  }
  return nullptr;
}

std::optional<int32_t> queueFromName(const std::string &name) {
  for (int32_t queue = 1; queue < numQueues; ++queue)
    if (name == queueName(queue))
      return queue;
  return std::nullopt;
}

int32_t queueOf(int32_t kind) {
  switch (kind) {
#define FSDP_RT_TRANSFER(number, NAME, Name, spelling, QUEUE)                  \
  case number:                                                                 \
    return FSDP_RT_QUEUE_##QUEUE;
#include "fsdp-rt/transfers.def"
  }
  return FSDP_RT_QUEUE_COMPUTE;
}

bool runsOn(int32_t kind, int32_t queue) {
  if (!transferName(kind))
    return false;
#define FSDP_RT_ALSO_ON(NAME, QUEUE)                                           \
  if (kind == FSDP_RT_##NAME && queue == FSDP_RT_QUEUE_##QUEUE)                \
    return true;
#include "fsdp-rt/transfers.def"
  return queue == queueOf(kind);
}

const char *meetingName(int32_t kind) {
  if (kind == controlBroadcast)
    return "broadcast";
  if (kind == controlBarrier)
    return "barrier";
  const char *name = transferName(kind);
  return name ? name : "unknown";
}

CollectiveShape shapeOf(int32_t kind) {
  switch (kind) {
#define FSDP_RT_OPERANDS(NAME, SRC, DST, WORK, received)                       \
  case FSDP_RT_##NAME:                                                         \
    return {SRC, DST, WORK};
#include "fsdp-rt/transfers.def"
  }
  return {};
}

const char *kernelName(int32_t kind) {
  switch (kind) {
#define FSDP_RT_KERNEL_NAME(NAME, name)                                        \
  case FSDP_RT_##NAME:                                                         \
    return name;
#include "fsdp-rt/transfers.def"
  }
  return nullptr;
}

int64_t collectiveBytes(int32_t kind, int64_t ranks, int64_t count,
                        int64_t elementBytes) {
  switch (kind) {
#define FSDP_RT_OPERANDS(NAME, SRC, DST, WORK, received)                       \
  case FSDP_RT_##NAME:                                                         \
    return (received)*elementBytes;
#include "fsdp-rt/transfers.def"
  }
  return 0;
}

} // namespace fsdp::rt
