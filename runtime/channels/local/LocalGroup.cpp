//===- LocalGroup.cpp - A group of rank threads ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalGroup.h"

#include "core/Clock.h"
#include "core/Futex.h"
#include "core/WaitLimit.h"

#include <utility>

namespace fsdp::rt {

LocalGroup::LocalGroup(std::vector<int> ranks, bool spin, int64_t waitLimit)
    : ranks_(std::move(ranks)), members_(ranks_.size()),
      arrivals_(ranks_.size()), spin_(spin), waitLimit_(waitLimit) {}

bool LocalGroup::arrive(bool isBreakable, uint32_t &word) {
  word = word_.load();
  while (true) {
    if (isBreakable && (word & broken))
      return false;
    uint32_t count = (word & countMask) / countUnit + 1;
    uint32_t next = word + countUnit;
    if (count == ranks_.size())
      next = (word & ~countMask) + meetingUnit;
    if (word_.compare_exchange_weak(word, next))
      break;
  }
  return true;
}

/// Without `breakLate` the meeting cannot be broken.
bool LocalGroup::meet(int64_t &waited, const std::function<void()> *breakLate) {
  bool isBreakable = breakLate;
  uint32_t word;
  if (!arrive(isBreakable, word))
    return false;
  uint32_t meeting = word / meetingUnit;
  auto isOver = [&](uint32_t now) {
    return now / meetingUnit != meeting || (isBreakable && (now & broken));
  };
  uint32_t now = word_.load();
  if (isOver(now)) {
    // The last to come wakes those who went to sleep: they are in sleepers_
    // before the kernel compares the word, so one of both sees the other.
    if (sleepers_.load() > 0)
      futexWakeAll(word_);
    return now / meetingUnit != meeting;
  }

  int64_t start = nowNanoseconds();
  waitBriefly(spin_, [&] { return isOver(word_.load()); });
  WaitLimit limit(isBreakable ? waitLimit_ : 0);
  ++sleepers_;
  while (!isOver(now = word_.load())) {
    if (limit.isExceeded())
      (*breakLate)();
    else
      futexWaitBriefly(word_, now);
  }
  --sleepers_;
  waited += nowNanoseconds() - start;
  return now / meetingUnit != meeting;
}

bool LocalGroup::open(int index, const LocalRequest &request, int64_t &waited,
                      const std::function<void()> &breakLate) {
  members_[index] = request;
  ++arrivals_[index];
  opened_.store(nowNanoseconds());
  return meet(waited, &breakLate);
}

void LocalGroup::close(int64_t &waited) { meet(waited, nullptr); }

std::vector<int> LocalGroup::missing(int index) const {
  std::vector<int> ranks;
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (arrivals_[i].load() != arrivals_[index].load())
      ranks.push_back(ranks_[i]);
  return ranks;
}

void LocalGroup::breakUp() {
  word_.fetch_or(broken);
  futexWakeAll(word_);
}

void LocalGroup::leave(int worldRank) {
  int none = -1;
  leaver_.compare_exchange_strong(none, worldRank);
  breakUp();
}

} // namespace fsdp::rt
