//===- CallWork.h - Work, records and times of calls ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_CALLWORK_H
#define FSDP_RT_HAL_CALLWORK_H

#include "hal/Call.h"
#include "hal/CallRecord.h"
#include "hal/Device.h"

#include <cstdint>

namespace fsdp::rt::hal {

/// What a call of queue 0 does in a run.
struct CallWork {
  /// Operands read once and results written once.
  int64_t bytes = 0;
  /// Multiplications and additions of products.
  int64_t flops = 0;
};

/// By the descriptor's type; of a call that has no work of its own, nothing.
CallWork workOf(const Call &call, const fsdp_rt_launch_desc &desc);
CallWork workOf(const Call &call, const fsdp_rt_matmul_desc &desc);
CallWork workOf(const Call &call, const fsdp_rt_attention_desc &desc);
CallWork workOf(const Call &call, const fsdp_rt_copy_desc &desc);
CallWork workOf(const Call &call, const fsdp_rt_start_desc &desc);
CallWork workOf(const Call &call, const fsdp_rt_wait_desc &desc);
CallWork workOf(const Call &call, const fsdp_rt_check_desc &desc);
CallWork workOf(const Call &call, const fsdp_rt_guard_desc &desc);

/// What calls.def says of the call, or of a start's transfers; Silent where no
/// record is made.
CallKind kindOf(const Call &call);

/// The record of a call that took from `begin` to `end`. All of a wait's time
/// is waiting; of a start none, and it was given to its queue at `begin`.
CallRecord recordOf(const Call &call, int64_t begin, int64_t end);

/// Adds the call's time to the member of `times` that calls.def names, and
/// gives its record to `log` unless that is null.
void report(const Call &call, int64_t begin, int64_t end, RunTimes &times,
            RunLog *log);

} // namespace fsdp::rt::hal

#endif // FSDP_RT_HAL_CALLWORK_H
