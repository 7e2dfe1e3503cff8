//===- Consensus.cpp - One outcome for all ranks --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "control/Consensus.h"

#include <algorithm>
#include <cstring>

namespace fsdp::rt {

namespace {

/// Travels from one rank to all; longer messages are cut.
struct Outcome {
  int32_t code = 0;
  char message[1020] = {};
};

std::string pack(const std::vector<Setting> &settings) {
  std::string text;
  for (const Setting &setting : settings)
    text += setting.name + '\0' + setting.value + '\0';
  return text;
}

std::vector<Setting> unpack(const std::string &text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size(); at += words.back().size() + 1)
    words.push_back(text.c_str() + at);
  std::vector<Setting> settings;
  for (size_t i = 0; i + 1 < words.size(); i += 2)
    settings.push_back({words[i], words[i + 1]});
  return settings;
}

Status compare(const std::vector<Setting> &mine,
               const std::vector<Setting> &ofRankZero) {
  for (size_t i = 0; i < mine.size() && i < ofRankZero.size(); ++i) {
    const Setting &got = mine[i], &expected = ofRankZero[i];
    if (got.name != expected.name)
      return Status::failed("expected " + expected.name +
                            " as on rank 0, got " + got.name);
    if (got.value != expected.value)
      return Status::failed(got.name + ": expected " + expected.value +
                            " as on rank 0, got " + got.value);
  }
  if (mine.size() != ofRankZero.size())
    return Status::failed("expected " + std::to_string(ofRankZero.size()) +
                          " settings as on rank 0, got " +
                          std::to_string(mine.size()));
  return Status::ok();
}

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

Status Consensus::agreeOn(const std::vector<Setting> &mine) {
  if (world_.size() == 1)
    return Status::ok();
  Result<std::string> text = share(pack(mine));
  if (!text.isOk())
    return text.status();
  return agree(compare(mine, unpack(*text)));
}

/// Through the stack: channels move memory of the arena or the stack.
Result<std::string> Consensus::readFrom(int rank, const std::string &mine,
                                        bool isWanted) {
  constexpr int64_t chunkBytes = 1 << 14;
  char chunk[chunkBytes];
  bool isMine = world_.rank() == rank;
  auto length = static_cast<int64_t>(isMine ? mine.size() : 0);
  if (Status s = world_.broadcast(&length, &length, sizeof length, rank))
    return s;
  std::string text;
  for (int64_t done = 0; done < length; done += chunkBytes) {
    int64_t now = std::min(chunkBytes, length - done);
    if (isMine)
      std::memcpy(chunk, mine.data() + done, now);
    if (Status s = world_.broadcast(chunk, chunk, now, rank))
      return s;
    if (isWanted)
      text.append(chunk, now);
  }
  return text;
}

Result<std::string> Consensus::share(const std::string &mine) {
  if (world_.size() == 1)
    return mine;
  return readFrom(0, mine, /*isWanted=*/true);
}

Result<std::vector<std::string>> Consensus::gather(const std::string &mine) {
  std::vector<std::string> all;
  if (world_.size() == 1)
    return std::vector<std::string>{mine};
  for (int rank = 0; rank < world_.size(); ++rank) {
    Result<std::string> text = readFrom(rank, mine, world_.rank() == 0);
    if (!text.isOk())
      return text.status();
    if (world_.rank() == 0)
      all.push_back(std::move(*text));
  }
  return all;
}

Result<uint32_t> Consensus::any(uint32_t mine) {
  if (world_.size() == 1)
    return mine;
  int32_t counts[maxFlags];
  for (int i = 0; i < maxFlags; ++i)
    counts[i] = mine >> i & 1;
  if (Status s = world_.allReduce(counts, counts, maxFlags, FSDP_RT_I32, 1))
    return s;
  uint32_t flags = 0;
  for (int i = 0; i < maxFlags; ++i)
    flags |= uint32_t(counts[i] != 0) << i;
  return flags;
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

} // namespace fsdp::rt
