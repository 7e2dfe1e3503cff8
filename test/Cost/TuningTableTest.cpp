//===- TuningTableTest.cpp - Files of format fsdp-tuning/1 ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/TuningTable.h"

#include <gtest/gtest.h>

using namespace mlir::fsdp;

namespace {

std::string tableOf(const std::string &rest) {
  return R"({"format": "fsdp-tuning/1", "device": "card",
             "compute_capability": "9.0")" +
         rest + "}";
}

std::string tileOf(const std::string &entries) {
  return tableOf(R"(, "attention": [{"head_size": 64, )" + entries + "}]");
}

std::string messageOf(const std::string &text) {
  auto table = TuningTable::parse(text, "t.json");
  return table ? "" : llvm::toString(table.takeError());
}

#define EXPECT_HAS(text, part)                                                 \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(TuningTable, Rows) {
  auto table = TuningTable::parse(tableOf(R"(, "attention": [
        {"head_size": 64, "dtype": "bf16", "direction": "forward", "rows": 32,
         "columns": 64, "note": "measured"},
        {"head_size": 64, "dtype": "bf16", "direction": "dq", "rows": 128,
         "columns": 16, "stages": 1}],
        "reductions": [{"kind": "columns", "threads": 128}])"),
                                  "t.json");
  ASSERT_TRUE(bool(table)) << llvm::toString(table.takeError());
  EXPECT_EQ(table->device, "card");
  EXPECT_EQ(table->capability, "9.0");
  EXPECT_EQ(table->digest.size(), 64u);
  const TuningTable::Attention *row = table->find(64, CostDtype::BF16, 1);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->rows, 128);
  EXPECT_EQ(row->columns, 16);
  EXPECT_EQ(row->stages, 1);
  EXPECT_EQ(table->find(64, CostDtype::BF16, 0)->stages, 2);
  EXPECT_FALSE(table->find(64, CostDtype::BF16, 2));
  EXPECT_FALSE(table->find(64, CostDtype::F16, 1));
  EXPECT_FALSE(table->find(32, CostDtype::BF16, 1));
  EXPECT_EQ(table->columnThreads, 128);
  EXPECT_FALSE(table->rowThreads);
}

TEST(TuningTable, ShapesThatNoKernelHas) {
  const std::string forward = R"("dtype": "bf16", "direction": "forward", )";
  EXPECT_HAS(messageOf(tileOf(forward + R"("rows": 48, "columns": 64)")),
             "rows: expected a power of two from 16 to 128, got 48");
  EXPECT_HAS(messageOf(tileOf(forward + R"("rows": 64, "columns": 8)")),
             "columns: expected a power of two from 16 to 128, got 8");
  EXPECT_HAS(
      messageOf(tileOf(forward + R"("rows": 64, "columns": 64, "stages": 3)")),
      "stages: expected an integer of at least 1, at most 2, got 3");
  EXPECT_HAS(
      messageOf(tileOf(forward + R"("rows": 16, "columns": 64)")),
      "columns: expected at most 32 beside 16 rows, as many as the block "
      "has threads, got 64");
  EXPECT_HAS(
      messageOf(tileOf(
          R"("dtype": "f32", "direction": "dq", "rows": 16, "columns": 16)")),
      "dtype: expected bf16 or f16, got f32: other attentions have tiles of "
      "one shape");
  EXPECT_HAS(messageOf(tableOf(
                 R"(, "reductions": [{"kind": "rows", "threads": 96}])")),
             "threads: expected a power of two from 32 to 1024, got 96");
}

TEST(TuningTable, OtherFiles) {
  EXPECT_HAS(messageOf(R"({"format": "fsdp-device-table/1"})"),
             "fsdp-tuning/1");
  EXPECT_HAS(messageOf(R"({"format": "fsdp-tuning/1", "device": "card",
                          "compute_capability": "7.5"})"),
             "compute_capability: expected 8.0 or later, got \"7.5\"");
  EXPECT_HAS(messageOf(tableOf(R"(, "products": [])")), "products");
  const std::string row =
      R"({"head_size": 64, "dtype": "f16", "direction": "dkdv", "rows": 16,
          "columns": 16})";
  EXPECT_HAS(messageOf(tableOf(R"(, "attention": [)" + row + ", " + row + "]")),
             "expected one row for each head_size, dtype and direction, got a "
             "second");
  const std::string rows = R"({"kind": "rows", "threads": 64})";
  EXPECT_HAS(
      messageOf(tableOf(R"(, "reductions": [)" + rows + ", " + rows + "]")),
      "expected one row for each kind, got a second");
  EXPECT_HAS(messageOf(tableOf(R"(, "attention": [{"head_size": 64}])")),
             "dtype");
}

} // namespace
