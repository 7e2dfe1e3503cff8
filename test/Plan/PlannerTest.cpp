//===- PlannerTest.cpp - What the planner reads ---------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/Planner.h"

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
