//===- TimelineTest.cpp - The engine, and what it says of programs --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Schedule/Timeline.h"
#include "ConstantCost.h"
#include "SmallPrograms.h"

#include "gtest/gtest.h"

#include <numeric>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::test;

static TimedOp compute(Time work) {
  TimedOp op;
  op.work = work;
  return op;
}
static TimedOp start(Queue queue, Time latency, Time work, Id link = 0) {
  TimedOp op;
  op.kind = TimedOp::Start;
  op.queue = queue;
  op.cost = {latency, work, link};
  return op;
}
static TimedOp wait(Id start) {
  TimedOp op;
  op.kind = TimedOp::Wait;
  op.start = start;
  return op;
}

TEST(Timeline, synchronousProgramExposesEverything) {
  ConstantCost cost;
  cost.kernelTime = 100;
  cost.transferCost = {10, 90, Link::Intra};
  StepProgram program = makeTwoUnitStep();
  Timeline timeline = play(addTimes(program, cost, {GroupPlacement()}));
  // 12 kernels and 6 collectives, one after the other.
  EXPECT_EQ(timeline.compute, 1200);
  EXPECT_EQ(timeline.exposed, 600);
  EXPECT_EQ(timeline.step, 1800);
  for (size_t i = 0; i != program.ops.size(); ++i)
    EXPECT_EQ(timeline.exposedBy[i],
              program.ops[i].kind == StepOpKind::Start ? 100 : 0);
  EXPECT_EQ(timeline.spans[0].why, Blocker::None);
  EXPECT_EQ(timeline.spans[1].why, Blocker::Wait);
  EXPECT_EQ(timeline.spans[1].blocker, 0);
}

TEST(Timeline, aStartBehindAWaitWaitsForIt) {
  TimedProgram program;
  program.ops = {start(Queue::Reduce, 0, 50), wait(0),
                 start(Queue::AllReduce, 0, 30, 1), wait(2), compute(10)};
  Timeline timeline = play(program);
  EXPECT_EQ(timeline.spans[2].begin, 50);
  EXPECT_EQ(timeline.spans[2].why, Blocker::Order);
  EXPECT_EQ(timeline.spans[2].blocker, 0);
  EXPECT_EQ(timeline.step, 90);
  EXPECT_EQ(timeline.exposedBy, (std::vector<Time>{50, 0, 30, 0, 0}));
}

TEST(Timeline, onAnotherLinkItIsMemoryThatAStartComesAfter) {
  for (Id link : {0, 1}) {
    TimedOp second = start(Queue::D2H, 0, 30, link);
    second.after = {0};
    TimedProgram program;
    program.ops = {start(Queue::Reduce, 0, 50), second, compute(10), wait(0),
                   wait(1)};
    Timeline timeline = play(program);
    EXPECT_EQ(timeline.spans[1].begin, 50);
    EXPECT_EQ(timeline.spans[1].why, link ? Blocker::Memory : Blocker::Link);
    EXPECT_EQ(timeline.spans[1].blocker, 0);
  }
}

TEST(Timeline, aStartBeforeAWaitDoesNot) {
  TimedProgram program;
  program.ops = {start(Queue::Reduce, 0, 50), start(Queue::AllReduce, 0, 30, 1),
                 wait(0), wait(1), compute(10)};
  Timeline timeline = play(program);
  EXPECT_EQ(timeline.spans[1].begin, 0);
  EXPECT_EQ(timeline.step, 60);
  // The one that came last.
  EXPECT_EQ(timeline.exposedBy, (std::vector<Time>{50, 0, 0, 0, 0}));
}

TEST(Timeline, collectivesThatKeepTheProgramsOrder) {
  TimedOp second = start(Queue::Reduce, 0, 30, 1);
  second.previous = 0;
  TimedProgram program;
  program.ops = {start(Queue::AllGather, 0, 50), second, compute(10), wait(1),
                 wait(0)};
  Timeline timeline = play(program);
  EXPECT_EQ(timeline.spans[1].begin, 50);
  EXPECT_EQ(timeline.spans[1].why, Blocker::Queue);
  EXPECT_EQ(timeline.spans[1].blocker, 0);
  EXPECT_EQ(timeline.step, 80);
  EXPECT_EQ(timeline.exposed, 70);
}

TEST(Timeline, graphsKeepTheOrderOfCollectives) {
  struct NcclCost : ConstantCost {
    bool ordersCollectives() const override { return true; }
  };
  ConstantCost memory;
  NcclCost nccl;
  StepProgram program = makeTwoUnitStep();
  for (const TimedOp &op : addTimes(program, nccl, {GroupPlacement()}).ops)
    EXPECT_EQ(op.previous, -1);
  program.isGraph = true;
  for (const TimedOp &op : addTimes(program, memory, {GroupPlacement()}).ops)
    EXPECT_EQ(op.previous, -1);
  Id last = -1, collectives = 0;
  TimedProgram times = addTimes(program, nccl, {GroupPlacement()});
  for (auto [i, op] : llvm::enumerate(times.ops)) {
    if (op.kind != TimedOp::Start)
      continue;
    EXPECT_EQ(op.previous, last);
    last = i;
    ++collectives;
  }
  EXPECT_EQ(collectives, 6);
}

TEST(Timeline, whatSlowsComputeIsSaidApart) {
  ConstantCost cost;
  cost.computeLoss = 512;
  TimedProgram program;
  program.cost = &cost;
  program.ops = {start(Queue::AllGather, 0, 100), compute(80), wait(0),
                 compute(10)};
  Timeline timeline = play(program);
  // 100 at half speed, and 30 more: the gather is over before.
  EXPECT_EQ(timeline.step, 140);
  EXPECT_EQ(timeline.exposed, 50);
  EXPECT_EQ(timeline.exposedBy[0], 50);
  EXPECT_EQ(timeline.slowedBy[0], 50);
}

TEST(Timeline, memoryIsHeldFromWriterToLastReader) {
  ConstantCost cost;
  cost.kernelTime = 100;
  cost.transferCost = {0, 100, Link::Intra};
  StepProgram program = makeTwoUnitStep();
  Timeline timeline = play(addTimes(program, cost, {GroupPlacement()}));
  std::vector<MemoryPoint> memory = getMemory(program, timeline);
  auto at = [&](Time time, Purpose purpose) {
    int64_t bytes = 0;
    for (const MemoryPoint &point : memory)
      if (point.time <= time)
        bytes = point.bytes[unsigned(purpose)];
    return bytes;
  };
  // The first gather, f0, the cast, the second gather, f1, b1.
  EXPECT_EQ(at(50, Purpose::Gathered), 400);
  EXPECT_EQ(at(250, Purpose::Gathered), 0);
  EXPECT_EQ(at(250, Purpose::Activations), 60 + 50);
  EXPECT_EQ(at(350, Purpose::Gathered), 200);
  EXPECT_EQ(at(450, Purpose::Activations), 60 + 60);
  EXPECT_EQ(at(550, Purpose::Gradients), 400);
  EXPECT_EQ(at(0, Purpose::Parameters), 254);
  EXPECT_EQ(at(timeline.step - 1, Purpose::Parameters), 254);
  MemoryPoint peak = getMemoryPeak(memory);
  for (const MemoryPoint &point : memory)
    EXPECT_LE(point.getTotal(), peak.getTotal());
}

TEST(Timeline, memoryOfTheHostCountsApart) {
  // Two values on the host, of which the first is fetched before the second
  // one is stored.
  StepProgram program = makeTwoUnitStep();
  Timeline timeline =
      play(addTimes(program, ConstantCost(), {GroupPlacement()}));
  std::vector<MemoryPoint> before = getMemory(program, timeline);
  EXPECT_EQ(getHostPeak(program, timeline), 0);
  for (int64_t bytes : {1000, 300}) {
    StepBuffer buffer;
    buffer.bytes = bytes;
    buffer.isHost = true;
    program.buffers.push_back(buffer);
    program.values.push_back({Id(program.buffers.size()) - 1, 0, bytes});
    for (bool isStored : {true, false}) {
      StepOp &op = program.ops.emplace_back();
      ByteRange range{Id(program.values.size()) - 1, 0, bytes};
      if (isStored)
        op.writes.push_back(range);
      else
        op.reads.push_back(range);
      OpSpan span;
      span.begin = timeline.spans.back().end;
      span.end = span.begin + 10;
      timeline.spans.push_back(span);
    }
  }
  timeline.step = timeline.spans.back().end;
  EXPECT_EQ(getHostPeak(program, timeline), 1000);
  // The device's is as it was.
  EXPECT_EQ(getMemoryPeak(getMemory(program, timeline)).getTotal(),
            getMemoryPeak(before).getTotal());
}
