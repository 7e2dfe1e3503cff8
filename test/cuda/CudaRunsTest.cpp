//===- CudaRunsTest.cpp - Runs that are issued before others are over -----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// By execute() and awaitOldest() of the device: what a training loop makes of
// them is ahead_test.py's.
//
//===----------------------------------------------------------------------===//

#include "CudaTest.h"

#include <array>
#include <cstring>
#include <deque>

namespace fsdp::test {
namespace {

using rt::Status;
using rt::hal::RunNumber;
using rt::hal::RunRequest;

/// The first number, the flag of whether it is positive, and others.
constexpr int64_t x = 0, flag = 1024, others = 2048;

TestRankOptions options() {
  TestRankOptions wanted;
  wanted.arenaBytes = 64 << 10;
  wanted.groups = {{0}};
  return wanted;
}

RunNumber number(int64_t offset, float value = 0) {
  RunNumber made;
  made.offset = offset;
  made.bytes = sizeof(float);
  std::memcpy(made.value, &value, sizeof(float));
  return made;
}

float valueOf(const RunNumber &number) {
  float value;
  std::memcpy(&value, number.value, sizeof(float));
  return value;
}

/// Checks that x is positive, and doubles it.
class Doubling {
public:
  static rt::Result<std::unique_ptr<rt::hal::Executable>> load(TestRank &rank) {
    static CudaLaunch positive("positive", {{"positive", 1, 1}}, {x, flag});
    static CudaLaunch twice("twice", {{"double_it", 1, 1}}, {x});
    static const fsdp_rt_check_desc check = {"x is not positive", flag};
    static const fsdp_rt_program program = {
        "doubling",
        [](fsdp_rt_context *ctx) -> int32_t {
          return fsdp_rt_launch(ctx, &positive.desc) ||
                 fsdp_rt_check(ctx, &check) || fsdp_rt_launch(ctx, &twice.desc);
        },
        nullptr};
    return rank.executor().load(program);
  }
};

/// With x, which is fetched.
RunRequest requestOf(float value, const std::string &note = "") {
  RunRequest request;
  request.scalars = {number(x, value)};
  request.results = {number(x)};
  request.checkNote = note;
  return request;
}

Status withDoubling(const std::function<Status(rt::hal::Device &,
                                               rt::hal::Executable &)> &body) {
  return onCuda(options(), [&](TestRank &rank) -> Status {
    auto loaded = Doubling::load(rank);
    if (!loaded.isOk())
      return loaded.status();
    EXPECT_EQ((*loaded)->maxPending(), rt::hal::mostPendingRuns);
    return body(rank.executor().device(), **loaded);
  });
}

TEST(CudaRuns, EachHasItsNumbers) {
  EXPECT_CUDA_OK(withDoubling(
      [](rt::hal::Device &device, rt::hal::Executable &program) -> Status {
        rt::hal::RunTimes times;
        std::deque<RunRequest> pending;
        for (int run = 1; run <= 7; ++run) {
          pending.push_back(requestOf(float(run)));
          if (Status s = device.execute(program, pending.back()))
            return s;
          if (run == 1)
            continue;
          if (Status s = device.awaitOldest(times))
            return s;
          EXPECT_TRUE(pending[0].isComplete);
          EXPECT_FALSE(pending[1].isComplete);
          EXPECT_EQ(valueOf(pending[0].results[0]), 2 * float(run - 1));
          pending.pop_front();
        }
        if (Status s = device.synchronize(times))
          return s;
        EXPECT_EQ(valueOf(pending[0].results[0]), 14);
        return Status::ok();
      }));
}

/// A slot grows, while a run is pending that has another one.
TEST(CudaRuns, AnyNumberOfNumbers) {
  EXPECT_CUDA_OK(withDoubling(
      [](rt::hal::Device &device, rt::hal::Executable &program) -> Status {
        rt::hal::RunTimes times;
        std::array<RunRequest, 6> requests;
        for (size_t run = 0; run < requests.size(); ++run) {
          RunRequest &request = requests[run];
          request = requestOf(float(run + 1));
          for (int64_t i = 0; i < int64_t(run) * 97; ++i) {
            request.scalars.push_back(
                number(others + 4 * i, float(1000 * run) + float(i)));
            request.results.push_back(number(others + 4 * i));
          }
          if (Status s = device.execute(program, request))
            return s;
        }
        if (Status s = device.synchronize(times))
          return s;
        for (size_t run = 0; run < requests.size(); ++run)
          for (size_t i = 0; i < requests[run].results.size(); ++i)
            EXPECT_EQ(valueOf(requests[run].results[i]),
                      (i == 0 ? 2 : 1) * valueOf(requests[run].scalars[i]));
        return Status::ok();
      }));
  Status status = withDoubling(
      [](rt::hal::Device &device, rt::hal::Executable &program) -> Status {
        RunRequest request = requestOf(1);
        request.results.push_back(number((64 << 10) - 3));
        return device.execute(program, request);
      });
  EXPECT_HAS(status.message(), "expected a number of 1 to 8 bytes inside the "
                               "65536 of a memory, got 4 at 65533");
}

/// A check that fails is told of its run, whatever the next one finds; runs
/// before it have their results.
TEST(CudaRuns, ChecksOfPendingRuns) {
  for (int fails : {1, 2})
    for (bool failsAgain : {false, true}) {
      Status status = withDoubling([&](rt::hal::Device &device,
                                       rt::hal::Executable &program) -> Status {
        RunRequest first = requestOf(fails == 1 ? -1.f : 1.f, "run 1");
        RunRequest second =
            requestOf(fails == 2 || failsAgain ? -2.f : 2.f, "run 2");
        EXPECT_CUDA_OK(device.execute(program, first));
        EXPECT_CUDA_OK(device.execute(program, second));
        // Both have run when the host looks.
        char isPositive = 0;
        EXPECT_CUDA_OK(
            device.memory(FSDP_RT_DEVICE).download(flag, &isPositive, 1));
        rt::hal::RunTimes times;
        Status status = device.awaitOldest(times);
        EXPECT_EQ(status.isOk(), fails == 2);
        EXPECT_EQ(first.isComplete, fails == 2);
        if (fails == 2)
          EXPECT_EQ(valueOf(first.results[0]), 2);
        status = device.awaitOldest(times);
        EXPECT_FALSE(second.isComplete);
        // It stays failed.
        EXPECT_EQ(device.execute(program, first).message(), status.message());
        return status;
      });
      EXPECT_EQ(status.message(),
                "x is not positive; run " + std::to_string(fails));
    }
}

/// As many runs as may be pending are waited for before the next one.
TEST(CudaRuns, OneMoreThanMayBePending) {
  EXPECT_CUDA_OK(withDoubling(
      [](rt::hal::Device &device, rt::hal::Executable &program) -> Status {
        std::array<RunRequest, 3> requests = {requestOf(1), requestOf(2),
                                              requestOf(3)};
        for (RunRequest &request : requests)
          if (Status s = device.execute(program, request))
            return s;
        EXPECT_TRUE(requests[0].isComplete);
        EXPECT_EQ(valueOf(requests[0].results[0]), 2);
        EXPECT_FALSE(requests[1].isComplete);
        rt::hal::RunTimes times;
        return device.synchronize(times);
      }));
}

/// Uploads and downloads come after runs that are pending.
TEST(CudaRuns, CopiesComeAfterThem) {
  EXPECT_CUDA_OK(onCuda(options(), [](TestRank &rank) -> Status {
    auto loaded = Doubling::load(rank);
    if (!loaded.isOk())
      return loaded.status();
    rt::hal::Device &device = rank.executor().device();
    RunRequest first = requestOf(5), second = requestOf(7);
    second.scalars.clear();
    if (Status s = device.execute(**loaded, first))
      return s;
    if (Status s = put(rank, x, std::vector<float>{11}))
      return s;
    if (Status s = device.execute(**loaded, second))
      return s;
    std::vector<float> found(1);
    if (Status s = get(rank, x, found))
      return s;
    EXPECT_EQ(found[0], 22);
    rt::hal::RunTimes times;
    if (Status s = device.synchronize(times))
      return s;
    EXPECT_EQ(valueOf(first.results[0]), 10);
    EXPECT_EQ(valueOf(second.results[0]), 22);
    return Status::ok();
  }));
}

} // namespace
} // namespace fsdp::test
