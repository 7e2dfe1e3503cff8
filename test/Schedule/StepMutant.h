//===- StepMutant.h - Small steps and what may go wrong in them -*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_SCHEDULE_STEPMUTANT_H
#define FSDP_TEST_SCHEDULE_STEPMUTANT_H

#include "PlacedProgram.h"

#include <random>

namespace mlir::fsdp::sched::test {

/// A right step of one or two units, overlapped, and changes to it. What the
/// step has is drawn from its seed: units gathered and reduced one by one or
/// issued together, gradients packed (parts in place and not, gaps), sums over
/// two axes, activations on the host, results that are tied to what is kept,
/// new shards that are copied to the old ones' places.
class StepMutant : public PlacedProgram {
public:
  explicit StepMutant(unsigned seed);
  /// One change, of the op list, of what ops touch or of where values lie.
  void mutate();

protected:
  /// From 0 to @count - 1.
  int pick(int64_t count) {
    return std::uniform_int_distribution<int64_t>(0, count - 1)(random);
  }
  /// The place of an op that @isWanted, or -1.
  template <typename Predicate>
  int pickOp(Predicate isWanted) {
    std::vector<int> ops;
    for (size_t i = 0; i != p.ops.size(); ++i)
      if (isWanted(p.ops[i]))
        ops.push_back(i);
    return ops.empty() ? -1 : ops[pick(ops.size())];
  }
  Id events = 0;

private:
  Id value(bool isArgument = false) {
    return valueOf((1 + pick(2)) * kGranule, isArgument);
  }
  Id valueOf(int64_t bytes, bool isArgument = false) {
    p.arenaBytes += bytes;
    return addValue(p.arenaBytes - bytes, bytes, isArgument);
  }
  /// Another value in the place of @other.
  Id over(Id other);
  void start(const char *name, Queue queue, TransferKind kind,
             const std::vector<Id> &reads, const std::vector<Id> &writes) {
    addStart(name, queue, kind, events++, reads, writes);
  }
  void gather(const std::vector<Id> &shards, const std::vector<Id> &gathered);
  Id forward(Id gathered, const std::vector<Id> &activation);
  Id backward(const std::vector<Id> &reads);
  /// Returns what is left of @gradients, of which `unwaited` tells.
  std::vector<Id> reduce(const std::vector<Id> &gradients);
  void update(Id shard, Id gradient);
  Id offload(Id first, Id second);
  /// Each returns whether it found something to change.
  bool change();
  bool changeParts();
  bool changePack();
  bool changeRanges();
  bool changeTies();

  std::mt19937 random;
  std::vector<Id> unwaited;
};

} // namespace mlir::fsdp::sched::test

#endif // FSDP_TEST_SCHEDULE_STEPMUTANT_H
