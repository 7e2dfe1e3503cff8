//===- Metrics.h - What a step tells -----------------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_METRICS_H
#define FSDP_RT_DATA_METRICS_H

#include "core/Status.h"
#include "data/Manifest.h"
#include "data/StepWork.h"

#include <cstdint>
#include <optional>
#include <string>

namespace fsdp::rt::data {

/// One step, as rank 0 saw it.
struct StepMetrics {
  int64_t step = 0; // from 1
  double loss = 0, gradNorm = 0;
  std::optional<double> lossScale;    // one that changes
  std::optional<double> learningRate; // of a schedule
  double stepMs = 0; // from the end of the step before, without what was saved
  double tokensPerSecond = 0; // of all ranks together
  double exposedCommMs = 0;   // the rank's thread spent in collectives
  int64_t memBytes = 0;       // of the device, or resident
  /// Of one rank's products and attention, in 10^12 a second, and as a part of
  /// the peak of the machine that the program was compiled for.
  std::optional<double> tflops, mfu;
  /// The bound of that machine over the time of the step.
  std::optional<double> ofBound;

  /// What follows from `stepMs` for a step of `work`.
  void setRates(const StepWork &work);
};

/// One line of JSON, without its end. Numbers read back as what they were:
/// loss and gradient norm with the digits of `lossDtype` and `gradNormDtype`.
/// What is not finite is null, and named in the list "nonfinite"; rates that
/// are not known have no key.
std::string toJsonLine(const StepMetrics &metrics, Dtype lossDtype,
                       Dtype gradNormDtype);

/// The value; NaN without its sign, which printf shows and x86 sets in those
/// that it makes.
double withoutSignOfNan(double value);

/// "step: 1 loss: 6.9427 grad_norm: 0.7 memory: 1.23MiB tps: 12,345", and where
/// they are known " scale: 65536 lr: 0.0003" after the norm, " mfu: 43.1 % of
/// bound: 0.87".
std::string toConsoleLine(const StepMetrics &metrics);

/// Tokens that one step of all ranks sees: the elements of the first integer
/// input, or the first extent of the first input where there is none, times
/// the ranks.
int64_t tokensPerStep(const Manifest &manifest);

/// A line of an evaluation after `step`: the step, the loss (in the digits of
/// its type) and how many batches it is the mean of.
std::string toJsonLine(int64_t step, double loss, Dtype lossDtype,
                       int64_t batches);

/// Bytes of this process that are in memory; 0 where the system does not say.
int64_t residentBytes();

/// A file of lines, each of which is complete as soon as it was written. A file
/// that did not exist and got no line is removed at the end.
class LineFile {
public:
  LineFile() = default;
  LineFile(LineFile &&other) noexcept { swap(other); }
  LineFile &operator=(LineFile &&other) noexcept {
    swap(other);
    return *this;
  }
  ~LineFile();

  /// Opens or creates `path`, which may be a pipe or a device. What it holds
  /// stays.
  static Result<LineFile> open(const std::string &path);
  /// Keeps the first `bytes` alone, where it is a file that can be cut.
  Status cut(int64_t bytes);
  /// Appends `line` and its end; on failure the file is as it was.
  Status append(const std::string &line);

private:
  void swap(LineFile &other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(path_, other.path_);
    std::swap(isNew_, other.isNew_);
  }
  int fd_ = -1;
  std::string path_;
  bool isNew_ = false; // made by open(), and without a line
};

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_METRICS_H
