//===- PlacedProgram.h - Programs with places and events --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_SCHEDULE_PLACEDPROGRAM_H
#define FSDP_TEST_SCHEDULE_PLACEDPROGRAM_H

#include "fsdp/Analysis/Schedule/StepProgram.h"

#include <vector>

namespace mlir::fsdp::sched::test {

/// Writes a program op by op: starts and waits stand apart, values lie where
/// the test says.
struct PlacedProgram {
  StepProgram p;

  PlacedProgram() {
    p.groups = {{2, 1}, {2, 2}};
    p.kernels.resize(1);
  }

  Id addValue(int64_t offset, int64_t bytes, bool isArgument = false) {
    StepBuffer buffer;
    buffer.offset = offset;
    buffer.bytes = bytes;
    buffer.isArgument = isArgument;
    p.buffers.push_back(buffer);
    p.values.push_back(
        {Id(p.buffers.size()) - 1, offset, bytes, isArgument, {}});
    return p.values.size() - 1;
  }
  Id addHostValue(int64_t offset, int64_t bytes) {
    Id value = addValue(offset, bytes);
    p.buffers.back().isHost = true;
    return value;
  }
  ByteRange range(Id value) const {
    return {value, p.values[value].offset, p.values[value].bytes};
  }
  void access(StepOp &op, const std::vector<Id> &reads,
              const std::vector<Id> &writes) {
    for (Id value : reads)
      op.reads.push_back(range(value));
    for (Id value : writes)
      op.writes.push_back(range(value));
  }
  /// @inPlace: places in @reads and @writes of what may be one range.
  void addLaunch(const char *name, const std::vector<Id> &reads,
                 const std::vector<Id> &writes,
                 const std::vector<std::pair<Id, Id>> &inPlace = {}) {
    StepOp &op = add(name, StepOpKind::Launch);
    op.kernel = 0;
    op.inPlace.assign(inPlace.begin(), inPlace.end());
    access(op, reads, writes);
  }
  void addStart(const char *name, Queue queue, TransferKind kind, Id event,
                Id read, Id write) {
    StepOp &op = add(name, StepOpKind::Start);
    op.queue = queue;
    op.event = event;
    op.transfer = p.transfers.size();
    p.transfers.push_back({kind, {16}, 0});
    if (p.transfers.back().isCopy())
      p.transfers.back().group = -1;
    if (kind == TransferKind::AllReduce)
      op.inPlace = {{0, 0}};
    access(op, {read}, {write});
  }
  void addWait(Id event) { add("wait", StepOpKind::Wait).event = event; }

  /// Value @value lies elsewhere, for all that touches it.
  void place(Id value, int64_t offset) {
    p.values[value].offset = offset;
    auto move = [&](auto &ranges) {
      for (ByteRange &range : ranges)
        if (range.value == value)
          range.offset = offset;
    };
    for (StepOp &op : p.ops) {
      move(op.reads);
      move(op.writes);
    }
    move(p.results);
  }

private:
  StepOp &add(const char *name, StepOpKind kind) {
    StepOp &op = p.ops.emplace_back();
    op.name = name;
    op.kind = kind;
    return op;
  }
};

} // namespace mlir::fsdp::sched::test

#endif // FSDP_TEST_SCHEDULE_PLACEDPROGRAM_H
