//===- Layout.cpp - What programs of an artifact may name -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "hal/Layout.h"

#include "core/Group.h"
#include "hal/Transfers.h"

#include <algorithm>
#include <string>

namespace fsdp::rt::hal {

namespace {

// Beyond any host; sums and products below it cannot overflow.
constexpr int64_t maxBytes = int64_t(1) << 46;

Status checkBytes(int64_t bytes, const char *what) {
  if (bytes >= 0 && bytes <= maxBytes)
    return Status::ok();
  return Status::failed(std::string("expected ") + what + " of 0 to " +
                        std::to_string(maxBytes) + " bytes, got " +
                        std::to_string(bytes));
}

Status checkQueues(const Layout &layout) {
  if (layout.events < 1 || layout.events > maxEvents)
    return Status::failed("expected 1 to " + std::to_string(maxEvents) +
                          " events of queues, got " +
                          std::to_string(layout.events));
  if (layout.queues.empty())
    return Status::failed("expected a queue for " +
                          std::to_string(layout.events) + " events, got none");
  for (size_t i = 0; i < layout.queues.size(); ++i) {
    int32_t queue = layout.queues[i];
    if (!queueName(queue) || (i > 0 && queue <= layout.queues[i - 1]))
      return Status::failed("expected increasing numbers of queues from 1 to " +
                            std::to_string(numQueues - 1) + ", got " +
                            std::to_string(queue));
  }
  return Status::ok();
}

} // namespace

bool Layout::hasQueue(int32_t queue) const {
  return std::find(queues.begin(), queues.end(), queue) != queues.end();
}

Status checkLayout(const Layout &layout, int rank, int ranks) {
  if (Status s = checkBytes(layout.scratchBytes, "scratch"))
    return s;
  if (Status s = checkBytes(layout.memory.device, "an arena"))
    return s;
  if (Status s = checkBytes(layout.memory.host, "an arena of the host"))
    return s;
  for (const std::vector<int> &group : layout.groups)
    if (Result<int> place = placeInGroup(group, rank, ranks); !place.isOk())
      return place.status();
  return layout.hasQueues() ? checkQueues(layout) : Status::ok();
}

} // namespace fsdp::rt::hal
