//===- PlacedProgram.h - Programs with places and events --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_SCHEDULE_PLACEDPROGRAM_H
#define FSDP_TEST_SCHEDULE_PLACEDPROGRAM_H

#include "fsdp/Schedule/StepProgram.h"

#include <algorithm>
#include <vector>

namespace mlir::fsdp::sched::test {

/// What places and sizes of values are multiples of, in bytes.
constexpr int64_t kGranule = 8;

/// Writes a program op by op: starts and waits stand apart, values lie where
/// the test says. On a mesh of 2 x 2: what is summed up in place is summed up
/// along the outer axis, all else goes along the inner one.
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
  bool isHost(Id value) const {
    return p.buffers[p.values[value].buffer].isHost;
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
  /// @inPlace: places in @reads and @writes of what may be one range; where it
  /// is not, the result starts as a copy.
  void addLaunch(const char *name, const std::vector<Id> &reads,
                 const std::vector<Id> &writes,
                 const std::vector<std::pair<Id, Id>> &inPlace = {}) {
    StepOp &op = add(name, StepOpKind::Launch);
    op.kernel = 0;
    op.inPlace.assign(inPlace.begin(), inPlace.end());
    access(op, reads, writes);
    for (auto [read, write] : inPlace)
      if (op.reads[read].offset != op.writes[write].offset)
        op.copiedBytes += 2 * op.writes[write].bytes;
  }
  /// @parts, each at its byte of @offsets in @pack.
  void addPack(const char *name, const std::vector<Id> &parts,
               const std::vector<int64_t> &offsets, Id pack) {
    StepOp &op = add(name, StepOpKind::Copy);
    access(op, parts, {pack});
    for (int64_t offset : offsets)
      op.places.push_back(p.values[pack].offset + offset);
    findParts();
  }
  void addStart(const char *name, Queue queue, TransferKind kind, Id event,
                Id read, Id write) {
    addStart(name, queue, kind, event, std::vector<Id>{read},
             std::vector<Id>{write});
  }
  /// Transfer i brings writes[i] from reads[i].
  void addStart(const char *name, Queue queue, TransferKind kind, Id event,
                const std::vector<Id> &reads, const std::vector<Id> &writes) {
    StepOp &op = add(name, StepOpKind::Start);
    op.queue = queue;
    op.event = event;
    op.transfer = p.transfers.size();
    StepTransfer &transfer = p.transfers.emplace_back();
    transfer.kind = kind;
    transfer.group = transfer.isCopy()                 ? -1
                     : kind == TransferKind::AllReduce ? 1
                                                       : 0;
    for (size_t i = 0; i != reads.size(); ++i) {
      transfer.atomBytes.push_back(
          std::max(p.values[reads[i]].bytes, p.values[writes[i]].bytes));
      transfer.dtypes.push_back("f32");
      transfer.divisors.push_back(kind == TransferKind::AllReduce ? 4 : 1);
      if (kind == TransferKind::AllReduce)
        op.inPlace.push_back({Id(i), Id(i)});
    }
    access(op, reads, writes);
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
      int64_t old = op.writes.empty() ? 0 : op.writes.front().offset;
      move(op.writes);
      for (int64_t &place : op.places)
        place += op.writes.front().offset - old;
    }
    move(p.results);
    findParts();
  }
  /// What lies in its place in a pack is part of it, as where steps are
  /// extracted from their IR.
  void findParts() {
    for (const StepOp &op : p.ops) {
      if (op.places.empty())
        continue;
      StepValue &pack = p.values[op.writes.front().value];
      pack.parts.clear();
      int64_t at = pack.offset;
      for (size_t i = 0; i != op.places.size(); ++i) {
        const ByteRange &part = op.reads[i];
        if (part.offset != op.places[i] || part.offset < at ||
            part.end() > pack.offset + pack.bytes ||
            part.value >= op.writes.front().value || isHost(part.value))
          continue;
        pack.parts.push_back(part);
        at = part.end();
      }
    }
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
