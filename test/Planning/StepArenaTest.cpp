//===- StepArenaTest.cpp - Where the values of a step lie -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Arena/StepArena.h"
#include "fsdp/Arena/SharedBuffers.h"

#include "gtest/gtest.h"

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {

/// Writes a program op by op, each value in a buffer of its own.
struct Writer {
  StepProgram p;
  Id events = 0;

  Writer() {
    p.kernels.resize(1);
    p.groups = {{2, 1}};
  }

  Id value(int64_t bytes, bool isArgument = false, bool isHost = false) {
    StepBuffer buffer;
    buffer.offset = (isHost ? p.hostBytes : p.arenaBytes);
    buffer.bytes = bytes;
    buffer.isArgument = isArgument;
    buffer.isHost = isHost;
    (isHost ? p.hostBytes : p.arenaBytes) += bytes;
    p.buffers.push_back(buffer);
    p.values.push_back(
        {Id(p.buffers.size()) - 1, buffer.offset, bytes, isArgument, {}});
    return p.values.size() - 1;
  }
  ByteRange range(Id value) const {
    return {value, p.values[value].offset, p.values[value].bytes};
  }
  StepOp &add(StepOpKind kind, std::vector<Id> reads, std::vector<Id> writes) {
    StepOp &op = p.ops.emplace_back();
    op.kind = kind;
    op.source = p.ops.size() - 1;
    for (Id value : reads)
      op.reads.push_back(range(value));
    for (Id value : writes)
      op.writes.push_back(range(value));
    return op;
  }
  /// @tied: its result goes over its first operand, if that can be.
  void launch(std::vector<Id> reads, std::vector<Id> writes,
              bool tied = false) {
    StepOp &op = add(StepOpKind::Launch, std::move(reads), std::move(writes));
    op.kernel = 0;
    if (tied)
      op.inPlace.push_back({0, 0});
  }
  void pack(std::vector<Id> parts, Id result) {
    StepOp &op = add(StepOpKind::Copy, std::move(parts), {result});
    int64_t place = op.writes[0].offset;
    for (const ByteRange &part : op.reads) {
      op.places.push_back(place);
      place += part.bytes;
    }
  }
  Id start(Queue queue, Id input, Id result) {
    StepOp &op = add(StepOpKind::Start, {input}, {result});
    op.queue = queue;
    op.event = events;
    op.transfer = p.transfers.size();
    StepTransfer &transfer = p.transfers.emplace_back();
    transfer.kind = queue == Queue::AllReduce ? TransferKind::AllReduce
                    : queue == Queue::D2H     ? TransferKind::Offload
                    : queue == Queue::H2D     ? TransferKind::Reload
                                              : TransferKind::AllGather;
    if (!transfer.isCopy())
      transfer.group = 0;
    if (queue == Queue::AllReduce)
      op.inPlace.push_back({0, 0});
    return events++;
  }
  void wait(Id event) { add(StepOpKind::Wait, {}, {}).event = event; }
  void replace(Id argument, Id result) {
    p.replaced.push_back({Id(p.results.size()), argument, range(result)});
    p.results.push_back(range(result));
  }

  void share() {
    shareBuffers(p);
    EXPECT_EQ(checkProgram(p), "");
    // Once more changes nothing.
    StepProgram again = p;
    shareBuffers(again);
    ASSERT_EQ(again.ops.size(), p.ops.size());
    for (size_t i = 0; i != p.ops.size(); ++i) {
      EXPECT_EQ(again.ops[i].copiedBytes, p.ops[i].copiedBytes);
      for (size_t r = 0; r != p.ops[i].writes.size(); ++r)
        EXPECT_EQ(again.ops[i].writes[r].offset, p.ops[i].writes[r].offset);
    }
  }
  int64_t place() {
    ArenaSummary summary = placeBuffers(p);
    EXPECT_EQ(checkProgram(p), "");
    EXPECT_EQ(summary.totalBytes, p.arenaBytes);
    return summary.totalBytes;
  }
  bool areOne(Id a, Id b) const {
    return p.values[a].buffer == p.values[b].buffer;
  }
};

TEST(StepArena, AResultGoesOverItsTiedOperandWhereNothingReadsItLater) {
  for (bool isReadLater : {false, true}) {
    Writer w;
    Id x = w.value(1024), y = w.value(1024), z = w.value(256);
    w.launch({}, {x});
    w.launch({x}, {y}, /*tied=*/true);
    w.launch({y, isReadLater ? x : y}, {z});
    w.p.results.push_back(w.range(z));
    w.share();
    EXPECT_EQ(w.areOne(x, y), !isReadLater);
    EXPECT_EQ(w.p.ops[1].copiedBytes, isReadLater ? 2048 : 0);
    EXPECT_EQ(w.place(), isReadLater ? 1024 + 1024 + 256 : 1024 + 256);
  }
}

TEST(StepArena, AnArgumentThatNothingReplacesStaysAsItIs) {
  Writer w;
  Id x = w.value(1000, /*isArgument=*/true), y = w.value(1000);
  w.launch({x}, {y}, /*tied=*/true);
  w.p.results.push_back(w.range(y));
  w.share();
  EXPECT_FALSE(w.areOne(x, y));
  EXPECT_EQ(w.p.ops[0].copiedBytes, 2000);
  // Sizes are rounded up to places.
  EXPECT_EQ(w.place(), 2 * 1024);
}

TEST(StepArena, PartsAreComputedInTheFirstPackThatTheyAreOf) {
  Writer w;
  Id argument = w.value(256, /*isArgument=*/true);
  Id part = w.value(512), first = w.value(768), second = w.value(512);
  w.launch({argument}, {part});
  w.pack({part, argument}, first);
  w.pack({part}, second);
  w.p.results = {w.range(first), w.range(second)};
  w.share();
  EXPECT_TRUE(w.areOne(part, first));
  EXPECT_EQ(w.p.values[first].parts.size(), 1u);
  // The argument, and the part that lies in the other one.
  EXPECT_EQ(w.p.ops[1].copiedBytes, 2 * 256);
  EXPECT_EQ(w.p.ops[2].copiedBytes, 2 * 512);
  EXPECT_EQ(w.place(), 256 + 768 + 512);
}

TEST(StepArena, AChainOfTiedResultsLiesWhereThePackWantsTheLast) {
  Writer w;
  Id zero = w.value(512), sum = w.value(512), other = w.value(256);
  Id pack = w.value(768);
  w.launch({}, {zero});
  w.launch({zero}, {sum}, /*tied=*/true);
  w.launch({}, {other});
  w.pack({other, sum}, pack);
  w.p.results.push_back(w.range(pack));
  w.share();
  EXPECT_TRUE(w.areOne(zero, pack));
  EXPECT_EQ(w.p.ops[3].copiedBytes, 0);
  EXPECT_EQ(w.p.values[sum].offset, w.p.values[pack].offset + 256);
  EXPECT_EQ(w.place(), 768);
}

TEST(StepArena, AnAllReduceGoesOverItsInputUnlessComputeReadsThatMeanwhile) {
  for (bool isRead : {false, true}) {
    Writer w;
    Id x = w.value(1024), y = w.value(1024), z = w.value(256);
    w.launch({}, {x});
    Id event = w.start(Queue::AllReduce, x, y);
    w.launch({isRead ? x : z}, {z});
    if (!isRead)
      w.p.ops.back().reads.clear();
    w.wait(event);
    w.p.results = {w.range(y), w.range(z)};
    w.share();
    EXPECT_EQ(w.areOne(x, y), !isRead);
    EXPECT_EQ(w.place(), (isRead ? 2048 : 1024) + 256);
  }
}

TEST(StepArena, ANewStateGoesOverTheOldOneOrIsCopiedThereAtTheEnd) {
  for (bool isReadLater : {false, true}) {
    Writer w;
    Id state = w.value(1024, /*isArgument=*/true), next = w.value(1024);
    Id x = w.value(256), loss = w.value(256);
    w.launch({state}, {x});
    w.launch({x}, {next});
    w.launch({x, isReadLater ? state : x}, {loss});
    w.replace(state, next);
    w.p.results.push_back(w.range(loss));
    w.share();
    EXPECT_EQ(w.areOne(state, next), !isReadLater);
    ASSERT_EQ(w.p.ops.size(), isReadLater ? 4u : 3u);
    if (isReadLater) {
      EXPECT_EQ(w.p.ops[3].replaces, 0);
      EXPECT_EQ(w.p.ops[3].copiedBytes, 2048);
      EXPECT_EQ(w.p.ops[3].reads[0].value, next);
      // In another order it could go there: the copy is dropped.
      std::swap(w.p.ops[1], w.p.ops[2]);
      w.share();
      EXPECT_EQ(w.p.ops.size(), 3u);
      EXPECT_EQ(w.p.results[0].value, next);
    }
    EXPECT_TRUE(w.areOne(state, w.p.results[0].value));
  }
}

TEST(StepArena, WhatIsOnTheHostTakesNothingOfTheDevice) {
  Writer w;
  Id x = w.value(2048), host = w.value(2048, false, /*isHost=*/true);
  Id big = w.value(4096), again = w.value(2048), last = w.value(256);
  w.launch({}, {x});
  w.wait(w.start(Queue::D2H, x, host));
  w.launch({}, {big});
  w.launch({big}, {last});
  w.wait(w.start(Queue::H2D, host, again));
  w.launch({again, last}, {last});
  w.p.results.push_back(w.range(last));
  w.share();
  EXPECT_EQ(w.place(), 4096 + 256);
  EXPECT_EQ(w.p.hostBytes, 2048);
}

TEST(StepArena, WhatAPlanDroppedTakesNoRoom) {
  Writer w;
  Id x = w.value(256);
  w.value(1 << 20);
  w.launch({}, {x});
  w.p.results.push_back(w.range(x));
  w.share();
  EXPECT_EQ(w.place(), 256);
}

TEST(StepArena, BordersLieBehindEachBuffer) {
  Writer w;
  Id x = w.value(256, /*isArgument=*/true), y = w.value(100);
  w.launch({x}, {y});
  w.p.results.push_back(w.range(y));
  w.share();
  EXPECT_EQ(placeBuffers(w.p, {/*isDraft=*/false, /*border=*/256}).totalBytes,
            4 * 256);
}

} // namespace
