//===- CudaExecutable.cpp - A program on a CUDA device --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/run/CudaExecutable.h"

#include "hal/GuardRules.h"

namespace fsdp::rt {

static Status failureOf(const CudaReport &report,
                        const std::string &checkNote) {
  if (report.check) {
    const char *message = report.check->message;
    return Status::failed(
        std::string(message ? message : "a check of the step failed") +
        (report.unit.empty() ? "" : " (" + report.unit + ")") +
        (checkNote.empty() ? "" : "; " + checkNote));
  }
  int64_t begin =
      report.buffer->offset + (report.isBehind ? report.buffer->bytes : 0);
  return hal::touched(*report.guard, *report.buffer, report.isBehind,
                      begin + static_cast<int64_t>(report.report->found >> 8),
                      static_cast<unsigned char>(report.report->found & 255));
}

/// The device may be in the next run, whose failure it reports meanwhile: that
/// is seen when that run is over.
__attribute__((no_sanitize("thread"))) static uint64_t
failedRun(const CudaReport &report) {
  return *const_cast<const volatile uint64_t *>(&report.report->run);
}

Status CudaExecutable::findFailure(uint64_t run,
                                   const std::string &checkNote) const {
  for (const CudaReport &report : reports_) {
    uint64_t failed = failedRun(report);
    if (failed != 0 && failed <= run)
      return failureOf(report, checkNote);
  }
  return Status::ok();
}

} // namespace fsdp::rt
