//===- MeasuredCostTest.cpp - Measurements before formulas ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestCluster.h"

#include "fsdp/Cost/AnalyticCost.h"
#include "fsdp/Cost/MeasuredCost.h"

using namespace mlir::fsdp;

namespace {

constexpr Time kMicrosecond = 1'000'000;

constexpr const char kTable[] = R"({
  "format": "fsdp-device-table/1", "device": "test", "launch_us": 3,
  "matmul": [
    {"dtype": "bf16", "m": 1024, "n": 1024, "k": 1024, "us": 10},
    {"dtype": "bf16", "m": 4096, "n": 1024, "k": 1024, "us": 30},
    {"dtype": "bf16", "m": 1024, "n": 4096, "k": 1024, "us": 32}
  ],
  "memory": {"us_by_bytes": [[1e6, 4], [1e8, 50]]},
  "attention": [
    {"dtype": "bf16", "batch": 2, "heads": 8, "queries": 2048, "head_size": 128,
     "causal": true, "forward_us": 100, "backward_us": 260}
  ],
  "baselines": [{"anything": 1}]
})";

constexpr const char kProfile[] = R"({
  "rank": 0, "steps": 10,
  "calls": [
    {"name": "k1_matmul", "kind": "matmul", "calls": 20, "ns": 900000,
     "best_ns": 60000, "waiting_ns": 0, "bytes": 2000, "flops": 40000},
    {"name": "k2_reduce", "kind": "launch", "calls": 10, "ns": 90000,
     "best_ns": 7000, "waiting_ns": 0, "bytes": 500, "flops": 0},
    {"name": "all_gather", "kind": "collective", "calls": 10, "ns": 1,
     "best_ns": 1, "waiting_ns": 0, "bytes": 1, "flops": 0},
    {"name": "all_gather", "kind": "wait", "calls": 10, "ns": 1,
     "best_ns": 0, "waiting_ns": 1, "bytes": 0, "flops": 0}
  ],
  "products": [
    {"name": "k3_matmul", "m": 8, "n": 4, "k": 2, "batch": [1, 1, 3, 1],
     "dtype": "F32", "calls": 10, "ns": 1000, "best_ns": 900},
    {"name": "k4_matmul", "m": 8, "n": 4, "k": 2, "batch": [1, 1, 3, 1],
     "dtype": "F32", "calls": 10, "ns": 1000, "best_ns": 800}
  ]
})";

DeviceTable table(const std::string &text = kTable) {
  llvm::Expected<DeviceTable> result = DeviceTable::parse(text, "t.json");
  if (result)
    return *result;
  ADD_FAILURE() << llvm::toString(result.takeError());
  return DeviceTable();
}

StepProfile profile(const std::string &text = kProfile) {
  llvm::Expected<StepProfile> result = StepProfile::parse(text, "p.json");
  if (result)
    return *result;
  ADD_FAILURE() << llvm::toString(result.takeError());
  return StepProfile();
}

MeasuredCost make(std::optional<DeviceTable> table,
                  std::optional<StepProfile> profile) {
  return MeasuredCost(
      std::make_unique<AnalyticCost>(parseOrFail(kRoundCluster), QueueLinks()),
      std::move(table), std::move(profile));
}

KernelCost matmul(int64_t m, int64_t n, int64_t k) {
  return makeMatmul(CostDtype::BF16, m, n, k);
}

TEST(MeasuredCost, launchesOnAStreamAndInAGraph) {
  auto parse = [](llvm::StringRef graph) {
    return DeviceTable::parse((R"({"format": "fsdp-device-table/1",
      "device": "test", "launch_us": 3)" +
                               graph + "}")
                                  .str(),
                              "t.json");
  };
  auto without = parse("");
  ASSERT_TRUE(bool(without));
  EXPECT_FALSE(without->getGraphLaunchSeconds());
  auto with = parse(", \"graph_launch_us\": 1.5");
  ASSERT_TRUE(bool(with));
  EXPECT_DOUBLE_EQ(*with->getLaunchSeconds(), 3e-6);
  EXPECT_DOUBLE_EQ(*with->getGraphLaunchSeconds(), 1.5e-6);
  auto wrong = parse(", \"graph_launch_us\": -1");
  EXPECT_FALSE(bool(wrong));
  EXPECT_EQ(llvm::toString(wrong.takeError()),
            "t.json: graph_launch_us: expected a number of at least 0, got -1");
}

/// What is measured stands at the roof as it does without; the reason is none.
TEST(MeasuredCost, theRoofOfWhatWasMeasured) {
  auto table = DeviceTable::parse(kTable, "t.json");
  ASSERT_TRUE(bool(table));
  Cluster cluster = parseOrFail(kRoundCluster);
  auto make = [&] {
    return std::make_unique<AnalyticCost>(cluster, QueueLinks());
  };
  MeasuredCost cost(make(), std::move(*table), std::nullopt);
  KernelCost stream;
  stream.bytes = 10'000'000;
  EXPECT_EQ(cost.roof(stream).time, make()->roof(stream).time);
  EXPECT_EQ(cost.roof(stream).limit, KernelLimit::None);
  EXPECT_EQ(make()->roof(stream).limit, KernelLimit::Launch);
  // Not in the table: as computed.
  KernelCost product = makeMatmul(CostDtype::F32, 64, 64, 64);
  EXPECT_EQ(cost.roof(product).limit, make()->roof(product).limit);
  EXPECT_NE(cost.roof(product).limit, KernelLimit::None);
}

TEST(MeasuredCost, ATablesShapesHaveTheirTimes) {
  MeasuredCost cost = make(table(), std::nullopt);
  EXPECT_EQ(cost.kernel(matmul(1024, 1024, 1024)), 10 * kMicrosecond);
  EXPECT_EQ(cost.kernel(matmul(4096, 1024, 1024)), 30 * kMicrosecond);
  EXPECT_EQ(cost.kernel(matmul(1024, 4096, 1024)), 32 * kMicrosecond);
  KernelCost copy;
  copy.bytes = 100'000'000;
  EXPECT_EQ(cost.kernel(copy), 50 * kMicrosecond);
  copy.bytes = 1;
  EXPECT_EQ(cost.kernel(copy), 4 * kMicrosecond);
}

TEST(MeasuredCost, OtherShapesLieBetween) {
  MeasuredCost cost = make(table(), std::nullopt);
  Time between = cost.kernel(matmul(2048, 1024, 1024));
  EXPECT_GT(between, 10 * kMicrosecond);
  EXPECT_LT(between, 30 * kMicrosecond);
  EXPECT_EQ(cost.getSource(matmul(2048, 1024, 1024)),
            MeasuredCost::Source::Table);
}

TEST(MeasuredCost, PartsTakeNoLongerAndNothingLessThanALaunch) {
  // Both of them are mostly launch.
  MeasuredCost cost = make(table(R"({
  "format": "fsdp-device-table/1", "device": "test", "launch_us": 5,
  "matmul": [{"dtype": "bf16", "m": 64, "n": 64, "k": 64, "us": 5.5},
             {"dtype": "bf16", "m": 256, "n": 256, "k": 256, "us": 7}]
})"),
                           std::nullopt);
  EXPECT_GT(cost.kernel(matmul(32, 64, 64)), 5 * kMicrosecond);
  EXPECT_LE(cost.kernel(matmul(32, 64, 64)), cost.kernel(matmul(64, 64, 64)));
  Time last = 0;
  for (int64_t size : {64, 96, 128, 192, 256, 320}) {
    Time time = cost.kernel(matmul(size, 64, 64)),
         cube = cost.kernel(matmul(size, size, size));
    EXPECT_LE(time, cube) << size;
    EXPECT_LE(last, time) << size;
    last = time;
  }
  EXPECT_LE(cost.kernel(matmul(256, 64, 64)), 7 * kMicrosecond);
}

TEST(MeasuredCost, FarShapesAndOtherTypesAreTheFormulas) {
  MeasuredCost cost = make(table(), std::nullopt);
  KernelCost far = matmul(16, 1024, 1024);
  EXPECT_EQ(cost.getSource(far), MeasuredCost::Source::Base);
  KernelCost other = makeMatmul(CostDtype::F32, 1024, 1024, 1024);
  EXPECT_EQ(cost.getSource(other), MeasuredCost::Source::Base);
  AnalyticCost base(parseOrFail(kRoundCluster), QueueLinks());
  EXPECT_EQ(cost.kernel(far), base.kernel(far));
}

TEST(MeasuredCost, FusedTrafficIsNotForgotten) {
  MeasuredCost cost = make(table(), std::nullopt);
  KernelCost fused = matmul(1024, 1024, 1024);
  fused.bytes = 100'000'000;
  EXPECT_EQ(cost.kernel(fused), 50 * kMicrosecond);
}

TEST(MeasuredCost, AttentionByShapeAndMask) {
  MeasuredCost cost = make(table(), std::nullopt);
  auto attention = [](bool backward, bool causal) {
    return makeAttention(backward, CostDtype::BF16, 2, 8, 8, 2048, 2048, 128,
                         causal);
  };
  EXPECT_EQ(cost.kernel(attention(false, true)), 100 * kMicrosecond);
  EXPECT_EQ(cost.kernel(attention(true, true)), 260 * kMicrosecond);
  EXPECT_EQ(cost.kernel(attention(false, false)), 200 * kMicrosecond);
}

TEST(MeasuredCost, AProfileKnowsKernelsByName) {
  MeasuredCost cost = make(table(), profile());
  KernelCost kernel;
  kernel.name = "k1_matmul";
  kernel.kind = KernelKind::Matmul;
  kernel.flops[unsigned(CostDtype::F32)] = 2000;
  kernel.bytes = 100;
  // 60 us of two calls in each step.
  EXPECT_EQ(cost.kernel(kernel), 30 * kMicrosecond);
  EXPECT_EQ(cost.getSource(kernel), MeasuredCost::Source::Profile);
  // Another program's kernel of that name.
  kernel.bytes = 101;
  EXPECT_NE(cost.getSource(kernel), MeasuredCost::Source::Profile);
  KernelCost reduce;
  reduce.name = "k2_reduce";
  reduce.bytes = 50;
  // Runs do not count its arithmetic.
  reduce.flops[unsigned(CostDtype::F32)] = 25;
  EXPECT_EQ(cost.kernel(reduce), 7 * kMicrosecond);
}

TEST(MeasuredCost, AProfilesKernelOfOtherBytesIsAnother) {
  MeasuredCost cost = make(std::nullopt, profile());
  KernelCost reduce;
  reduce.name = "k2_reduce";
  for (int64_t bytes : {0, 49, 51}) {
    reduce.bytes = bytes;
    EXPECT_NE(cost.getSource(reduce), MeasuredCost::Source::Profile) << bytes;
  }
}

TEST(MeasuredCost, AProfileKnowsProductsByShape) {
  MeasuredCost cost = make(std::nullopt, profile());
  KernelCost product = makeMatmul(CostDtype::F32, 8, 4, 2, 3);
  product.name = "another";
  EXPECT_EQ(cost.kernel(product), 800'000);
  EXPECT_EQ(cost.getSource(makeMatmul(CostDtype::F32, 8, 4, 2, 1)),
            MeasuredCost::Source::Base);
}

TEST(MeasuredCost, TransfersAndRatesAreTheBases) {
  Cluster cluster = parseOrFail(
      replaced("\"nccl\"", R"("contention": [{"of": "compute", "by": "intra",
        "rate": 0.5}], "nccl")"));
  GroupPlacement node = placeOrFail(cluster, 8, 8, 1);
  QueueLinks links = getQueueLinks(cluster, node, GroupPlacement());
  AnalyticCost base(cluster, links);
  MeasuredCost cost(std::make_unique<AnalyticCost>(cluster, links), table(),
                    profile());
  TransferKey key{TransferKind::AllGather, {1 << 20}, node};
  EXPECT_EQ(cost.transfer(key).total(), base.transfer(key).total());
  EXPECT_EQ(cost.rate(Queue::Compute, maskOf(Queue::AllGather)), 512);
}

/// What T says of @text, the file @path, with @to for @from.
template <typename T>
std::string errorOf(std::string text, const char *path, const std::string &from,
                    const std::string &to) {
  text.replace(text.find(from), from.size(), to);
  llvm::Expected<T> result = T::parse(text, path);
  return result ? "none" : llvm::toString(result.takeError());
}

std::string tableError(const std::string &from, const std::string &to) {
  return errorOf<DeviceTable>(kTable, "t.json", from, to);
}

TEST(MeasuredCost, TablesThatAreWrong) {
  EXPECT_EQ(tableError("\"us\": 10", "\"us\": 0"),
            "t.json: matmul[0].us: expected a number above 0 and at most "
            "1e+08, got 0");
  for (const char *time : {"\"us\": 10", "\"forward_us\": 100",
                           "\"backward_us\": 260", "[1e8, 50"}) {
    llvm::StringRef key = llvm::StringRef(time).take_until(
        [](char c) { return c == ':' || c == ','; });
    std::string wrong = key.str() + (time[0] == '[' ? ", 1e9" : ": 1e9");
    EXPECT_NE(tableError(time, wrong)
                  .find("expected a number above 0 and at most 1e+08, got "
                        "1e+09"),
              std::string::npos)
        << tableError(time, wrong);
  }
  EXPECT_EQ(tableError("\"bf16\"", "\"bf61\""),
            "t.json: matmul[0].dtype: expected one of f64, f32, bf16, f16, f8, "
            "got \"bf61\"");
  EXPECT_EQ(tableError("\"m\": 1024, ", ""),
            "t.json: matmul[0].m: expected an integer of at least 1, at most "
            "2147483648, got nothing");
  EXPECT_EQ(tableError("\"m\": 4096", "\"m\": 1024"),
            "t.json: matmul[1]: expected one time for each dtype, m, n, k and "
            "batch, got a second");
  EXPECT_EQ(tableError("\"attention\": [",
                       "\"attention\": [{\"dtype\": \"bf16\", \"batch\": 2, "
                       "\"heads\": 8, \"queries\": 2048, \"head_size\": 128, "
                       "\"causal\": true, \"forward_us\": 1, "
                       "\"backward_us\": 2}, "),
            "t.json: attention[1]: expected one time for each dtype and shape, "
            "got a second");
  EXPECT_EQ(tableError("[1e8, 50]", "[1e8, 3]"),
            "t.json: memory.us_by_bytes[1]: expected a value of at least 4, "
            "that of the smaller size, got 3");
  EXPECT_EQ(tableError("device-table/1", "cluster/1"),
            "t.json: format: expected one of fsdp-device-table/1, got "
            "\"fsdp-cluster/1\"");
}

std::string profileError(const std::string &from, const std::string &to) {
  return errorOf<StepProfile>(kProfile, "p.json", from, to);
}

TEST(MeasuredCost, ProfilesThatAreWrong) {
  EXPECT_EQ(profileError("\"calls\": 20", "\"calls\": 21"),
            "p.json: calls[0].calls: expected a multiple of 10 steps, got 21");
  EXPECT_EQ(profileError("k2_reduce\", \"kind\": \"launch\"",
                         "k1_matmul\", \"kind\": \"matmul\""),
            "p.json: calls[1]: expected one entry for each kind and name, got "
            "a second for matmul k1_matmul");
  EXPECT_EQ(profileError("\"waiting_ns\"", "\"waited\"").substr(0, 31),
            "p.json: calls[0]: expected one ");
  EXPECT_EQ(profileError("\"rank\"", "\"rang\"").substr(0, 24),
            "p.json: expected one of ");
  EXPECT_EQ(profileError("\"F32\"", "\"I32\""),
            "p.json: products[0].dtype: expected one of f64, f32, bf16, f16, "
            "f8, got \"I32\"");
  EXPECT_EQ(profileError("\"m\": 8", "\"m\": 4294967296"),
            "p.json: products[0].m: expected an integer of at least 1, at most "
            "2147483648, got 4294967296");
  EXPECT_EQ(profileError("[1, 1, 3, 1]", "[2147483648, 2147483648, 4, 1]"),
            "p.json: products[0].batch: expected at most 2147483648 products "
            "together, got more");
}

/// All that a run writes.
TEST(MeasuredCost, ProfilesOfRuns) {
  EXPECT_EQ(profileError("\"rank\": 0,",
                         "\"rank\": 0, \"blas\": \"openblas\", \"threads\": 1, "
                         "\"times\": {}, \"traffic\": [], \"host_copies\": "
                         "{}, \"arena_bytes\": 1, \"host_bytes\": 0, "
                         "\"memory\": {\"graphs\": 4096},"),
            "none");
  EXPECT_EQ(profileError("\"name\": \"k3_matmul\"",
                         "\"name\": \"k3_matmul\", \"a\": 0, \"b\": 0, \"c\": "
                         "0, \"lda\": 8, \"ldb\": 8, \"ldc\": 8, "
                         "\"a_stride\": [], \"b_stride\": [], \"c_stride\": "
                         "[], \"alpha\": 1, \"trans_a\": false, \"trans_b\": "
                         "false, \"accumulate\": false, \"epilogue\": 0, "
                         "\"c_dtype\": \"F32\""),
            "none");
  EXPECT_EQ(profileError("\"ns\": 900000", "\"ns\": 9, \"gb_per_s\": 1, "
                                           "\"gflops_per_s\": 1"),
            "none");
}

} // namespace
