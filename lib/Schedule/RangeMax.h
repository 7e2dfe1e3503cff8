//===- RangeMax.h - The last of some numbers above a limit ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_RANGEMAX_H
#define FSDP_LIB_SCHEDULE_RANGEMAX_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace mlir::fsdp::sched {

/// Numbers of which the first change together, and which of them is the last
/// one above a limit: each in logarithmic time.
class RangeMax {
public:
  explicit RangeMax(llvm::ArrayRef<int64_t> numbers)
      : leaves(llvm::PowerOf2Ceil(std::max<size_t>(numbers.size(), 1))),
        most(2 * leaves, std::numeric_limits<int64_t>::min() / 2),
        added(2 * leaves) {
    llvm::copy(numbers, most.begin() + leaves);
    for (size_t node = leaves; node-- > 1;)
      most[node] = std::max(most[2 * node], most[2 * node + 1]);
  }

  /// To the first @count numbers.
  void addToFirst(size_t count, int64_t v) { add(1, leaves, count, v); }

  /// The place of the last of the first @count numbers that is above @limit;
  /// -1: none is.
  int64_t findLastAbove(size_t count, int64_t limit) const {
    return find(1, leaves, count, limit);
  }

private:
  // @node has @size numbers, of which the first @count are meant.
  void add(size_t node, size_t size, size_t count, int64_t v) {
    if (count == 0)
      return;
    if (count >= size) {
      most[node] += v;
      added[node] += v;
      return;
    }
    size /= 2;
    add(2 * node, size, count, v);
    add(2 * node + 1, size, count > size ? count - size : 0, v);
    most[node] = std::max(most[2 * node], most[2 * node + 1]) + added[node];
  }

  int64_t find(size_t node, size_t size, size_t count, int64_t limit) const {
    if (count == 0 || most[node] <= limit)
      return -1;
    if (size == 1)
      return 0;
    size /= 2;
    limit -= added[node];
    if (count > size) {
      int64_t found = find(2 * node + 1, size, count - size, limit);
      if (found >= 0)
        return size + found;
    }
    return find(2 * node, size, count, limit);
  }

  size_t leaves;
  /// By node of a tree whose root is 1: the largest number below it, with what
  /// was added to all of them, which nodes below it do not have.
  std::vector<int64_t> most, added;
};

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_SCHEDULE_RANGEMAX_H
