//===- Recording.h - The calls of a program ---------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program is a straight line of calls whose arguments are the same in each
// run. It is called once, when it is loaded, with a context that appends each
// call to a list; a device executes the list.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_RECORDING_H
#define FSDP_RT_HAL_RECORDING_H

#include "core/Status.h"
#include "fsdp-rt/abi.h"
#include "hal/Call.h"
#include "hal/Layout.h"
#include "hal/Traffic.h"

#include <cstdint>
#include <string>
#include <vector>

/// Completes the ABI's opaque type; what records is its only derived class.
struct fsdp_rt_context {};

namespace fsdp::rt::hal {

class Recording {
public:
  /// Calls the program and keeps what it calls. `layout` is one that
  /// checkLayout() accepts. Refuses calls that break CallRules.h, starts and
  /// waits whose events are not those of abi.def's contract, and programs that
  /// fail of themselves. `rank` is the
  /// world rank that will run it. `units` says of each transfer which unit of
  /// the model it serves, by event, or of a transfer of queue 0 by its place
  /// among all transfers; empty where of none.
  static Result<Recording> record(const fsdp_rt_program &program,
                                  const Layout &layout, int rank,
                                  const std::vector<std::string> &units = {});

  /// The program's.
  const std::string &name() const { return name_; }
  /// In the order of the program.
  const std::vector<Call> &calls() const { return calls_; }
  /// The unit that is computed from call `index` on, whose parameters have been
  /// gathered; empty where that of the call before goes on.
  const std::string &unitFrom(size_t index) const { return unitFrom_[index]; }
  /// The unit in which call `index` stands, or which a transfer serves; empty
  /// where it is not known.
  const std::string &unitOf(size_t index) const { return unitOf_[index]; }
  /// "launch 'gelu' (forward h.0)".
  std::string describeCall(size_t index) const;
  /// Of one run.
  const Traffic &traffic() const { return traffic_; }

private:
  friend class ProgramRecorder;
  void findUnits(const std::vector<std::string> &units);

  std::string name_;
  std::vector<Call> calls_;
  std::vector<std::string> unitFrom_, unitOf_; // by call
  Traffic traffic_;
};

/// The start of a collective of more than one rank that `call` is; null: it is
/// none, or has no parts.
const fsdp_rt_start_desc *getExchange(const Call &call, const Layout &layout);

/// Appends a call to the recording behind `ctx`: what the ABI's functions do.
/// Returns 0, or the code of the status with which recording failed.
int32_t recordCall(fsdp_rt_context *ctx, Function function, const void *desc);

} // namespace fsdp::rt::hal

#endif // FSDP_RT_HAL_RECORDING_H
