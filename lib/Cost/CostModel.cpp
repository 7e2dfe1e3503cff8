//===- CostModel.cpp - How long kernels and transfers take ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/CostModel.h"

#include <algorithm>
#include <cmath>

using namespace mlir::fsdp;

static constexpr double kPicosecondsPerSecond = 1e12;
/// Eleven days for one op: sums of several still fit into Time.
static constexpr double kMostSeconds = 1e6;

Time mlir::fsdp::toTime(double seconds) {
  if (seconds <= 0)
    return 0;
  if (seconds >= kMostSeconds)
    return Time(kMostSeconds * kPicosecondsPerSecond);
  return std::max<Time>(1, std::llround(seconds * kPicosecondsPerSecond));
}

double mlir::fsdp::toSeconds(Time time) {
  return double(time) / kPicosecondsPerSecond;
}

std::optional<CostDtype> mlir::fsdp::parseCostDtype(llvm::StringRef name) {
  for (unsigned i = 0; i < kNumCostDtypes; ++i)
    if (name.equals_insensitive(kCostDtypeNames[i]))
      return CostDtype(i);
  return std::nullopt;
}

int64_t mlir::fsdp::getDtypeBytes(CostDtype dtype) {
  constexpr int64_t bytes[kNumCostDtypes] = {8, 4, 2, 2, 1};
  return bytes[unsigned(dtype)];
}

KernelCost mlir::fsdp::makeMatmul(CostDtype dtype, int64_t m, int64_t n,
                                  int64_t k, int64_t batch) {
  KernelCost cost;
  cost.kind = KernelKind::Matmul;
  cost.dtype = dtype;
  cost.m = m;
  cost.n = n;
  cost.k = k;
  cost.batch = batch;
  cost.flops[unsigned(dtype)] = 2 * m * n * k * batch;
  cost.bytes = (m * k + k * n + m * n) * batch * getDtypeBytes(dtype);
  return cost;
}

KernelCost mlir::fsdp::makeAttention(bool backward, CostDtype dtype,
                                     int64_t batch, int64_t heads,
                                     int64_t kvHeads, int64_t queries,
                                     int64_t keys, int64_t headSize,
                                     bool causal) {
  KernelCost cost;
  cost.kind = backward ? KernelKind::AttentionBackward : KernelKind::Attention;
  cost.dtype = dtype;
  cost.m = queries;
  cost.n = keys;
  cost.k = headSize;
  cost.batch = batch * heads;
  // Two products forward, five backward, halved by the causal mask.
  int64_t product = 2 * queries * keys * headSize * cost.batch;
  cost.flops[unsigned(dtype)] = (backward ? 5 : 2) * product / (causal ? 2 : 1);
  int64_t perQuery = batch * heads * queries * headSize;
  int64_t perKey = batch * kvHeads * keys * headSize;
  // Forward: q and o, k and v. Backward reads those and the gradient of o, and
  // writes the gradients of q, k and v. The statistics are one f32 per row.
  int64_t elements =
      backward ? 4 * perQuery + 4 * perKey : 2 * perQuery + 2 * perKey;
  cost.bytes = elements * getDtypeBytes(dtype) + 4 * cost.batch * queries;
  return cost;
}
