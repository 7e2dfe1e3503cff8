//===- SharedLink.cpp - A link that transfers share -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedLink.h"

#include "core/Clock.h"
#include "core/Futex.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

namespace fsdp::rt {

void sleepUntil(int64_t deadline) {
  // The kernel may wake a thread so much later; by default fifty microseconds.
  thread_local bool isPrecise = prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) == 0;
  (void)isPrecise;
  // What it needs to wake one from an idle core, even so.
  constexpr int64_t margin = 50'000;
  int64_t until = deadline - margin;
  timespec time = {until / 1'000'000'000, until % 1'000'000'000};
  if (nowNanoseconds() < until)
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) ==
           EINTR)
      continue;
  while (nowNanoseconds() < deadline)
    spinPause();
}

int64_t linkNanoseconds(double seconds) {
  static constexpr double longest = 3600;
  return static_cast<int64_t>(std::min(seconds, longest) * 1e9);
}

void LinkShares::begin(Crossing &crossing, int64_t from, int64_t work) {
  if (first_)
    advance(from);
  else
    at_ = double(from);
  crossing = {double(work), first_};
  first_ = &crossing;
}

void LinkShares::end(Crossing &crossing) {
  Crossing **place = &first_;
  while (*place != &crossing)
    place = &(*place)->next;
  *place = crossing.next;
}

void LinkShares::advance(int64_t now) {
  while (at_ < double(now)) {
    int sharers = 0;
    double least = 0;
    for (Crossing *each = first_; each; each = each->next)
      if (each->left > 0) {
        least = sharers == 0 ? each->left : std::min(least, each->left);
        ++sharers;
      }
    if (sharers == 0) {
      at_ = double(now);
      return;
    }
    // To where one of them is through.
    double each = std::min(least, (double(now) - at_) / sharers);
    for (Crossing *other = first_; other; other = other->next)
      other->left = other->left - each < 0.5 ? 0 : other->left - each;
    at_ = each < least ? double(now) : at_ + each * sharers;
  }
}

int64_t LinkShares::endOf(const Crossing &crossing) const {
  double end = at_;
  for (const Crossing *each = first_; each; each = each->next)
    end += std::min(each->left, crossing.left);
  return static_cast<int64_t>(std::ceil(end));
}

void SharedLink::cross(int64_t from, int64_t work) {
  std::unique_lock<std::mutex> lock(mutex_);
  LinkShares::Crossing self;
  shares_.begin(self, from, work);
  // What comes meanwhile makes it later, nothing makes it earlier: a crossing
  // that ends before this one is part of what endOf() says.
  while (self.left > 0) {
    int64_t end = shares_.endOf(self);
    lock.unlock();
    sleepUntil(end);
    lock.lock();
    shares_.advance(std::max(end, nowNanoseconds()));
  }
  shares_.end(self);
}

} // namespace fsdp::rt
