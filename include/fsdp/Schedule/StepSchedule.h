//===- StepSchedule.h - From a schedule to a program ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_STEPSCHEDULE_H
#define FSDP_SCHEDULE_STEPSCHEDULE_H

#include "fsdp/Schedule/StepProblem.h"

namespace mlir::fsdp::sched {

/// The program that @schedule makes of @program. Nobody has placed its buffers.
StepProgram applySchedule(const StepProgram &program,
                          const StepProblem &problem, const Schedule &schedule);

/// No order of the step takes less: the bound of the problem, and of what must
/// precede the epilogue with the epilogue behind it.
Time getStepBound(const StepProgram &program, const StepProblem &problem,
                  const TimedProgram &times);

/// The same where no op takes longer than in @ordered, one of these orders, as
/// shareBuffers leaves it: what is copied depends on the order. @now: its
/// times.
Time getStepBound(const StepProgram &program, const StepProblem &problem,
                  const TimedProgram &times, const StepProgram &ordered,
                  const TimedProgram &now);

} // namespace mlir::fsdp::sched

#endif // FSDP_SCHEDULE_STEPSCHEDULE_H
