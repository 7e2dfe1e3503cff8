//===- Consensus.cpp - One outcome for all ranks --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/data/Consensus.h"

#include <cstring>

namespace fsdp::rt::data {

namespace {

/// Travels from one rank to all; longer messages are cut.
struct Outcome {
  int32_t code = 0;
  char message[1020] = {};
};

} // namespace

Status Consensus::agree(const Status &mine) {
  if (world_.size() == 1) {
    if (mine && !failure_)
      failure_ = mine;
    return mine;
  }
  int32_t failures = mine ? 1 : 0;
  if (Status s = world_.allReduce(&failures, &failures, 1, FSDP_RT_I32, 1))
    return s;
  if (failures == 0)
    return Status::ok();
  // Who it is takes a message per rank; failing may be slow.
  for (int rank = 0; rank < world_.size(); ++rank) {
    int32_t hasFailed = rank == world_.rank() && mine;
    if (Status s =
            world_.broadcast(&hasFailed, &hasFailed, sizeof hasFailed, rank))
      return s;
    if (hasFailed)
      return broadcastFailure(mine, rank, failures < world_.size());
  }
  return Status::internal("the ranks disagree about a failure");
}

Status Consensus::announce(const Status &ofRankZero) {
  bool isZero = world_.rank() == 0;
  if (world_.size() == 1)
    return agree(ofRankZero);
  int32_t hasFailed = isZero && ofRankZero;
  if (Status s = world_.allReduce(&hasFailed, &hasFailed, 1, FSDP_RT_I32, 1))
    return s;
  return hasFailed ? broadcastFailure(ofRankZero, 0, /*isNamed=*/false)
                   : Status::ok();
}

Result<bool> Consensus::any(bool mine) {
  int32_t count = mine;
  if (world_.size() > 1)
    if (Status s = world_.allReduce(&count, &count, 1, FSDP_RT_I32, 1))
      return s;
  return count != 0;
}

Status Consensus::broadcastFailure(const Status &mine, int rank, bool isNamed) {
  Outcome outcome;
  if (rank == world_.rank()) {
    outcome.code = static_cast<int32_t>(mine.code());
    std::strncpy(outcome.message, mine.message().c_str(),
                 sizeof outcome.message - 1);
  }
  if (Status s = world_.broadcast(&outcome, &outcome, sizeof outcome, rank))
    return s;
  std::string text = outcome.message;
  if (isNamed)
    text = "rank " + std::to_string(rank) + ": " + text;
  Status failure = outcome.code == static_cast<int32_t>(Code::Internal)
                       ? Status::internal(text)
                       : Status::failed(text);
  if (!failure_)
    failure_ = failure;
  return failure;
}

} // namespace fsdp::rt::data
