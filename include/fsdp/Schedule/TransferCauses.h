//===- TransferCauses.h - Why compute waits for a transfer ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_TRANSFERCAUSES_H
#define FSDP_SCHEDULE_TRANSFERCAUSES_H

#include "fsdp/Schedule/Timeline.h"

namespace mlir::fsdp::sched {

/// "all_gather (backward)", "offload".
std::string getKindTitle(const StepOp &op);

/// "transformer.h.0 all_gather", and with its phase where that tells it apart.
std::string getOpTitle(const StepProgram &program, Id op);

/// The one reason why transfer @op, which is exposed in @timeline of @program,
/// did not end earlier.
std::string getCause(const StepProgram &program, const Timeline &timeline,
                     Id op);

} // namespace mlir::fsdp::sched

#endif // FSDP_SCHEDULE_TRANSFERCAUSES_H
