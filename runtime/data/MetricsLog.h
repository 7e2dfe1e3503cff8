//===- MetricsLog.h - Lines that a full disk does not lose ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_METRICSLOG_H
#define FSDP_RT_DATA_METRICSLOG_H

#include "core/Status.h"
#include "data/Metrics.h"

#include <cstdint>
#include <deque>
#include <string>

namespace fsdp::rt::data {

/// The lines of --metrics. One that cannot be written is kept, within bounds,
/// and written before the next.
class MetricsLog {
public:
  static Result<MetricsLog> open(const std::string &path);

  /// Makes the file fit a run that begins after `step`, which is 0 for one that
  /// begins anew: empties it then, else cuts it before the first line of a
  /// later step and before a last line without an end. Only a regular file.
  Status beginAfter(int64_t step);
  /// Keeps all lines: cuts a last line without an end alone.
  Status beginAtEnd();
  /// Writes what was kept, and `line`; where that fails, all is kept that was
  /// not written.
  Status append(const std::string &line);
  /// Lines that have not been written.
  int64_t missing() const { return dropped_ + int64_t(kept_.size()); }

private:
  LineFile file_;
  std::string path_;
  std::deque<std::string> kept_;
  int64_t dropped_ = 0;
};

/// The bytes of `path` up to the first line of a step after `step`, and without
/// a last line that has no end. Lines that tell no step stay.
Result<int64_t> bytesUpTo(const std::string &path, int64_t step);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_METRICSLOG_H
