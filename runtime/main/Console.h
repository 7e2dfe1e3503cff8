//===- Console.h - What a person sees of a run -------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_CONSOLE_H
#define FSDP_RT_MAIN_CONSOLE_H

#include "core/Status.h"
#include "data/Metrics.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace fsdp::rt {

/// Lines for some steps, a bar below them where `out` is a terminal, and a
/// summary. Notes and warnings go to standard error at any time.
class Console {
public:
  struct Options {
    int64_t firstStep = 1, lastStep = 1;
    int64_t logEvery = 1;
    bool isQuiet = false;
    bool isTerminal = false;
  };

  /// `out` must outlive the console.
  Console(std::FILE *out, const Options &options);
  /// Takes the bar away.
  ~Console();

  void step(const data::StepMetrics &metrics);
  /// The loss of an evaluation after `step`.
  void evaluation(int64_t step, double loss, int64_t batches);
  /// "note: ..." where steps are printed.
  void note(const std::string &text);
  /// Whether the reader of `out`, a pipe, is gone.
  bool isUnread() const { return isUnread_; }
  /// "warning: ..." on standard error.
  void warn(const std::string &text);
  /// The summary; fails where `out` could not be written.
  Status finish();

private:
  void clearBar();
  void drawBar(int64_t step);

  std::FILE *out_;
  Options options_;
  std::chrono::steady_clock::time_point start_;
  bool hasBar_ = false, isUnread_ = false;
  int64_t steps_ = 0;
  double firstLoss_ = 0, lastLoss_ = 0;
  double tokens_ = 0, stepSeconds_ = 0;
};

/// "[=====>    ] 50/100 0:12 left", without line breaks.
std::string progressBar(int64_t done, int64_t total, double secondsLeft);

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_CONSOLE_H
