//===- ArenaPlanTest.cpp - Places in the arena ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include "fsdp/Analysis/Step/ArenaPlan.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include <gtest/gtest.h>
#include <set>

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::test;

/// A step of launches in a chain, each reading some earlier results.
static std::string makeStep(std::mt19937 &random, int launches) {
  std::string body, kernels;
  auto type = [](int64_t n) { return "tensor<" + std::to_string(n) + "xf32>"; };
  std::vector<std::pair<std::string, int64_t>> values{
      {"%x", pick(random, 1, 200)}};
  std::string argument = "%x: " + type(values[0].second);
  for (int i = 0; i != launches; ++i) {
    std::string name = "%v" + std::to_string(i), inputs, types;
    std::string kernel = "@k" + std::to_string(i);
    int64_t size = pick(random, 1, 200);
    std::set<size_t> read;
    for (int64_t j = pick(random, 1, 3); j > 0; --j)
      read.insert(random() % values.size());
    for (size_t r : read) {
      inputs += (inputs.empty() ? "" : ", ") + values[r].first;
      types += (types.empty() ? "" : ", ") + type(values[r].second);
    }
    body += "  " + name + " = fsdp.launch " + kernel + "(" + inputs + ") : (" +
            types + ") -> " + type(size) + "\n";
    kernels += "func.func private " + kernel + "(" + types + ", " + type(size) +
               ") -> " + type(size) + "\n";
    values.push_back({name, size});
  }
  auto [last, size] = values.back();
  return "fsdp.program @step(" + argument + ") -> " + type(size) + " {\n" +
         body + "  fsdp.return " + last + " : " + type(size) + "\n}\n" +
         kernels;
}

TEST(ArenaPlanTest, ValuesThatLiveTogetherLieApart) {
  TestContext context;
  for (unsigned seed = 0; seed != 60; ++seed) {
    std::mt19937 random(seed);
    std::string text = makeStep(random, pick(random, 1, 12));
    auto module = context.parse(text);
    ASSERT_TRUE(module) << text;
    auto step = module->lookupSymbol<ProgramOp>("step");
    ArenaPlan plan = *planArena(step), again = *planArena(step);
    EXPECT_EQ(plan.totalBytes, again.totalBytes);
    Block &block = step.getBody().front();
    struct Life {
      int64_t size = 0, offset = 0;
      int begin = 0, end = 0;
    };
    std::vector<Life> lives;
    auto add = [&](Value value, int begin) {
      Life buffer;
      buffer.offset = plan.offsets.lookup(value);
      EXPECT_EQ(buffer.offset, again.offsets.lookup(value));
      EXPECT_EQ(buffer.offset % kArenaAlignment, 0);
      buffer.size =
          cast<RankedTensorType>(value.getType()).getNumElements() * 4;
      EXPECT_LE(buffer.offset + buffer.size, plan.totalBytes);
      buffer.begin = buffer.end = begin;
      for (Operation *user : value.getUsers())
        buffer.end = std::max<int>(
            buffer.end, std::distance(block.begin(), user->getIterator()));
      lives.push_back(buffer);
    };
    int last = std::distance(block.begin(), block.end());
    for (BlockArgument arg : block.getArguments()) {
      add(arg, 0);
      lives.back().end = last;
    }
    for (auto [time, op] : llvm::enumerate(block))
      for (Value result : op.getResults())
        add(result, time);
    for (const Life &a : lives)
      for (const Life &b : lives)
        if (&a != &b && a.begin <= b.end && b.begin <= a.end)
          EXPECT_FALSE(a.offset < b.offset + b.size &&
                       b.offset < a.offset + a.size)
              << "seed " << seed << "\n"
              << text;
  }
}

TEST(ArenaPlanTest, SegmentsFollowEachOther) {
  TestContext context;
  std::mt19937 random(7);
  auto module = context.parse(makeStep(random, 8));
  ASSERT_TRUE(module);
  ArenaPlan plan = *planArena(module->lookupSymbol<ProgramOp>("step"));
  int64_t end = 0;
  for (unsigned i = 0; i != kSegmentNames.size(); ++i) {
    EXPECT_EQ(plan.segmentOffset[i], end);
    EXPECT_EQ(plan.segmentBytes[i] % kArenaAlignment, 0);
    end += plan.segmentBytes[i];
  }
  EXPECT_EQ(plan.totalBytes, end);
}

TEST(ArenaPlanTest, ATiedArgumentIsOverwrittenOnlyWhereItIsReplaced) {
  TestContext context;
  auto module = context.parse(R"(
    fsdp.state @a buffer "a" : tensor<64xf32> at 0
    fsdp.state @b buffer "b" : tensor<64xf32> at 256
    fsdp.program @step(%a: tensor<64xf32> {fsdp.state = @a},
                       %b: tensor<64xf32> {fsdp.state = @b})
        -> (tensor<64xf32> {fsdp.state = @a}, tensor<64xf32>) {
      %0 = fsdp.launch @k(%a) tied [0] : (tensor<64xf32>) -> tensor<64xf32>
      %1 = fsdp.launch @k(%b) tied [0] : (tensor<64xf32>) -> tensor<64xf32>
      fsdp.return %0, %1 : tensor<64xf32>, tensor<64xf32>
    }
    func.func private @k(tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  )");
  ASSERT_TRUE(module);
  auto step = module->lookupSymbol<ProgramOp>("step");
  ArenaPlan plan = *planArena(step);
  Operation *ret = step.getBody().front().getTerminator();
  EXPECT_EQ(plan.offsets.lookup(ret->getOperand(0)),
            plan.offsets.lookup(step.getArgument(0)));
  EXPECT_NE(plan.offsets.lookup(ret->getOperand(1)),
            plan.offsets.lookup(step.getArgument(1)));
}

/// A step whose gather comes behind its reduction, or beside it.
static std::string makeTransfers(bool isOrdered) {
  std::string text = R"(
    fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
    func.func private @make(tensor<128xf32>) -> tensor<128xf32>
    fsdp.program @step(%p: tensor<64xf32>) -> (tensor<64xf32>, tensor<128xf32>) {
      %a = fsdp.launch @make() : () -> tensor<128xf32>
      %s = fsdp.start(%a) on reduce event 0 {
      ^bb0(%x: tensor<128xf32>):
        %r = fsdp.reduce_scatter %x on @mesh["shard"] divisor 2 : tensor<128xf32> -> tensor<64xf32>
        fsdp.yield %r : tensor<64xf32>
      } : (tensor<128xf32>) -> !fsdp.token<tensor<64xf32>>
      %t = fsdp.start(%p) on all_gather event 1 AFTER {
      ^bb0(%x: tensor<64xf32>OTHER):
        %g = fsdp.all_gather %x on @mesh["shard"] for forward : tensor<64xf32> -> tensor<128xf32>
        fsdp.yield %g : tensor<128xf32>
      } : (tensor<64xf32>) -> !fsdp.token<tensor<128xf32>>
      %v = fsdp.wait %s : !fsdp.token<tensor<64xf32>> -> tensor<64xf32>
      %w = fsdp.wait %t : !fsdp.token<tensor<128xf32>> -> tensor<128xf32>
      fsdp.return %v, %w : tensor<64xf32>, tensor<128xf32>
    }
  )";
  auto replace = [&](StringRef from, StringRef to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("AFTER", isOrdered ? "after(%s : !fsdp.token<tensor<64xf32>>)" : "");
  replace("OTHER", isOrdered ? ", %o: tensor<64xf32>" : "");
  return text;
}

static ArenaPlan planTransfers(TestContext &context, bool isOrdered) {
  auto module = context.parse(makeTransfers(isOrdered));
  EXPECT_TRUE(module);
  if (!module)
    return ArenaPlan();
  return *planArena(module->lookupSymbol<ProgramOp>("step"));
}

TEST(ArenaPlanTest, ATransferTakesOverWhatTheOneBeforeItHasRead) {
  // 512 bytes that are sent, 256 of the result, 512 that are gathered: over
  // what was sent, if that is over.
  TestContext context;
  ArenaPlan ordered = planTransfers(context, true),
            beside = planTransfers(context, false);
  EXPECT_EQ(ordered.bound, 512 + 256);
  EXPECT_EQ(ordered.totalBytes, 256 + 512 + 256);
  EXPECT_EQ(beside.bound, 512 + 256 + 512);
  EXPECT_EQ(beside.totalBytes, 256 + 512 + 256 + 512);
}

TEST(ArenaPlanTest, WhatIsCommunicatedLiesLow) {
  TestContext context;
  auto module = context.parse(R"(
    fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
    func.func private @small(tensor<128xf32>, tensor<64xf32>) -> tensor<64xf32>
    func.func private @large(tensor<64xf32>, tensor<4096xf32>) -> tensor<4096xf32>
    func.func private @both(tensor<128xf32>, tensor<4096xf32>, tensor<64xf32>) -> tensor<64xf32>
    fsdp.program @step(%p: tensor<64xf32>) -> tensor<64xf32> {
      %g = fsdp.all_gather %p on @mesh["shard"] for forward : tensor<64xf32> -> tensor<128xf32>
      %a = fsdp.launch @small(%g) : (tensor<128xf32>) -> tensor<64xf32>
      %b = fsdp.launch @large(%a) : (tensor<64xf32>) -> tensor<4096xf32>
      %c = fsdp.launch @both(%g, %b) : (tensor<128xf32>, tensor<4096xf32>) -> tensor<64xf32>
      fsdp.return %c : tensor<64xf32>
    }
  )");
  ASSERT_TRUE(module);
  auto step = module->lookupSymbol<ProgramOp>("step");
  ArenaPlan plan = *planArena(step);
  auto gather = *step.getOps<AllGatherOp>().begin();
  int64_t offset = plan.offsets.lookup(gather.getResult());
  EXPECT_GE(offset, plan.segmentOffset[2]);
  EXPECT_LE(offset + 512, plan.segmentOffset[3]);
  // Not above the large one.
  EXPECT_LT(plan.segmentBytes[2], 4096 * 4);
  EXPECT_EQ(plan.totalBytes, 256 + plan.bound);
}

TEST(ArenaPlanTest, PurposesAddUpToTheBound) {
  TestContext context;
  for (unsigned seed = 0; seed != 20; ++seed) {
    std::mt19937 random(seed);
    auto module = context.parse(makeStep(random, 12));
    ASSERT_TRUE(module);
    ArenaPlan plan = *planArena(module->lookupSymbol<ProgramOp>("step"));
    int64_t sum = 0;
    for (int64_t bytes : plan.atPeak)
      sum += bytes;
    EXPECT_EQ(sum, plan.segmentOffset[2] + plan.bound);
    EXPECT_LE(sum, plan.totalBytes);
  }
}

TEST(ArenaPlanTest, ProgramsFindAStateInOnePlaceAndOverlayTheRest) {
  TestContext context;
  auto module = context.parse(R"(
    fsdp.state @a buffer "a" : tensor<64xf32> at 256
    fsdp.state @b buffer "b" : tensor<32xf32> at 0
    fsdp.state @c buffer "c" : tensor<100xf32> at 512
    func.func private @k(tensor<64xf32>, tensor<8xf32>, tensor<64xf32>) -> tensor<64xf32>
    func.func private @l(tensor<32xf32>, tensor<4096xf32>, tensor<32xf32>) -> tensor<32xf32>
    fsdp.program @one(%x: tensor<8xf32> {fsdp.input = {name = "x"}},
                      %a: tensor<64xf32> {fsdp.state = @a}) -> tensor<64xf32> {
      %0 = fsdp.launch @k(%a, %x) : (tensor<64xf32>, tensor<8xf32>) -> tensor<64xf32>
      fsdp.return %0 : tensor<64xf32>
    }
    fsdp.program @two(%x: tensor<4096xf32> {fsdp.input = {name = "x"}},
                      %b: tensor<32xf32> {fsdp.state = @b},
                      %a: tensor<64xf32> {fsdp.state = @a}) -> (tensor<32xf32>, tensor<64xf32> {fsdp.state = @a}) {
      %0 = fsdp.launch @l(%b, %x) : (tensor<32xf32>, tensor<4096xf32>) -> tensor<32xf32>
      fsdp.return %0, %a : tensor<32xf32>, tensor<64xf32>
    }
  )");
  ASSERT_TRUE(module);
  auto one = module->lookupSymbol<ProgramOp>("one"),
       two = module->lookupSymbol<ProgramOp>("two");
  ArenaPlan first = *planArena(one), second = *planArena(two);
  EXPECT_EQ(first.offsets.lookup(one.getArgument(1)), 256);
  EXPECT_EQ(second.offsets.lookup(two.getArgument(2)), 256);
  EXPECT_EQ(second.offsets.lookup(two.getArgument(1)), 0);
  // Each counts the states that only the other uses, and then its own input.
  for (const ArenaPlan &plan : {first, second}) {
    EXPECT_EQ(plan.segmentBytes[0], 1024);
    EXPECT_EQ(plan.segmentOffset[1], 1024);
    EXPECT_EQ(plan.atPeak[unsigned(Purpose::Other)] - plan.segmentBytes[1],
              256 + 256 + 512);
  }
  EXPECT_EQ(first.segmentBytes[1], 256);
  EXPECT_EQ(second.segmentBytes[1], 4096 * 4);
  EXPECT_EQ(first.offsets.lookup(one.getArgument(0)), 1024);
  EXPECT_EQ(second.offsets.lookup(two.getArgument(0)), 1024);
}
