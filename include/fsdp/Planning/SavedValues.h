//===- SavedValues.h - What forward saves for backward ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each value of forward that backward needs is either saved, which costs memory
// from forward to backward, or computed again of others, which costs work. The
// cheapest choice for a whole program is a minimal cut between the ops that can
// only run in forward and the reads of backward.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLANNING_SAVEDVALUES_H
#define FSDP_PLANNING_SAVEDVALUES_H

#include <cstdint>
#include <vector>

namespace mlir::fsdp::sched {

/// The ops of forward and what they compute, without IR.
struct SaveProblem {
  /// One unit of cost is a simple operation on one element. A moved byte is
  /// written or read once more.
  static constexpr int64_t kMovedByte = 4;
  /// A saved byte is written and read, and allocated from forward to backward:
  /// 2 * kMovedByte where memory is free, more where it is not.
  int64_t savedByte = 8 * kMovedByte;

  struct Value {
    int64_t bytes = 0;
    /// Whether backward reads it.
    bool isNeeded = false;
    /// Whether a loop kernel of backward reads it, which would read other
    /// values instead if this one were computed again.
    bool isReadByLoops = false;
    /// Whether it is in memory in backward without being saved.
    bool isKept = false;
  };
  struct Op {
    /// Indices of values.
    std::vector<int> reads, results;
    /// Whether backward may compute it again.
    bool isRepeatable = false;
    /// Cost of computing it again once, but for what it reads.
    double cost = 0;
    /// How many times backward would do so.
    int64_t repeats = 1;
  };
  std::vector<Value> values;
  /// An op comes after those whose results it reads.
  std::vector<Op> ops;
};

/// By op: whether backward computes it again. What backward or such an op reads
/// of any other op is saved. Of the cheapest choices the one that computes
/// least again.
std::vector<bool> chooseRepeatedOps(const SaveProblem &problem);

} // namespace mlir::fsdp::sched

#endif // FSDP_PLANNING_SAVEDVALUES_H
