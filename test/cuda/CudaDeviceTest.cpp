//===- CudaDeviceTest.cpp - Calls on a CUDA device ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaTest.h"

#include "Reference.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <thread>

namespace fsdp::test {
namespace {

using rt::Status;

constexpr int64_t count = 256, bytes = count * 4;

TestRankOptions options() {
  TestRankOptions wanted;
  wanted.arenaBytes = 64 << 10;
  wanted.groups = {{0}};
  return wanted;
}

std::vector<float> numbers(float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(CudaDevice, LaunchesFunctionsInTheirOrder) {
  EXPECT_CUDA_OK(onCuda(options(), [](TestRank &rank) -> Status {
    CudaLaunch add("add", {{"add", 2, 128}}, {0, bytes, 2 * bytes});
    CudaLaunch twice("twice", {{"double_it", 2, 128}, {"double_it", 4, 64}},
                     {2 * bytes});
    CudaLaunch nothing("nothing", {{"double_it", 0, 128}}, {2 * bytes});
    if (Status s = put(rank, 0, numbers(1)))
      return s;
    if (Status s = put(rank, bytes, numbers(1000)))
      return s;
    for (int step = 0; step < 2; ++step)
      if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
            return fsdp_rt_launch(ctx, &add.desc) ||
                   fsdp_rt_launch(ctx, &twice.desc) ||
                   fsdp_rt_launch(ctx, &nothing.desc);
          }))
        return s;
    std::vector<float> found(count);
    if (Status s = get(rank, 2 * bytes, found))
      return s;
    for (int64_t i = 0; i < count; ++i)
      EXPECT_EQ(found[size_t(i)], 4 * float(1001 + 2 * i));
    return Status::ok();
  }));
}

/// The last parameter of each of a call's functions is its workspace.
TEST(CudaDevice, PassesTheWorkspace) {
  EXPECT_CUDA_OK(onCuda(options(), [](TestRank &rank) -> Status {
    CudaLaunch add("add", {{"add", 2, 128}}, {0, bytes});
    CudaLaunch twice("twice", {{"double_it", 2, 128}}, {});
    for (CudaLaunch *launch : {&add, &twice}) {
      launch->code.workspace_bytes = bytes;
      launch->desc.workspace = 2 * bytes;
      launch->desc.workspace_bytes = bytes + 1;
    }
    if (Status s = put(rank, 0, numbers(1)))
      return s;
    if (Status s = put(rank, bytes, numbers(1000)))
      return s;
    if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
          return fsdp_rt_launch(ctx, &add.desc) ||
                 fsdp_rt_launch(ctx, &twice.desc);
        }))
      return s;
    std::vector<float> found(count);
    if (Status s = get(rank, 2 * bytes, found))
      return s;
    for (int64_t i = 0; i < count; ++i)
      EXPECT_EQ(found[size_t(i)], 2 * float(1001 + 2 * i));
    return Status::ok();
  }));
}

TEST(CudaDevice, RefusesCodeThatNeedsMoreWorkspace) {
  for (int64_t needed : {int64_t(257), int64_t(-1)}) {
    Status status = onCuda(options(), [&](TestRank &rank) {
      CudaLaunch twice("twice", {{"double_it", 2, 128}}, {});
      twice.code.workspace_bytes = needed;
      twice.desc.workspace_bytes = 256;
      return runStep(rank, [&](fsdp_rt_context *ctx) {
        return fsdp_rt_launch(ctx, &twice.desc);
      });
    });
    EXPECT_HAS(status.message(),
               "launch 'twice': expected code that needs a workspace of at "
               "most the call's 256 bytes, got " +
                   std::to_string(needed));
  }
}

TEST(CudaDevice, GrantsSharedMemoryBeyondTheUsual) {
  EXPECT_CUDA_OK(onCuda(options(), [](TestRank &rank) -> Status {
    // Loaded in this order: the last asks for less than the one before.
    CudaLaunch small("small", {{"scale_shared", 2, 128, 512}}, {0});
    CudaLaunch large("large",
                     {{"scale_shared", 1, 256, 100 << 10},
                      {"scale_shared", 1, 256, 60 << 10}},
                     {0});
    if (Status s = put(rank, 0, numbers(1)))
      return s;
    if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
          return fsdp_rt_launch(ctx, &small.desc) ||
                 fsdp_rt_launch(ctx, &large.desc);
        }))
      return s;
    std::vector<float> found(count);
    if (Status s = get(rank, 0, found))
      return s;
    for (int64_t i = 0; i < count; ++i)
      EXPECT_EQ(found[size_t(i)], 27 * float(1 + i));
    return Status::ok();
  }));
}

TEST(CudaDevice, CopiesAndFills) {
  EXPECT_CUDA_OK(onCuda(options(), [](TestRank &rank) -> Status {
    fsdp_rt_copy_desc copy = {"copy", 0, bytes, bytes};
    fsdp_rt_copy_desc fill = {"fill", -1, 8, 16};
    fsdp_rt_copy_desc none = {"none", -1, 0, 0};
    if (Status s = put(rank, 0, numbers(1)))
      return s;
    if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
          return fsdp_rt_copy(ctx, &copy) || fsdp_rt_copy(ctx, &fill) ||
                 fsdp_rt_copy(ctx, &none);
        }))
      return s;
    std::vector<float> from(count), to(count), expected = numbers(1);
    if (Status s = get(rank, 0, from))
      return s;
    if (Status s = get(rank, bytes, to))
      return s;
    EXPECT_EQ(to, expected);
    std::fill(expected.begin() + 2, expected.begin() + 6, 0);
    EXPECT_EQ(from, expected);
    return Status::ok();
  }));
}

TEST(CudaDevice, ChecksAreReadAtTheEnd) {
  Status status = onCuda(options(), [](TestRank &rank) -> Status {
    CudaLaunch positive("positive", {{"positive", 1, 1}}, {0, bytes});
    CudaLaunch twice("twice", {{"double_it", 1, 1}}, {0});
    fsdp_rt_check_desc check = {"the number is not positive", bytes};
    fsdp_rt_check_desc other = {"other", bytes};
    rank.executor().setCheckNote("step 7");
    auto step = [&](fsdp_rt_context *ctx) {
      return fsdp_rt_launch(ctx, &positive.desc) ||
             fsdp_rt_check(ctx, &check) || fsdp_rt_check(ctx, &other) ||
             fsdp_rt_launch(ctx, &twice.desc);
    };
    if (Status s = put(rank, 0, numbers(3)))
      return s;
    if (Status s = runStep(rank, step))
      return s;
    if (Status s = put(rank, 0, numbers(-3)))
      return s;
    Status failed = runStep(rank, step);
    EXPECT_EQ(failed.message(), "the number is not positive; step 7");
    EXPECT_EQ(rank.world().failure().message().empty(), false);
    // It stays failed.
    Status again = runStep(rank, step);
    EXPECT_EQ(again.message(), failed.message());
    return failed;
  });
  EXPECT_HAS(status.message(), "the number is not positive");
}

/// Of an attention, parameters are its tensors, statistics and captured ones.
TEST(CudaDevice, GivesAttentionItsTensors) {
  EXPECT_CUDA_OK(onCuda(options(), [](TestRank &rank) -> Status {
    CudaLaunch code("code", {{"show", 1, 1}}, {});
    const void *implementations[] = {&code.code};
    int64_t tensors[8][8], captured[] = {12288};
    for (int64_t i = 0; i < 8; ++i) {
      int64_t fields[8] = {i * 1024, FSDP_RT_F32, 0, 0, 0, 0, 8, 1};
      std::copy_n(fields, 8, tensors[i]);
    }
    tensors[6][0] = -1; // dk
    fsdp_rt_attention_desc desc = {};
    desc.name = "attention";
    desc.implementations = implementations;
    desc.tensors = tensors;
    desc.captured = captured;
    desc.captured_count = 1;
    desc.stats = 10240;
    desc.queries = desc.keys = desc.head = desc.value = 8;
    std::fill_n(desc.batch, 4, 1);
    if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
          return fsdp_rt_attention_backward(ctx, &desc);
        }))
      return s;
    std::vector<uint64_t> found(10);
    if (Status s = get(rank, 3072, found))
      return s;
    for (uint64_t i : {0, 1, 2, 3, 4, 5, 7})
      EXPECT_EQ(found[i] - found[0], i * 1024);
    EXPECT_EQ(found[6], 0u);
    EXPECT_EQ(found[8] - found[0], 10240u);
    EXPECT_EQ(found[9] - found[0], 12288u);
    tensors[1][0] = 1 << 20;
    Status refused = runStep(rank, [&](fsdp_rt_context *ctx) {
      return fsdp_rt_attention_backward(ctx, &desc);
    });
    EXPECT_HAS(refused.message(), "attention_backward 'attention': k: expected "
                                  "it inside the arena");
    return Status::ok();
  }));
}

TEST(CudaDevice, RunsComeAfterEachOther) {
  EXPECT_CUDA_OK(onCuda(options(), [](TestRank &rank) -> Status {
    CudaLaunch twice("twice", {{"double_it", 2, 128}}, {0});
    static const fsdp_rt_launch_desc *desc;
    desc = &twice.desc;
    fsdp_rt_program program = {
        "step", [](fsdp_rt_context *ctx) { return fsdp_rt_launch(ctx, desc); },
        nullptr};
    auto loaded = rank.executor().load(program);
    if (!loaded.isOk())
      return loaded.status();
    if (Status s = put(rank, 0, numbers(1)))
      return s;
    rt::hal::Device &device = rank.executor().device();
    rt::hal::RunRequest request;
    for (int run = 0; run < 3; ++run)
      if (Status s = device.execute(**loaded, request))
        return s;
    rt::hal::RunTimes times;
    if (Status s = device.synchronize(times))
      return s;
    std::vector<float> found(count);
    if (Status s = get(rank, 0, found))
      return s;
    EXPECT_EQ(found[0], 8);
    return Status::ok();
  }));
}

TEST(CudaDevice, ThreadsMoveDataBesideEachOther) {
  EXPECT_CUDA_OK(onCuda(options(), [](TestRank &rank) -> Status {
    std::vector<std::thread> threads;
    std::array<Status, 4> statuses;
    for (int64_t i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        std::vector<float> mine = numbers(float(1000 * i)), found(count);
        statuses[size_t(i)] = put(rank, i * bytes, mine);
        if (statuses[size_t(i)].isOk())
          statuses[size_t(i)] = get(rank, i * bytes, found);
        EXPECT_EQ(found, mine);
      });
    for (std::thread &thread : threads)
      thread.join();
    for (const Status &status : statuses)
      if (status)
        return status;
    char byte = 0;
    Status outside = rank.memory().upload((64 << 10) - 1, &byte, 2);
    EXPECT_HAS(outside.message(),
               "expected bytes inside the 65536 of a memory, "
               "got 2 at 65535");
    return Status::ok();
  }));
}

/// A buffer is sent again while what it held before may still be on its way.
/// waits_test.py lets each wait be forgotten.
TEST(CudaDevice, UploadBuffersAreSentAgain) {
  EXPECT_CUDA_OK(onCuda(options(), [](TestRank &rank) -> Status {
    auto buffer = rank.memory().createUploadBuffer(bytes);
    if (!buffer.isOk())
      return buffer.status();
    EXPECT_EQ(rank.executor().device().facts().memory[2].bytes, 2 << 20);
    for (int64_t round = 0; round < 2; ++round) {
      auto data = (*buffer)->begin();
      if (!data.isOk())
        return data.status();
      std::vector<float> values = numbers(float(1000 * round));
      std::memcpy(*data, values.data(), size_t(bytes));
      if (Status s = (*buffer)->send())
        return s;
      for (int64_t half : {int64_t(0), bytes / 2})
        if (Status s = (*buffer)->place(half, round * bytes + half, bytes / 2))
          return s;
    }
    std::vector<float> found(count);
    for (int64_t round = 0; round < 2; ++round) {
      if (Status s = get(rank, round * bytes, found))
        return s;
      EXPECT_EQ(found, numbers(float(1000 * round)));
    }
    EXPECT_HAS((*buffer)->place(1, 0, bytes).message(),
               "expected bytes inside the 1024 of a memory, got 1024 at 1");
    return (*buffer)->place(0, 0, 0);
  }));
}

/// The pinned memory that uploads pass through is filled several times, and
/// what they come from changes as soon as they have returned.
TEST(CudaDevice, UploadsMoreThanIsOnTheWayAtOnce) {
  TestRankOptions wanted = options();
  wanted.arenaBytes = 24 << 20;
  EXPECT_CUDA_OK(onCuda(wanted, [](TestRank &rank) -> Status {
    CudaLaunch twice("twice", {{"double_it", 1, 128}}, {0});
    std::vector<float> values(3 << 20), expected;
    for (float first : {1.f, 2.f}) {
      std::iota(values.begin(), values.end(), first);
      expected = values;
      if (Status s = put(rank, 0, values))
        return s;
      if (Status s = put(rank, 12 << 20, values))
        return s;
      std::fill(values.begin(), values.end(), -1.f);
      if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
            return fsdp_rt_launch(ctx, &twice.desc);
          }))
        return s;
      if (Status s = get(rank, 12 << 20, values))
        return s;
      EXPECT_EQ(values == expected, true);
      if (Status s = get(rank, 0, values))
        return s;
      for (size_t i = 0; i < 128; ++i)
        expected[i] *= 2;
      EXPECT_EQ(values == expected, true);
    }
    return Status::ok();
  }));
}

/// Queues: part of a program's memory goes to the host and comes back while
/// queue 0 overwrites its place.
TEST(CudaDevice, OffloadsAndReloadsBesideComputation) {
  TestRankOptions wanted = options();
  wanted.hostBytes = 2 * bytes;
  wanted.events = 3;
  wanted.queues = {FSDP_RT_QUEUE_D2H, FSDP_RT_QUEUE_H2D};
  wanted.profile = true;
  wanted.traceEvents = 100;
  EXPECT_CUDA_OK(onCuda(wanted, [](TestRank &rank) -> Status {
    fsdp_rt_host_copy_desc out = {"out", 0, bytes, bytes};
    fsdp_rt_host_copy_desc in = {"in", bytes, 4 * bytes, bytes};
    const void *outs[] = {&out}, *ins[] = {&in};
    int64_t after[] = {0};
    fsdp_rt_start_desc starts[] = {
        {"offload", outs, 1, nullptr, 0, 0, FSDP_RT_OFFLOAD, FSDP_RT_QUEUE_D2H,
         nullptr},
        {"reload", ins, 1, after, 1, 1, FSDP_RT_RELOAD, FSDP_RT_QUEUE_H2D,
         nullptr}};
    fsdp_rt_copy_desc clear = {"clear", -1, 0, bytes};
    CudaLaunch twice("twice", {{"double_it", 2, 128}}, {0});
    CudaLaunch again("again", {{"double_it", 2, 128}}, {4 * bytes});
    if (Status s = put(rank, 0, numbers(1)))
      return s;
    for (int step = 0; step < 2; ++step) {
      if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
            return fsdp_rt_launch(ctx, &twice.desc) ||
                   fsdp_rt_start(ctx, &starts[0]) ||
                   fsdp_rt_start(ctx, &starts[1]) || waitFor(ctx, 0) ||
                   fsdp_rt_copy(ctx, &clear) || waitFor(ctx, 1) ||
                   fsdp_rt_launch(ctx, &again.desc);
          }))
        return s;
      std::vector<float> found(count), cleared(count, 1);
      if (Status s = get(rank, 4 * bytes, found))
        return s;
      if (Status s = get(rank, 0, cleared))
        return s;
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(found[size_t(i)], step == 0 ? 4 * float(1 + i) : 0);
        EXPECT_EQ(cleared[size_t(i)], 0);
      }
    }
    std::vector<std::string> names;
    for (const rt::CallRecord &call : rank.recorder().trace())
      if (call.step == 0) {
        names.push_back(call.name);
        EXPECT_LE(call.begin, call.end) << call.name;
      }
    EXPECT_EQ(names,
              (std::vector<std::string>{"twice", "offload", "arrived", "clear",
                                        "reload", "arrived", "again"}));
    EXPECT_EQ(rank.counters().offloads.bytes, 2 * bytes);
    return Status::ok();
  }));
}

/// Collectives of one rank: copies, and sums of one term that are divided.
TEST(CudaDevice, DividesSumsOfOneRank) {
  EXPECT_CUDA_OK(onCuda(options(), [](TestRank &rank) -> Status {
    for (fsdp_rt_dtype dtype :
         {FSDP_RT_F32, FSDP_RT_F16, FSDP_RT_BF16, FSDP_RT_F64, FSDP_RT_I64,
          FSDP_RT_I32, FSDP_RT_I16, FSDP_RT_I8, FSDP_RT_U8})
      for (int64_t divisor : {1, 3}) {
        int64_t elements = 300, size = elements * sizeOf(dtype);
        Bytes src = randomElements(dtype, elements, uint64_t(dtype) + 1);
        fsdp_rt_collective_desc sum = {"sum",   0, 4096, elements,
                                       divisor, 0, dtype};
        fsdp_rt_collective_desc own = {"own",   8192, 8192, elements,
                                       divisor, 0,    dtype};
        fsdp_rt_collective_desc gather = {"gather", 0, 12288, elements,
                                          divisor,  0, dtype};
        for (int64_t at : {0, 8192})
          if (Status s = rank.memory().upload(at, src.data(), size))
            return s;
        if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
              return inOrder(ctx, FSDP_RT_REDUCE_SCATTER, &sum) ||
                     inOrder(ctx, FSDP_RT_ALL_REDUCE, &own) ||
                     inOrder(ctx, FSDP_RT_ALL_GATHER, &gather);
            }))
          return s;
        Bytes expected = expectedSum({src}, 0, elements, dtype, divisor);
        for (int64_t at : {4096, 8192, 12288}) {
          Bytes found(static_cast<size_t>(size));
          if (Status s = rank.memory().download(at, found.data(), size))
            return s;
          EXPECT_EQ(found == (at == 12288 ? src : expected), true)
              << rt::dtypeName(dtype) << " / " << divisor << " at " << at;
        }
      }
    return Status::ok();
  }));
}

} // namespace
} // namespace fsdp::test
