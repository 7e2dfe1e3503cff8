//===- WaitLimit.h - How long to wait for what does not move ----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_WAITLIMIT_H
#define FSDP_RT_CORE_WAITLIMIT_H

#include "core/Clock.h"
#include "core/Status.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace fsdp::rt {

/// Measures how long a wait has made no progress. Whoever waits has to ask at
/// least once a second: a longer pause between two questions counts as
/// `mostCounted`, so that a process that was stopped and continued does not
/// take its own pause for another rank's.
class WaitLimit {
public:
  /// 0: no limit.
  explicit WaitLimit(int64_t nanoseconds)
      : limit_(nanoseconds), last_(nowNanoseconds()) {}

  /// What is waited for has made progress.
  void restart() { waited_ = 0; }
  bool isExceeded() {
    if (limit_ == 0)
      return false;
    int64_t now = nowNanoseconds();
    waited_ += std::min(now - last_, mostCounted);
    last_ = now;
    return waited_ >= limit_;
  }
  /// Of a wait that has exceeded it: what was expected, and where things are.
  Status failure(const std::string &expected, const std::string &got) const {
    return Status::failed("expected " + expected + " within " +
                          std::to_string(limit_ / 1'000'000'000) +
                          " s (--watchdog), got " + got);
  }

private:
  static constexpr int64_t mostCounted = 2'000'000'000;
  int64_t limit_, last_, waited_ = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_WAITLIMIT_H
