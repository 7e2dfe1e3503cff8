//===- Recomputation.cpp - What backward computes again -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/Recomputation.h"
#include "fsdp/Planning/MinCut.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

static bool isForwardCompute(const StepOp &op) {
  return !op.backward &&
         (op.kind == StepOpKind::Launch || op.kind == StepOpKind::Copy);
}

//===----------------------------------------------------------------------===//
// Stretches
//===----------------------------------------------------------------------===//

/// By op the bytes that forward has made before it and still reads at or behind
/// it; what it gathered apart.
static std::vector<int64_t> getHandedOn(const StepProgram &program) {
  std::vector<Id> made(program.values.size(), -1),
      read(program.values.size(), -1);
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    if (!isForwardCompute(op))
      continue;
    for (const ByteRange &range : op.reads)
      read[range.value] = i;
    for (const ByteRange &range : op.writes)
      if (made[range.value] < 0)
        made[range.value] = i;
  }
  std::vector<int64_t> bytes(program.ops.size() + 1);
  for (auto [v, value] : llvm::enumerate(program.values))
    if (made[v] >= 0 && read[v] > made[v]) {
      bytes[made[v] + 1] += value.bytes;
      bytes[read[v] + 1] -= value.bytes;
    }
  for (size_t i = 1; i != bytes.size(); ++i)
    bytes[i] += bytes[i - 1];
  return bytes;
}

std::vector<Id> mlir::fsdp::sched::getStretches(const StepProgram &program,
                                                const TimedProgram &times) {
  // By op of forward's compute: the time before it.
  std::vector<Id> ops;
  std::vector<Time> before;
  Time total = 0;
  int gathers = 0;
  std::vector<Id> maker = getMakers(program);
  auto isGather = [](const StepOp &op) {
    return op.kind == StepOpKind::Start && op.queue == Queue::AllGather;
  };
  // Of units: that of a secondary shard's whole is a part of one.
  auto isOfUnit = [&](const ByteRange &range) {
    return maker[range.value] < 0 || !isGather(program.ops[maker[range.value]]);
  };
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    gathers += !op.backward && isGather(op) && llvm::all_of(op.reads, isOfUnit);
    if (!isForwardCompute(op))
      continue;
    ops.push_back(i);
    before.push_back(total);
    total += times.ops[i].work;
  }
  std::vector<Id> stretch(program.ops.size(), -1);
  if (ops.empty())
    return stretch;
  int count = gathers >= 4 ? gathers : int(std::sqrt(double(ops.size())));
  count = std::max(count, 1);
  std::vector<int64_t> handedOn = getHandedOn(program);
  Id current = 0;
  size_t begin = 0;
  Time length = total / count;
  while (begin != ops.size()) {
    // The narrowest place from half to one and a half of the length; of
    // equally narrow ones that nearest to it.
    size_t end = ops.size();
    if (total - before[begin] > length + length / 2) {
      auto rank = [&](size_t i) {
        Time off = std::abs(before[i] - before[begin] - length);
        return std::make_pair(handedOn[ops[i]], off);
      };
      for (size_t i = begin + 1; i != ops.size(); ++i) {
        Time taken = before[i] - before[begin];
        if (taken < length / 2)
          continue;
        if (end != ops.size() && taken > length + length / 2)
          break;
        if (end == ops.size() || rank(i) < rank(end))
          end = i;
      }
    }
    for (size_t i = begin; i != end; ++i)
      stretch[ops[i]] = current;
    begin = end;
    ++current;
  }
  return stretch;
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

Recomputation::Recomputation(const StepProgram &program,
                             const TimedProgram &times, const PlanChoices &from)
    : program(program), times(times), choices(from), maker(getMakers(program)),
      stretch(getStretches(program, times)), isNeeded(program.values.size()),
      isHandedOn(program.values.size()) {
  Id last = -1;
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    last = std::max(last, stretch[i]);
    for (const ByteRange &range : op.reads) {
      Id from = maker[range.value];
      if (from < 0)
        continue;
      if (op.backward)
        isNeeded[range.value] = true;
      else if (stretch[i] != stretch[from])
        isHandedOn[range.value] = true;
    }
  }
  // What only backward reads is computed there instead, not again.
  isMoved.assign(program.ops.size(), true);
  for (const StepOp &op : program.ops)
    if (!op.backward)
      for (const ByteRange &range : op.reads)
        if (maker[range.value] >= 0)
          isMoved[maker[range.value]] = false;
  // The last stretch is where backward begins: what it makes is there anyway.
  for (size_t i = 0; i != program.ops.size(); ++i)
    if (stretch[i] < 0 || stretch[i] == last)
      choices.canRecompute[i] = false;
}

Recomputation::Choice Recomputation::choose(const KeepPrices &prices) const {
  // On the source's side: a value that backward needs; a launch that is
  // repeated. Keeping a value costs where the value is needed and its launch is
  // not repeated.
  MinCut graph;
  std::vector<int> needed(program.values.size(), -1),
      repeated(program.ops.size(), -1);
  auto getBytesCost = [&](Id value) {
    const StepBuffer &buffer = program.buffers[program.values[value].buffer];
    if (buffer.isArgument || buffer.isResult)
      return 0.0;
    return prices.perByte * double(program.values[value].bytes);
  };
  auto isElsewhere = [&](Id value) {
    return !prices.elsewhere.empty() && prices.elsewhere[value] >= 0 &&
           prices.elsewhere[value] < getBytesCost(value);
  };
  auto getCost = [&](Id value) -> int64_t {
    double least =
        isElsewhere(value) ? prices.elsewhere[value] : getBytesCost(value);
    return std::llround(std::min(least, 1e15));
  };
  auto isOfForward = [&](Id value) {
    return maker[value] >= 0 && stretch[maker[value]] >= 0;
  };
  // What other stretches read must be there for those of them that are
  // repeated, before this one would be.
  auto isKept = [&](Id value) {
    return repeated[maker[value]] < 0 || isHandedOn[value];
  };
  for (size_t i = 0; i != program.ops.size(); ++i)
    if (choices.canRecompute[i] && prices.mayRecompute) {
      repeated[i] = graph.addNode();
      graph.addEdge(repeated[i], MinCut::kSink,
                    isMoved[i] ? 1 : std::max<Time>(times.ops[i].work, 1));
    }
  for (size_t v = 0; v != program.values.size(); ++v) {
    if (!isOfForward(v))
      continue;
    needed[v] = graph.addNode();
    if (isNeeded[v])
      graph.addEdge(MinCut::kSource, needed[v], MinCut::kInfinite);
    graph.addEdge(needed[v], isKept(v) ? MinCut::kSink : repeated[maker[v]],
                  getCost(v));
  }
  for (size_t i = 0; i != program.ops.size(); ++i)
    if (repeated[i] >= 0)
      for (const ByteRange &range : program.ops[i].reads)
        if (needed[range.value] >= 0)
          graph.addEdge(repeated[i], needed[range.value], MinCut::kInfinite);
  std::vector<bool> side = graph.solve();
  Choice choice;
  choice.recompute.resize(program.values.size());
  choice.offload.resize(program.values.size());
  for (size_t v = 0; v != program.values.size(); ++v) {
    if (needed[v] < 0 || !side[needed[v]])
      continue;
    choice.recompute[v] = !isKept(v) && side[repeated[maker[v]]];
    choice.offload[v] = !choice.recompute[v] && isElsewhere(v);
  }
  return choice;
}
