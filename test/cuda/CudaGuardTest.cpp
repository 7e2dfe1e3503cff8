//===- CudaGuardTest.cpp - Guards on a CUDA device ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaTest.h"

namespace fsdp::test {
namespace {

using rt::Status;

constexpr int64_t bytes = 1000, border = 256, bufferAt = 4096;

/// A guard of one buffer, and the memory of its descriptors.
struct Guard {
  Guard(const char *name, int32_t action, int64_t size = bytes,
        int64_t behind = border, int32_t memory = FSDP_RT_DEVICE)
      : part{"x", bufferAt, size, behind, action, memory}, desc{name, parts,
                                                                1} {}
  Guard(const Guard &) = delete;
  fsdp_rt_guarded_desc part;
  const fsdp_rt_guarded_desc *parts[1] = {&part};
  fsdp_rt_guard_desc desc;
};

/// A program in which a buffer lives from `begin` to `end`, and a copy of two
/// bytes to `at` runs before its life or in it; in one memory.
std::string failureOf(int64_t at, bool isBefore, int32_t memory) {
  TestRankOptions options;
  options.arenaBytes = options.hostBytes = 16 << 10;
  Status status = onCuda(options, [&](TestRank &rank) -> Status {
    Guard fill("entry", FSDP_RT_GUARD_FILL, 8192, 0, memory);
    Guard begin("k1", FSDP_RT_GUARD_BEGIN, bytes, border, memory);
    Guard end("k2", FSDP_RT_GUARD_END, bytes, border, memory);
    Guard again("k3", FSDP_RT_GUARD_BEGIN, bytes, border, memory);
    fsdp_rt_copy_desc onDevice = {"write", 0, at, 2};
    fsdp_rt_host_copy_desc toHost = {"write", 0, at, 2};
    auto write = [&](fsdp_rt_context *ctx) {
      return memory == FSDP_RT_DEVICE ? fsdp_rt_copy(ctx, &onDevice)
                                      : inOrder(ctx, FSDP_RT_OFFLOAD, &toHost);
    };
    if (Status s = put(rank, 0, std::vector<unsigned char>{0xab, 0xcd}))
      return s;
    for (int step = 0; step < 2; ++step)
      if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
            return fsdp_rt_guard(ctx, &fill.desc) ||
                   (isBefore ? write(ctx) : 0) ||
                   fsdp_rt_guard(ctx, &begin.desc) ||
                   (isBefore ? 0 : write(ctx)) ||
                   fsdp_rt_guard(ctx, &end.desc) ||
                   fsdp_rt_guard(ctx, &again.desc);
          }))
        return s;
    return Status::ok();
  });
  return status.message();
}

TEST(CudaGuard, FindsTheFirstByteThatWasTouched) {
  for (int32_t memory : {FSDP_RT_DEVICE, FSDP_RT_HOST}) {
    std::string where =
        memory == FSDP_RT_HOST ? " of the host's arena)" : " of the arena)";
    EXPECT_EQ(failureOf(bufferAt + 998, false, memory), "");
    EXPECT_HAS(failureOf(bufferAt + 999, false, memory),
               "guard at k2: expected nobody to write to the 256 bytes behind "
               "x (1000 bytes at 4096" +
                   where + ", got byte 0xcd at 5096");
    EXPECT_HAS(failureOf(bufferAt + 998, true, memory),
               "guard at k1: expected nobody to write to x (1000 bytes at "
               "4096" +
                   where + " before its life begins, got byte 0xab at 5094");
  }
}

/// Lives that begin and end at a transfer, on its queue.
TEST(CudaGuard, ActsAroundTransfers) {
  TestRankOptions options;
  options.arenaBytes = options.hostBytes = 16 << 10;
  options.events = 2;
  options.queues = {FSDP_RT_QUEUE_D2H, FSDP_RT_QUEUE_H2D};
  EXPECT_CUDA_OK(onCuda(options, [&](TestRank &rank) -> Status {
    Guard fill("entry", FSDP_RT_GUARD_FILL, 8192, 0);
    Guard begin("reload", FSDP_RT_GUARD_BEGIN),
        end("offload", FSDP_RT_GUARD_END);
    fsdp_rt_host_copy_desc in = {"in", 0, bufferAt, bytes};
    fsdp_rt_host_copy_desc out = {"out", bufferAt, 0, bytes};
    const void *ins[] = {&in}, *outs[] = {&out};
    fsdp_rt_start_desc starts[] = {
        {"reload", ins, 1, nullptr, 0, 0, FSDP_RT_RELOAD, FSDP_RT_QUEUE_H2D,
         &begin.desc},
        {"offload", outs, 1, nullptr, 0, 1, FSDP_RT_OFFLOAD, FSDP_RT_QUEUE_D2H,
         &end.desc}};
    std::vector<unsigned char> values(bytes, 7), found(bytes);
    rt::hal::Memory &host = rank.executor().device().memory(FSDP_RT_HOST);
    if (Status s = host.upload(0, values.data(), bytes))
      return s;
    if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
          return fsdp_rt_guard(ctx, &fill.desc) ||
                 fsdp_rt_start(ctx, &starts[0]) || waitFor(ctx, 0) ||
                 fsdp_rt_start(ctx, &starts[1]) || waitFor(ctx, 1);
        }))
      return s;
    if (Status s = host.download(0, found.data(), bytes))
      return s;
    EXPECT_EQ(found, values);
    if (Status s = get(rank, bufferAt, found))
      return s;
    EXPECT_EQ(found, std::vector<unsigned char>(bytes, 0xff));
    return Status::ok();
  }));
}

} // namespace
} // namespace fsdp::test
