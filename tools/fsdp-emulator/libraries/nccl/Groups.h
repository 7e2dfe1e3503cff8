//===- Groups.h - Calls that are issued together ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_LIBRARIES_NCCL_GROUPS_H
#define FSDP_EMULATOR_LIBRARIES_NCCL_GROUPS_H

#include "Communicator.h"

namespace fsdp::emulator::nccl {

/// The thread's group, from its outermost begin to the end that belongs to it.
void beginGroup();
/// Issues what has been asked for; of the first communicator that puts it off:
/// inProgress.
Error endGroup();
/// What has been asked for fails, and its communicators with it.
void dropGroup(Error error, const std::string &why);
/// Refuses what does not go together; issues it where there is no group.
Error ask(const std::shared_ptr<Communicator> &comm, const Call &call,
          void *stream);

} // namespace fsdp::emulator::nccl

#endif // FSDP_EMULATOR_LIBRARIES_NCCL_GROUPS_H
