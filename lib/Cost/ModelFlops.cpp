//===- ModelFlops.cpp - Arithmetic of products and attention --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/ModelFlops.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir::fsdp;

static int64_t add(int64_t a, int64_t b) {
  int64_t sum;
  return llvm::AddOverflow(a, b, sum) ? INT64_MAX : sum;
}

void mlir::fsdp::addModelFlops(const KernelCost &kernel, ModelFlops &flops) {
  if (kernel.kind == KernelKind::Vector || kernel.kind == KernelKind::Copy)
    return;
  unsigned type = unsigned(kernel.dtype);
  flops[type] = add(flops[type], kernel.flops[type]);
}

int64_t mlir::fsdp::getTotal(const ModelFlops &flops) {
  int64_t total = 0;
  for (int64_t part : flops)
    total = add(total, part);
  return total;
}

double
mlir::fsdp::getSecondsAtPeak(const ModelFlops &flops,
                             const std::array<double, kNumCostDtypes> &peaks) {
  double seconds = 0;
  for (auto [part, peak] : llvm::zip_equal(flops, peaks))
    if (peak > 0)
      seconds += double(part) / peak;
  return seconds;
}
