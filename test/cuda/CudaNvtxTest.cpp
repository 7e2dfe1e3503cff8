//===- CudaNvtxTest.cpp - Ranges that a profiler sees ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaTest.h"

#include "devices/cuda/driver/Nvtx.h"

#include <cstdlib>
#include <fstream>

namespace fsdp::test {
namespace {

using rt::Status;
using Lines = std::vector<std::string>;

constexpr int64_t count = 64, bytes = count * 4;

/// Gathers of two units on a queue, the second one ahead, and one of no unit.
class Units {
public:
  static TestRankOptions options() {
    TestRankOptions wanted;
    wanted.arenaBytes = 32 << 10;
    wanted.groups = {{0}};
    wanted.events = 3;
    wanted.queues = {FSDP_RT_QUEUE_ALL_GATHER};
    return wanted;
  }
  static std::vector<std::string> names() {
    return {"forward h.0", "forward h.1", ""};
  }

  Units() {
    for (int64_t i = 0; i < 3; ++i) {
      gathers[i] = {"weight", 0, (i + 1) * bytes, count, 1, 0, FSDP_RT_F32};
      parts[i][0] = &gathers[i];
      starts[i] = {i == 2 ? "loss" : "gather",
                   parts[i],
                   1,
                   nullptr,
                   0,
                   i,
                   FSDP_RT_ALL_GATHER,
                   FSDP_RT_QUEUE_ALL_GATHER,
                   nullptr};
    }
  }
  Units(const Units &) = delete;

  int32_t call(fsdp_rt_context *ctx) const {
    const int32_t codes[] = {fsdp_rt_start(ctx, &starts[0]),
                             fsdp_rt_start(ctx, &starts[1]),
                             waitFor(ctx, 0),
                             fsdp_rt_launch(ctx, &twice.desc),
                             fsdp_rt_start(ctx, &starts[2]),
                             waitFor(ctx, 1),
                             fsdp_rt_launch(ctx, &twice.desc),
                             waitFor(ctx, 2)};
    for (int32_t code : codes)
      if (code)
        return code;
    return 0;
  }

private:
  CudaLaunch twice{"twice", {{"double_it", 1, 64}}, {4 * bytes}};
  fsdp_rt_collective_desc gathers[3];
  const void *parts[3][1];
  fsdp_rt_start_desc starts[3];
};

/// Runs the units' program twice; what the profiler has seen of it.
Lines rangesOf(const char *graph) {
  std::string log = testing::TempDir() + "nvtx-log-" + graph;
  std::remove(log.c_str());
  setenv("NVTX_INJECTION64_PATH", FSDP_TEST_NVTX, 1);
  setenv("FSDP_NVTX_LOG", log.c_str(), 1);
  setenv("FSDP_TEST_GRAPH", graph, 1);
  EXPECT_CUDA_OK(onCuda(Units::options(), [](TestRank &rank) -> Status {
    static const Units *current;
    Units units;
    current = &units;
    fsdp_rt_program program = {
        "train", [](fsdp_rt_context *ctx) { return current->call(ctx); },
        nullptr};
    auto loaded = rank.executor().load(program, Units::names());
    if (!loaded.isOk())
      return loaded.status();
    std::vector<float> zeros(5 * count);
    for (int run = 0; run < 2; ++run) {
      if (Status s = put(rank, 0, zeros))
        return s;
      if (Status s = rank.executor().step(**loaded))
        return s;
    }
    return Status::ok();
  }));
  unsetenv("FSDP_TEST_GRAPH");
  std::ifstream file(log);
  Lines lines;
  for (std::string line; std::getline(file, line);)
    if (line.rfind("domain", 0) != 0)
      lines.push_back(line);
  std::remove(log.c_str());
  return lines;
}

/// Lines of ranges within each other, for thread 0.
Lines operator+(Lines a, const Lines &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Lines within(const std::string &name, const Lines &lines) {
  return Lines{"push 0 " + name} + lines + Lines{"pop 0"};
}

const Lines calls = within("gather", {}) + within("gather", {}) +
                    within("forward h.0", within("loss", {})) +
                    within("forward h.1", {});

TEST(CudaNvtx, RangesOfAStepThatIsIssuedCallByCall) {
  EXPECT_EQ(rangesOf("off"), within("train", calls) + within("train", calls));
}

TEST(CudaNvtx, RangesOfAGraph) {
  EXPECT_EQ(rangesOf("on"), within("capture", calls) + within("train", {}) +
                                within("train", {}));
}

} // namespace
} // namespace fsdp::test
