//===- RateSchedule.h - Learning rates by step ------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A schedule gives the ratio of each step's learning rate to --lr's. It is a
// function of the step's number and of constants, which a checkpoint keeps as
// text. With s = step - 1 + first, it is
//
//   start + (1 - start) s / warmup                     for s < warmup
//   min                                                for s >= steps
//   1                                                  for s <= steps - decay
//   min + (1 - min) shape((s - steps + decay) / decay) for what is left
//
// where `decay` is steps - warmup unless it is given, and shape(p) is
//
//   linear  1 - p     cosine  (1 + cos(pi p)) / 2     sqrt  1 - sqrt(p)
//
// These are the schedules of transformers (get_linear_schedule_with_warmup,
// get_cosine_schedule_with_warmup, get_wsd_schedule), of torchtitan (first=1)
// and of nanoGPT (start = 1 / (warmup + 1)): docs/learning-rates.md.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_RATESCHEDULE_H
#define FSDP_RT_DATA_RATESCHEDULE_H

#include "core/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::rt::data {

class RateSchedule {
public:
  /// What --lr-schedule takes:
  ///   KIND[:KEY=VALUE,...]  KIND constant, linear, cosine, sqrt or wsd; KEY
  ///                         warmup, warmup-tokens, start, first, and of kinds
  ///                         that decay steps, min, of wsd also decay, shape
  ///   table:STEP=RATIO,...  each ratio from its step on; the first is step 1
  ///   file:PATH             such a table, a line "STEP RATIO" each; '#' begins
  ///                         a comment. The schedule becomes the table
  static Result<RateSchedule> parse(const std::string &text);

  /// Makes a warm-up of tokens one of steps, rounded up. Refuses one that does
  /// not end before the decay begins.
  Status resolve(int64_t tokensPerStep);

  /// Of a schedule that is resolved; `step` counts from 1. At least 0.
  double ratioOf(int64_t step) const;

  /// The last step before those that all have lastRatio(); none where there is
  /// none.
  std::optional<int64_t> lastStep() const;
  /// Whether resolve() decides when it has warmed up.
  bool needsTokens() const { return warmupTokens_ != 0; }
  double lastRatio() const;

  /// What parse() reads as the same schedule, with each constant that is not
  /// its default. Of a schedule that is resolved, warm-up in steps.
  std::string text() const;
  /// The same for the user to read: of a long table its hash, not its entries.
  std::string describe() const;

private:
  enum class Kind { Constant, Linear, Cosine, Sqrt, Wsd, Table };
  static const char *nameOf(Kind kind);

  Status set(const std::string &key, const std::string &value);
  Status check() const;
  static Result<RateSchedule> parseTable(const std::string &entries);
  static Result<RateSchedule> readTable(const std::string &path);
  Status addEntry(const std::string &step, const std::string &ratio);
  bool decays() const {
    return kind_ != Kind::Constant && kind_ != Kind::Table;
  }
  int64_t decaySteps() const { return decay_.value_or(steps_ - warmup_); }

  Kind kind_ = Kind::Constant;
  Kind shape_ = Kind::Linear; // of Wsd
  int64_t warmup_ = 0, warmupTokens_ = 0, first_ = 0, steps_ = 0;
  std::optional<int64_t> decay_;
  double start_ = 0, min_ = 0;
  std::vector<std::pair<int64_t, double>> table_; // by step, increasing
};

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_RATESCHEDULE_H
