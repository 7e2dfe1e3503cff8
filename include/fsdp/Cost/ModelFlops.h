//===- ModelFlops.h - Arithmetic of products and attention ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What model flops utilization counts: the arithmetic of products, convolutions
// and attention. What elementwise kernels and reductions compute is not part of
// it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COST_MODELFLOPS_H
#define FSDP_COST_MODELFLOPS_H

#include "fsdp/Cost/CostModel.h"

namespace mlir::fsdp {

/// By the type in which the units of the device do it.
using ModelFlops = std::array<int64_t, kNumCostDtypes>;

/// Adds what one call of @kernel computes; nothing for a kernel without a
/// product or attention. Sums that do not fit are the most that does.
void addModelFlops(const KernelCost &kernel, ModelFlops &flops);

int64_t getTotal(const ModelFlops &flops);

/// The seconds that @flops take at the rates @peaks, in flops a second. Types
/// whose rate is 0, which means that it is not known, take none.
double getSecondsAtPeak(const ModelFlops &flops,
                        const std::array<double, kNumCostDtypes> &peaks);

} // namespace mlir::fsdp

#endif // FSDP_COST_MODELFLOPS_H
