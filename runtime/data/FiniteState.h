//===- FiniteState.h - Whether state is worth keeping -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_FINITESTATE_H
#define FSDP_RT_DATA_FINITESTATE_H

#include "core/Status.h"
#include "data/Manifest.h"
#include "data/StateMemory.h"

#include <cstdint>

namespace fsdp::rt::data {

/// The first of `count` elements that is infinite or no number; -1: none. All
/// integers are finite.
int64_t findNonfinite(Dtype dtype, const char *elements, int64_t count);

/// Refuses, with its name, a trained parameter or optimizer state of which
/// `rank` holds an element that is not finite. (Frozen parameters and buffers
/// may hold infinities, as masks do.)
Status checkFinite(const Manifest &manifest, int rank,
                   const StateMemory &memory);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_FINITESTATE_H
