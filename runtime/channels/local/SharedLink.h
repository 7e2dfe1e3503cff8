//===- SharedLink.h - A link that transfers share ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_LOCAL_SHAREDLINK_H
#define FSDP_RT_CHANNELS_LOCAL_SHAREDLINK_H

#include <cstdint>
#include <mutex>

namespace fsdp::rt {

/// Transfers that are on a link at once share it evenly, as in the compiler's
/// simulation of a step. Knows no clock: times are nanoseconds that callers
/// say, and play in their order.
class LinkShares {
public:
  /// Owned by who crosses, on its stack: nothing is allocated.
  struct Crossing {
    /// Nanoseconds alone; 0: it is through.
    double left = 0;
    Crossing *next = nullptr;
  };

  /// `crossing`, which takes `work` alone, comes at `from`. An empty link was
  /// free then, however late this is called.
  void begin(Crossing &crossing, int64_t from, int64_t work);
  /// Plays the sharing up to `now`.
  void advance(int64_t now);
  /// When `crossing` is through if nothing else comes.
  int64_t endOf(const Crossing &crossing) const;
  void end(Crossing &crossing);

private:
  Crossing *first_ = nullptr;
  /// Up to when it has been played.
  double at_ = 0;
};

/// LinkShares by the clock. It takes time and no core: who crosses it sleeps.
/// Thread-safe; allocates nothing. Times are nowNanoseconds().
class SharedLink {
public:
  SharedLink() = default;
  SharedLink(const SharedLink &) = delete;
  SharedLink &operator=(const SharedLink &) = delete;

  /// Returns when what came to the link at `from`, and would take `work`
  /// nanoseconds alone, has crossed it.
  void cross(int64_t from, int64_t work);

private:
  std::mutex mutex_;
  LinkShares shares_;
};

/// An hour at most.
int64_t linkNanoseconds(double seconds);

/// Returns when nowNanoseconds() is `deadline`: sleeps, but for the last
/// microseconds.
void sleepUntil(int64_t deadline);

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_LOCAL_SHAREDLINK_H
