//===- Recorder.h - Profile and trace of a step's calls ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Memory for both is reserved at construction; record() never allocates.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_PROGRAM_RECORDER_H
#define FSDP_RT_PROGRAM_RECORDER_H

#include "hal/CallRecord.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::rt {

/// Its spelling in calls.def.
const char *callKindName(CallKind kind);

/// Totals of all calls of one call site.
struct SiteTotals {
  const void *site = nullptr;
  const char *name = nullptr;
  CallKind kind = CallKind::Launch;
  int64_t calls = 0;
  int64_t nanoseconds = 0;
  /// Of its fastest call, without waiting.
  int64_t best = 0;
  int64_t waiting = 0;
  int64_t bytes = 0;
  int64_t flops = 0;
};

/// Totals of all calls with one name and kind.
struct ProfileRow {
  std::string name;
  CallKind kind;
  int64_t calls = 0;
  int64_t nanoseconds = 0;
  /// The sum over call sites of each one's fastest call, without waiting: what
  /// one step costs where nothing disturbs it.
  int64_t best = 0;
  int64_t waiting = 0;
  int64_t bytes = 0;
  int64_t flops = 0;
};

class Recorder {
public:
  /// Call sites that a profile can tell apart; those beyond share one row,
  /// named "(other call sites)".
  static constexpr int64_t maxSites = 1 << 16;

  Recorder(bool profile, int64_t traceEvents);

  /// False where neither was asked for: then the caller builds no record.
  bool isEnabled() const { return !sites_.empty() || capacity_ > 0; }
  void record(const CallRecord &call);

  /// Call sites in order of their first call; those that found no room last,
  /// as one site without an address.
  std::vector<SiteTotals> sites() const;
  /// One row per name and kind, in order of first call.
  std::vector<ProfileRow> profile() const;
  /// The first `traceEvents` calls, in order; a transfer of a queue comes where
  /// the step waited for it.
  const std::vector<CallRecord> &trace() const { return events_; }
  /// Calls that came after the trace was full.
  int64_t droppedEvents() const { return dropped_; }

private:
  struct Site : SiteTotals {
    int64_t order = 0;
  };
  Site &siteOf(const CallRecord &call);

  /// Open addressing, at most half full; the overflow row is kept apart.
  std::vector<Site> sites_;
  Site overflow_;
  int64_t used_ = 0;
  std::vector<CallRecord> events_;
  int64_t capacity_ = 0;
  int64_t dropped_ = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RT_PROGRAM_RECORDER_H
