//===- TransferCauses.cpp - Why compute waits for a transfer --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/TransferCauses.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

std::string mlir::fsdp::sched::getKindTitle(const StepOp &op) {
  if (op.kind == StepOpKind::Start && op.queue == Queue::AllGather)
    return op.name + (op.backward ? " (backward)" : " (forward)");
  return op.name;
}

std::string mlir::fsdp::sched::getOpTitle(const StepProgram &program, Id op) {
  const StepOp &it = program.ops[op];
  std::string of;
  if (it.unit >= 0)
    of = program.units[it.unit] + " ";
  else if (it.kind == StepOpKind::Start && it.module >= 0)
    of = program.modules[it.module] + " ";
  return of + getKindTitle(it);
}

std::string mlir::fsdp::sched::getCause(const StepProgram &program,
                                        const Timeline &timeline, Id op) {
  const OpSpan &span = timeline.spans[op];
  if (2 * timeline.slowedBy[op] > timeline.exposedBy[op])
    return "compute does not wait for it, but is slower beside it";
  std::string other =
      span.blocker >= 0 ? getOpTitle(program, span.blocker) : "";
  switch (span.why) {
  case Blocker::None:
    return "first in the step, nothing runs before it";
  case Blocker::Input:
    return other.empty() ? "its input was only just computed"
                         : "its input came from " + other;
  case Blocker::Queue:
    return "its queue was busy with " + other;
  case Blocker::Link:
    return "the link was busy with " + other;
  case Blocker::Memory:
    return "no memory to start it earlier";
  case Blocker::Order:
    break;
  case Blocker::Wait:
    break;
  }
  switch (program.ops[op].heldBy) {
  case Cause::Memory:
    return "no memory to start it earlier";
  case Cause::Limit:
    return "a prefetch limit keeps it from starting earlier";
  default:
    return "issued only where it is needed";
  }
}
