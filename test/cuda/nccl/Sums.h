//===- Sums.h - Sums in NCCL's order ----------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CUDA_NCCL_SUMS_H
#define FSDP_TEST_CUDA_NCCL_SUMS_H

#include <cstddef>
#include <vector>

namespace fsdp::test::nccl {

/// dst[i] = the sum over `sources` of their elements i, in the order of a ring
/// that ends at source `last`. Narrow floats are rounded at each hop, or once.
void addInRing(const std::vector<const char *> &sources, int last, char *dst,
               size_t count, int type, bool isRoundedAtHops);

} // namespace fsdp::test::nccl

#endif // FSDP_TEST_CUDA_NCCL_SUMS_H
