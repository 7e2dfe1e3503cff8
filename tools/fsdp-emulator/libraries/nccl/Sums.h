//===- Sums.h - Sums in NCCL's order ----------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_LIBRARIES_NCCL_SUMS_H
#define FSDP_EMULATOR_LIBRARIES_NCCL_SUMS_H

#include <cstddef>
#include <vector>

namespace fsdp::emulator::nccl {

/// dst[i] = the sum over `sources` of their elements i, in the order of a ring
/// that ends at source `last`. Narrow floats are rounded at each hop, or once;
/// each of float16 is multiplied by `factor`, and rounded, before.
void addInRing(const std::vector<const char *> &sources, int last, char *dst,
               size_t count, int type, float factor, bool isRoundedAtHops);

} // namespace fsdp::emulator::nccl

#endif // FSDP_EMULATOR_LIBRARIES_NCCL_SUMS_H
