//===- PlannerTest.cpp - What the planner reads ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Plan/Planner.h"
#include "fsdp/Driver/OptionValues.h"
#include "fsdp/Plan/Report/PlanReport.h"

#include "gtest/gtest.h"

using namespace mlir::fsdp;

TEST(Planner, readsBytes) {
  auto read = [](llvm::StringRef text) -> int64_t {
    auto bytes = parseBytes(text);
    if (bytes)
      return *bytes;
    llvm::consumeError(bytes.takeError());
    return -1;
  };
  EXPECT_EQ(read("4096"), 4096);
  EXPECT_EQ(read("1KiB"), 1024);
  EXPECT_EQ(read("1.5 GiB"), 1610612736);
  EXPECT_EQ(read("24GB"), 24000000000);
  EXPECT_EQ(read("2 MiB"), 2097152);
  EXPECT_EQ(read("7B"), 7);
  for (llvm::StringRef wrong :
       {"", "GiB", "-1GiB", "0", "1 GiBs", "nan", "1e30TiB", "five"})
    EXPECT_EQ(read(wrong), -1) << wrong.str();
}

TEST(PlanReport, modulesThatDifferInNumbersAreOne) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(foldModules({"layers.0.mlp.up", "layers.1.mlp.up", "norm",
                         "layers.1.mlp.gate", "layers.2.mlp.up"}),
            (Names{"layers.*.mlp.up", "norm", "layers.1.mlp.gate"}));
  // A number that all have is kept; a part of a name is no number.
  EXPECT_EQ(foldModules({"stages.1.blocks.0", "stages.1.blocks.3", "conv2d"}),
            (Names{"stages.1.blocks.*", "conv2d"}));
  EXPECT_EQ(foldModules({"0", "1"}), Names{"*"});
  EXPECT_EQ(foldModules({}), Names{});
  KernelShare kernel;
  EXPECT_EQ(describeModules(kernel), "");
  kernel.modules = {"a", "b", "c"};
  EXPECT_EQ(describeModules(kernel), "a, b, c");
  kernel.modules.push_back("d");
  EXPECT_EQ(describeModules(kernel), "a, b, c and 1 more");
}

TEST(Planner, budgetsAreEnough) {
  EXPECT_EQ(formatBudget(1), "0.1MiB");
  EXPECT_EQ(formatBudget(1 << 20), "1.0MiB");
  EXPECT_EQ(formatBudget((1 << 20) + 1), "1.1MiB");
  EXPECT_EQ(formatBudget(int64_t(2) << 30), "2.00GiB");
  EXPECT_EQ(formatBudget((int64_t(2) << 30) + 1), "2.01GiB");
  // What is printed may be given back.
  for (int64_t bytes = 1000; bytes < int64_t(1) << 45; bytes = bytes * 3 + 7) {
    llvm::Expected<int64_t> read = parseBytes(formatBudget(bytes));
    ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
    EXPECT_GE(*read, bytes);
    EXPECT_LE(double(*read), double(bytes) * 1.01 + (1 << 17));
  }
}
