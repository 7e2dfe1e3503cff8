//===- SharedLink.h - A link that transfers share ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_BACKENDS_LOCAL_SHAREDLINK_H
#define FSDP_RT_BACKENDS_LOCAL_SHAREDLINK_H

#include <cstdint>
#include <mutex>

namespace fsdp::rt {

/// Transfers that are on the link at once share it evenly, as in the compiler's
/// simulation of a step. It takes time and no core: who crosses it sleeps.
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
  /// On the stack of who crosses.
  struct Crossing {
    double left;
    Crossing *next;
  };

  /// Plays the sharing up to `now`.
  void advance(int64_t now);
  /// When `crossing` ends if nothing else comes.
  int64_t endOf(const Crossing &crossing) const;

  std::mutex mutex_;
  Crossing *first_ = nullptr;
  /// Up to when it has been played.
  double at_ = 0;
};

/// An hour at most.
int64_t linkNanoseconds(double seconds);

/// Returns when nowNanoseconds() is `deadline`: sleeps, but for the last
/// microseconds.
void sleepUntil(int64_t deadline);

} // namespace fsdp::rt

#endif // FSDP_RT_BACKENDS_LOCAL_SHAREDLINK_H
