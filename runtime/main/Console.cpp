//===- Console.cpp - What a person sees of a run --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Console.h"

#include "core/Printable.h"
#include "data/Numbers.h"

#include <algorithm>
#include <cerrno>
#include <cmath>

namespace fsdp::rt {

namespace {

std::string formatSeconds(double seconds) {
  auto whole = static_cast<long long>(std::min(seconds, 1e9));
  char text[40];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / 3600,
                  whole / 60 % 60, whole % 60);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld", whole / 60, whole % 60);
  return text;
}

} // namespace

std::string progressBar(int64_t done, int64_t total, double secondsLeft) {
  constexpr int64_t cells = 30;
  auto full = static_cast<int64_t>(double(done) / double(total) * cells);
  std::string bar(full, '=');
  if (full < cells)
    bar += '>';
  bar.resize(cells, ' ');
  return "[" + bar + "] " + std::to_string(done) + "/" + std::to_string(total) +
         " " + formatSeconds(secondsLeft) + " left";
}

Console::Console(std::FILE *out, const Options &options)
    : out_(out), options_(options), start_(std::chrono::steady_clock::now()) {}

Console::~Console() { clearBar(); }

void Console::clearBar() {
  if (!hasBar_)
    return;
  std::fputs("\r\x1b[K", out_);
  std::fflush(out_);
  hasBar_ = false;
}

void Console::drawBar(int64_t step) {
  std::chrono::duration<double> spent =
      std::chrono::steady_clock::now() - start_;
  double left = spent.count() / steps_ * (options_.lastStep - step);
  std::fputs(progressBar(step, options_.lastStep, left).c_str(), out_);
  hasBar_ = true;
}

void Console::step(const data::StepMetrics &metrics) {
  if (steps_++ == 0)
    firstLoss_ = metrics.loss;
  lastLoss_ = metrics.loss;
  stepSeconds_ += metrics.stepMs / 1e3;
  tokens_ += metrics.tokensPerSecond * metrics.stepMs / 1e3;
  if (options_.isQuiet)
    return;
  clearBar();
  bool isLogged = metrics.step % options_.logEvery == 0 ||
                  metrics.step == options_.firstStep ||
                  metrics.step == options_.lastStep;
  if (isLogged)
    std::fprintf(out_, "%s\n", data::toConsoleLine(metrics).c_str());
  if (options_.isTerminal && metrics.step < options_.lastStep)
    drawBar(metrics.step);
  isUnread_ |= std::fflush(out_) != 0 && errno == EPIPE;
}

void Console::evaluation(int64_t step, double loss, int64_t batches) {
  if (options_.isQuiet)
    return;
  clearBar();
  std::fprintf(out_, "step: %lld eval_loss: %.4f of %lld %s\n",
               static_cast<long long>(step), data::withoutSignOfNan(loss),
               static_cast<long long>(batches),
               batches == 1 ? "batch" : "batches");
  isUnread_ |= std::fflush(out_) != 0 && errno == EPIPE;
}

void Console::note(const std::string &text) {
  if (options_.isQuiet)
    return;
  clearBar();
  std::fprintf(out_, "note: %s\n", printable(text).c_str());
}

void Console::warn(const std::string &text) {
  clearBar();
  std::fprintf(stderr, "warning: %s\n", printable(text).c_str());
}

Status Console::finish() {
  clearBar();
  if (options_.isQuiet)
    return Status::ok();
  std::chrono::duration<double> spent =
      std::chrono::steady_clock::now() - start_;
  double rate = stepSeconds_ > 0 ? tokens_ / stepSeconds_ : 0;
  if (steps_ > 0)
    std::fprintf(
        out_, "done: %lld steps in %.1f s, loss %.4f to %.4f, %s tokens/s\n",
        static_cast<long long>(steps_), spent.count(),
        data::withoutSignOfNan(firstLoss_), data::withoutSignOfNan(lastLoss_),
        data::groupDigits(std::llround(rate)).c_str());
  bool isFlushed = std::fflush(out_) == 0;
  isUnread_ |= !isFlushed && errno == EPIPE;
  if (!isFlushed || std::ferror(out_))
    return Status::failed("cannot write to standard output");
  return Status::ok();
}

} // namespace fsdp::rt
