//===- Trace.h - Files that show where a step's time went -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_TRACE_TRACE_H
#define FSDP_RT_TRACE_TRACE_H

#include "core/Context.h"
#include "core/Status.h"

#include <string>

namespace fsdp::rt {

/// Writes the recorded calls of one rank in Chrome's trace format, which
/// Perfetto and chrome://tracing open; `rank` becomes the process number, and
/// each queue a thread of its own, by its number.
/// Times are microseconds since the first call. Written as
/// data::replaceFile does.
Status writeTrace(const std::string &path, int rank, const Recorder &recorder);

/// Writes one rank's profile as JSON: the step's times in nanoseconds and one
/// object per name, the most expensive first, with calls, nanoseconds (in all,
/// and of an undisturbed step), bytes, flops, GB/s and GFLOP/s; then every
/// matrix product with its shape and place. Written as data::replaceFile does.
Status writeProfile(const std::string &path, int rank, const Context &context);

} // namespace fsdp::rt

#endif // FSDP_RT_TRACE_TRACE_H
