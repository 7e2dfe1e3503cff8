//===- SmallProblems.h - Steps that fit on paper ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_SCHEDULE_SMALLPROBLEMS_H
#define FSDP_TEST_SCHEDULE_SMALLPROBLEMS_H

#include "fsdp/Schedule/ScheduleProblem.h"

namespace mlir::fsdp::sched::test {

inline Transfer makeGather(Id segment, Time work, int64_t bytes) {
  Transfer t;
  t.queue = Queue::AllGather;
  t.cost.work = work;
  t.firstUse = t.lastUse = segment;
  t.dstBytes = bytes;
  return t;
}

inline Transfer makeReduction(Id segment, Time work, int64_t bytes) {
  Transfer t;
  t.queue = Queue::Reduce;
  t.cost.work = work;
  t.ready = t.srcBegin = segment;
  t.srcBytes = bytes;
  return t;
}

/// Two units: forward, forward, backward, backward, each 100 ps; three gathers
/// of 40 ps and two reductions of 60 ps; an update of 10 ps for each. The
/// second unit is kept for its backward. A unit is 100 bytes.
///
///   segment     0: f0   1: f1   2: b1   3: b0
///   transfer    0: gather f0   1: gather f1, b1   2: gather b0
///               3: reduce b1   4: reduce b0
inline ScheduleProblem makeTwoUnits() {
  ScheduleProblem p;
  for (int i = 0; i != 4; ++i)
    p.spine.push_back({100, 10});
  p.backwardBegin = 2;
  p.transfers = {makeGather(0, 40, 100), makeGather(1, 40, 100),
                 makeGather(3, 40, 100), makeReduction(2, 60, 100),
                 makeReduction(3, 60, 100)};
  p.transfers[1].lastUse = 2;
  for (Id t : {3, 4}) {
    FloatingOp update;
    update.work = 10;
    update.after.push_back(t);
    p.floating.push_back(update);
  }
  return p;
}

/// Transfers in the order of their numbers, each behind @place ops of @line,
/// waited for at the end.
inline Schedule makeOrder(const ScheduleProblem &p, std::vector<LineOp> line,
                          std::vector<Id> place) {
  Schedule s;
  s.line = std::move(line);
  s.place = std::move(place);
  s.known.assign(p.transfers.size(), s.line.size());
  s.after.resize(p.transfers.size());
  s.placeCause.assign(p.transfers.size(), Cause::Data);
  for (size_t t = 0; t != p.transfers.size(); ++t)
    s.issue.push_back(t);
  return s;
}

} // namespace mlir::fsdp::sched::test

#endif // FSDP_TEST_SCHEDULE_SMALLPROBLEMS_H
