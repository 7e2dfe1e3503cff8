//===- SmallPrograms.h - Steps to count by hand -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_SCHEDULE_SMALLPROGRAMS_H
#define FSDP_TEST_SCHEDULE_SMALLPROGRAMS_H

#include "fsdp/Schedule/StepProgram.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace mlir::fsdp::sched::test {

/// Writes programs op by op; collectives wait at once.
class ProgramBuilder {
public:
  StepProgram program;

  ProgramBuilder() {
    program.groups.push_back({4, 1});
    program.units = {"unit"};
    program.worldSize = 4;
  }

  /// A value in a buffer of its own.
  Id value(int64_t bytes, Purpose purpose = Purpose::Activations,
           bool isArgument = false) {
    StepBuffer buffer;
    buffer.offset = program.arenaBytes;
    buffer.bytes = bytes;
    buffer.purpose = purpose;
    buffer.isArgument = isArgument;
    program.arenaBytes += bytes;
    program.buffers.push_back(buffer);
    program.values.push_back(
        {Id(program.buffers.size()) - 1, buffer.offset, bytes, isArgument, {}});
    return program.values.size() - 1;
  }
  Id argument(int64_t bytes) { return value(bytes, Purpose::Parameters, true); }
  /// A value in the place of another.
  Id over(Id other) {
    program.values.push_back(program.values[other]);
    return program.values.size() - 1;
  }
  void launch(std::string name, llvm::ArrayRef<Id> reads,
              llvm::ArrayRef<Id> writes, bool backward = false) {
    KernelCost kernel;
    kernel.name = name;
    program.kernels.push_back(kernel);
    StepOp &op = add(StepOpKind::Launch, std::move(name), reads, writes);
    op.kernel = program.kernels.size() - 1;
    op.backward = backward;
  }
  void collective(TransferKind kind, Queue queue, Id input, Id result,
                  bool backward = false) {
    StepTransfer transfer;
    transfer.kind = kind;
    transfer.group = 0;
    transfer.atomBytes = {
        std::max(program.values[input].bytes, program.values[result].bytes)};
    program.transfers.push_back(transfer);
    StepOp &start =
        add(StepOpKind::Start, kTransferKindNames[unsigned(kind)].str(),
            {input}, {result});
    start.queue = queue;
    start.transfer = program.transfers.size() - 1;
    start.event = events;
    start.backward = backward;
    add(StepOpKind::Wait, "wait", {}, {}).event = events++;
  }
  void gather(Id input, Id result, bool backward = false) {
    collective(TransferKind::AllGather, Queue::AllGather, input, result,
               backward);
  }
  void scatter(Id input, Id result) {
    collective(TransferKind::ReduceScatter, Queue::Reduce, input, result, true);
  }
  void reduce(Id input, Id result) {
    collective(TransferKind::AllReduce, Queue::AllReduce, input, result, true);
  }

private:
  StepOp &add(StepOpKind kind, std::string name, llvm::ArrayRef<Id> reads,
              llvm::ArrayRef<Id> writes) {
    StepOp &op = program.ops.emplace_back();
    op.kind = kind;
    op.name = std::move(name);
    op.source = program.ops.size() - 1;
    for (Id v : reads)
      op.reads.push_back(
          {v, program.values[v].offset, program.values[v].bytes});
    for (Id v : writes)
      op.writes.push_back(
          {v, program.values[v].offset, program.values[v].bytes});
    return op;
  }

  Id events = 0;
};

/// Two units, as L2 has them. The second is gathered through a cast; both
/// updates read what the optimizer makes of its counter; the norm of all
/// gradients is summed over ranks, and `clip` decides whether updates need it.
inline StepProgram makeTwoUnitStep(bool clip = false) {
  ProgramBuilder b;
  Id p0 = b.argument(100), p1 = b.argument(100), count = b.argument(4),
     x = b.argument(50);
  Id w0 = b.value(400, Purpose::Gathered), a0 = b.value(60);
  b.gather(p0, w0);
  b.launch("f0", {x, w0}, {a0});
  Id c1 = b.value(50), w1 = b.value(200, Purpose::Gathered), a1 = b.value(60);
  b.launch("cast", {p1}, {c1});
  b.gather(c1, w1);
  b.launch("f1", {a0, w1}, {a1});
  Id g1 = b.value(400, Purpose::Gradients), d1 = b.value(60);
  b.launch("b1", {a1, a0, w1}, {g1, d1}, true);
  Id s1 = b.value(100, Purpose::Gradients), n1 = b.value(4);
  b.scatter(g1, s1);
  b.launch("norm1", {s1}, {n1}, true);
  Id scale = b.value(4), count2 = b.over(count);
  if (!clip) {
    b.launch("count", {count}, {scale, count2}, true);
    b.launch("update1", {s1, p1, scale}, {b.over(p1)}, true);
  }
  Id w0b = b.value(400, Purpose::Gathered),
     g0 = b.value(400, Purpose::Gradients);
  b.gather(p0, w0b, true);
  b.launch("b0", {d1, w0b, x}, {g0}, true);
  Id s0 = b.value(100, Purpose::Gradients), n0 = b.value(4), n = b.value(4),
     sum = b.value(4);
  b.scatter(g0, s0);
  b.launch("norm0", {s0}, {n0}, true);
  if (!clip)
    b.launch("update0", {s0, p0, scale}, {b.over(p0)}, true);
  b.launch("norm", {n0, n1}, {n}, true);
  b.reduce(n, sum);
  if (clip) {
    b.launch("update1", {s1, p1, sum}, {b.over(p1)}, true);
    b.launch("update0", {s0, p0, sum}, {b.over(p0)}, true);
  } else {
    b.launch("root", {sum}, {b.value(4)}, true);
  }
  return b.program;
}

} // namespace mlir::fsdp::sched::test

#endif // FSDP_TEST_SCHEDULE_SMALLPROGRAMS_H
