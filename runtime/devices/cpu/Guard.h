//===- Guard.h - Memory outside of its planned life -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What abi.def's guard does. The functions keep nothing: the arena's own bytes
// say whether they are dead.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CPU_GUARD_H
#define FSDP_RT_DEVICES_CPU_GUARD_H

#include "core/Status.h"
#include "devices/cpu/RunTransfers.h"
#include "fsdp-rt/abi.h"

#include <cstdint>

namespace fsdp::rt {

/// Fills and looks, in the order of the buffers. Ends at the first that is not
/// as it must be.
Status runGuard(const fsdp_rt_guard_desc &desc, const RankMemory &memory);

/// Around a transfer: only lives that begin, only lives that end.
Status runGuardBefore(const fsdp_rt_guard_desc &desc, const RankMemory &memory);
Status runGuardBehind(const fsdp_rt_guard_desc &desc, const RankMemory &memory);

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CPU_GUARD_H
