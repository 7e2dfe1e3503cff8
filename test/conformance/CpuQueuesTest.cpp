//===- CpuQueuesTest.cpp - Queues with threads, on every backend ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Backends.h"
#include "Reference.h"
#include "devices/cpu/TransferQueues.h"

#include <gtest/gtest.h>

#include <cstring>

namespace fsdp::test {
namespace {

using rt::Status;
using rt::World;

/// A gather and a reduction, of `bytes` for each rank, on queues of their own.
/// Rank 0 hands over the gather first; for all others it comes after the
/// reduction, which needs rank 0. So rank 0's gather has to stand aside.
Status gatherAroundReduction(World &world, int64_t bytes) {
  int64_t size = world.size(), sums = bytes * (size + 1);
  int64_t count = bytes / int64_t(sizeof(int32_t));
  Bytes arena(size_t(sums + bytes * (size + 1)));
  rt::hal::Layout layout;
  layout.events = 2;
  layout.queues = {FSDP_RT_QUEUE_ALL_GATHER, FSDP_RT_QUEUE_REDUCE};
  layout.groups = {allRanks(world)};
  auto made = rt::TransferQueues::create(world, {arena.data()}, layout,
                                         /*pool=*/nullptr, /*spin=*/false);
  if (!made.isOk())
    return made.status();
  rt::TransferQueues &queues = **made;

  fsdp_rt_collective_desc gather = {"gather", 0, bytes,     bytes,
                                    1,        0, FSDP_RT_U8};
  fsdp_rt_collective_desc sum = {"sum", sums, sums + bytes * size, count,
                                 1,     0,    FSDP_RT_I32};
  const fsdp_rt_collective_desc *parts[] = {&gather, &sum};
  const int64_t reduced[] = {1};
  bool isFirst = world.rank() == 0;
  fsdp_rt_start_desc starts[] = {
      {"gather", &parts[0], 1, isFirst ? nullptr : reduced, isFirst ? 0 : 1, 0,
       FSDP_RT_ALL_GATHER, FSDP_RT_QUEUE_ALL_GATHER, nullptr},
      {"sum", &parts[1], 1, nullptr, 0, 1, FSDP_RT_REDUCE_SCATTER,
       FSDP_RT_QUEUE_REDUCE, nullptr}};
  for (const fsdp_rt_start_desc &start : starts)
    if (Status s = queues.open(start))
      return s;
  for (uint32_t step = 1; step <= 5; ++step) {
    std::memset(arena.data(), int(10 * step) + world.rank(), size_t(bytes));
    std::vector<int32_t> numbers(size_t(count * size), world.rank() + 1);
    std::memcpy(arena.data() + sums, numbers.data(), size_t(bytes * size));
    queues.beginRun(step);
    for (int event : {isFirst ? 0 : 1, isFirst ? 1 : 0})
      queues.start(starts[event], bytes);
    rt::TransferRecord records[2];
    for (int event : {0, 1}) {
      bool isFirstWait = false;
      records[event] = queues.wait(event, isFirstWait);
    }
    if (queues.hasFailed())
      return queues.failure();
    if (size > 1 && isFirst && records[0].end < records[1].begin)
      return Status::failed("the gather has ended before the reduction began");
    for (int64_t i = 0; i < bytes * size; ++i)
      if (arena[size_t(bytes + i)] != char(10 * step + i / bytes))
        return Status::failed("all_gather: byte " + std::to_string(i));
    std::memcpy(numbers.data(), arena.data() + sums + bytes * size,
                size_t(bytes));
    for (int64_t i = 0; i < count; ++i)
      if (numbers[size_t(i)] != size * (size + 1) / 2)
        return Status::failed("reduce_scatter: element " + std::to_string(i));
  }
  return Status::ok();
}

class CpuQueues : public testing::TestWithParam<BackendCase> {};

TEST_P(CpuQueues, DoNotWaitForEachOther) {
  for (int64_t bytes : {int64_t(64), int64_t(60'000), largeBytes() / 4 * 4}) {
    Status status = runOn(GetParam(), [&](World &world) {
      return gatherAroundReduction(world, bytes);
    });
    EXPECT_TRUE(status.isOk()) << bytes << " bytes: " << status.message();
  }
}

INSTANTIATE_TEST_SUITE_P(, CpuQueues, testing::ValuesIn(backendCases()),
                         [](const testing::TestParamInfo<BackendCase> &info) {
                           return info.param.name();
                         });

} // namespace
} // namespace fsdp::test
