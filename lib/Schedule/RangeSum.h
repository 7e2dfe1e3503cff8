//===- RangeSum.h - Sums over numbers that change ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_RANGESUM_H
#define FSDP_LIB_SCHEDULE_RANGESUM_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mlir::fsdp::sched {

/// Sums over a range of numbers that change.
class RangeSum {
public:
  explicit RangeSum(size_t n) : tree(n + 1) {}
  void add(size_t i, int64_t v) {
    total += v;
    for (++i; i < tree.size(); i += i & -i)
      tree[i] += v;
  }
  int64_t below(size_t i) const {
    int64_t sum = 0;
    for (; i; i -= i & -i)
      sum += tree[i];
    return sum;
  }
  int64_t from(size_t i) const { return total - below(i); }

private:
  std::vector<int64_t> tree;
  int64_t total = 0;
};

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_SCHEDULE_RANGESUM_H
