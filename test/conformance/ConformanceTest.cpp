//===- ConformanceTest.cpp - What every backend has to do -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Backends.h"
#include "Checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

namespace fsdp::test {
namespace {

using rt::Dtype;
using rt::Result;
using rt::Status;
using rt::World;
using rt::hal::HostChannel;

class Conformance : public testing::TestWithParam<BackendCase> {
protected:
  void run(const std::function<Status(World &)> &body) {
    Status status = runOn(GetParam(), body);
    EXPECT_TRUE(status.isOk()) << status.message();
  }
  /// With a channel over all ranks.
  void runOnAll(const std::function<Status(World &, HostChannel &)> &body) {
    run([&](World &world) -> Status {
      auto group = world.openChannel(allRanks(world));
      if (!group.isOk())
        return group.status();
      return body(world, **group);
    });
  }
};

constexpr int64_t sizes[] = {0,   1,    2,    3,    7,    63,   64,  65,
                             257, 1000, 1023, 1024, 1025, 2049, 5000};

TEST_P(Conformance, WorldSaysWhoIsWho) {
  std::mutex mutex;
  std::vector<int> seen;
  run([&](World &world) {
    EXPECT_EQ(world.size(), GetParam().ranks);
    EXPECT_GE(world.localSize(), 1);
    EXPECT_LT(world.localRank(), world.localSize());
    std::lock_guard<std::mutex> lock(mutex);
    seen.push_back(world.rank());
    return Status::ok();
  });
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(seen.size(), size_t(GetParam().isJob ? 1 : GetParam().ranks));
  for (size_t i = 1; i < seen.size(); ++i)
    EXPECT_EQ(seen[i], seen[i - 1] + 1);
}

TEST_P(Conformance, AllGather) {
  runOnAll([](World &, HostChannel &group) {
    for (int64_t bytes : sizes)
      for (bool inPlace : {false, true})
        if (Status s = checkAllGather(group, bytes, inPlace, uint64_t(bytes)))
          return s;
    return Status::ok();
  });
}

TEST_P(Conformance, AllToAll) {
  runOnAll([](World &, HostChannel &group) {
    for (int64_t bytes : sizes)
      if (Status s = checkAllToAll(group, bytes, uint64_t(bytes)))
        return s;
    return Status::ok();
  });
}

/// What a device does that adds up in a type and an order of its own.
TEST_P(Conformance, AllToAllAndASumAreAReduceScatter) {
  runOnAll([](World &, HostChannel &group) -> Status {
    constexpr int64_t count = 1001;
    int64_t size = group.size();
    std::vector<int32_t> src(size_t(count * size)), parts(src.size());
    std::vector<int32_t> sum(count), expected(count);
    for (size_t i = 0; i < src.size(); ++i)
      src[i] = int32_t(i) * (group.rank() + 1);
    if (Status s = group.run(
            {FSDP_RT_ALL_TO_ALL, src.data(), parts.data(), count, FSDP_RT_I32}))
      return s;
    for (int64_t i = 0; i < count * size; ++i)
      sum[size_t(i % count)] += parts[size_t(i)];
    if (Status s = group.reduceScatter(src.data(), expected.data(), count,
                                       FSDP_RT_I32, 1))
      return s;
    return sum == expected ? Status::ok() : Status::failed("another sum");
  });
}

TEST_P(Conformance, ReduceScatterOfEveryType) {
  runOnAll([](World &, HostChannel &group) {
    for (fsdp_rt_dtype dtype : numberTypes())
      for (int64_t count : {0, 1, 2, 65, 301})
        for (int64_t divisor : {1, group.size(), 7})
          for (bool inPlace : {false, true})
            if (Status s = checkReduceScatter(group, dtype, count, divisor,
                                              inPlace, uint64_t(count)))
              return s;
    return Status::ok();
  });
}

TEST_P(Conformance, ReduceScatterOfEverySize) {
  runOnAll([](World &, HostChannel &group) {
    for (int64_t count : sizes)
      if (Status s = checkReduceScatter(group, FSDP_RT_F32, count, 1, false, 7))
        return s;
    return Status::ok();
  });
}

TEST_P(Conformance, AllReduceOfEveryType) {
  runOnAll([](World &, HostChannel &group) {
    for (fsdp_rt_dtype dtype : numberTypes())
      for (int64_t count : {0, 1, 2, 65, 301})
        for (int64_t divisor : {1, group.size(), 7})
          for (bool inPlace : {false, true})
            if (Status s = checkAllReduce(group, dtype, count, divisor, inPlace,
                                          uint64_t(count)))
              return s;
    return Status::ok();
  });
}

TEST_P(Conformance, AllReduceOfEverySize) {
  runOnAll([](World &, HostChannel &group) {
    for (int64_t count : sizes)
      for (bool inPlace : {false, true})
        if (Status s = checkAllReduce(group, FSDP_RT_F32, count, 1, inPlace, 7))
          return s;
    return Status::ok();
  });
}

TEST_P(Conformance, BroadcastFromEveryRoot) {
  runOnAll([](World &, HostChannel &group) {
    for (int root = 0; root < group.size(); ++root)
      for (int64_t bytes : sizes)
        for (bool inPlace : {false, true})
          if (Status s =
                  checkBroadcast(group, bytes, root, inPlace, uint64_t(bytes)))
            return s;
    return Status::ok();
  });
}

TEST_P(Conformance, NansAndInfinitiesStay) {
  runOnAll([](World &, HostChannel &group) -> Status {
    float infinity = std::numeric_limits<float>::infinity();
    float values[2] = {group.rank() == 0 ? infinity : 1.0f,
                       group.rank() == group.size() - 1 ? NAN : 1.0f};
    float result[2];
    if (Status s = group.allReduce(values, result, 2, FSDP_RT_F32, 2))
      return s;
    if (result[0] != infinity || result[1] == result[1])
      return Status::failed("expected inf and nan");
    uint16_t halves[2] = {0x7bff, 0x7e01}; // the largest float16 and a NaN
    uint16_t sums[2];
    if (Status s = group.allReduce(halves, sums, 2, FSDP_RT_F16, 1))
      return s;
    bool isAlone = group.size() == 1;
    if (sums[0] != (isAlone ? 0x7bff : 0x7c00) || (sums[1] & 0x7fff) <= 0x7c00)
      return Status::failed("expected float16 inf and nan");
    return Status::ok();
  });
}

TEST_P(Conformance, BarrierWaitsForAll) {
  // Everybody's last broadcast arrives although nobody waits for it.
  runOnAll([](World &, HostChannel &group) {
    for (int i = 0; i < 50; ++i) {
      if (Status s = group.barrier())
        return s;
      if (Status s =
              checkBroadcast(group, 3, i % group.size(), true, uint64_t(i)))
        return s;
    }
    return Status::ok();
  });
}

TEST_P(Conformance, RowsAndColumnsOfMeshes) {
  run([](World &world) -> Status {
    for (int columns = 1; columns <= world.size(); ++columns) {
      if (world.size() % columns != 0)
        continue;
      auto row = world.openChannel(rowOf(world, columns));
      auto column = world.openChannel(columnOf(world, columns));
      if (!row.isOk() || !column.isOk())
        return row.isOk() ? column.status() : row.status();
      if ((*row)->size() != columns ||
          (*row)->rank() != world.rank() % columns ||
          (*column)->rank() != world.rank() / columns)
        return Status::failed("wrong place in the mesh");
      // Groups of one mesh run at the same time and apart from each other.
      uint64_t rowSeed = uint64_t(world.rank() / columns);
      uint64_t columnSeed = 100 + uint64_t(world.rank() % columns);
      for (int64_t count : {1, 100, 3000}) {
        if (Status s = checkAllGather(**row, count, false, rowSeed))
          return s;
        if (Status s = checkAllReduce(**column, FSDP_RT_F32, count, 2, true,
                                      columnSeed))
          return s;
        if (Status s = checkReduceScatter(**row, FSDP_RT_BF16, count, 3, false,
                                          rowSeed))
          return s;
        if (Status s = checkAllToAll(**column, count, columnSeed))
          return s;
        if (Status s = checkBroadcast(**column, count, 0, true, columnSeed))
          return s;
      }
    }
    return Status::ok();
  });
}

TEST_P(Conformance, HybridStepGivesTheMeanOfAll) {
  // reduce_scatter in a row, all_reduce across rows, all_gather in a row: the
  // gradient's way in a hybrid mesh.
  run([](World &world) -> Status {
    for (int columns = 1; columns <= world.size(); ++columns) {
      if (world.size() % columns != 0)
        continue;
      auto row = world.openChannel(rowOf(world, columns));
      auto column = world.openChannel(columnOf(world, columns));
      if (!row.isOk() || !column.isOk())
        return row.isOk() ? column.status() : row.status();
      constexpr int64_t count = 37;
      std::vector<float> gradient(size_t(count * columns)), shard(count);
      for (size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = float(world.rank() + 1) * float(i);
      if (Status s = (*row)->reduceScatter(gradient.data(), shard.data(), count,
                                           FSDP_RT_F32, 1))
        return s;
      if (Status s = (*column)->allReduce(shard.data(), shard.data(), count,
                                          FSDP_RT_F32, world.size()))
        return s;
      if (Status s =
              (*row)->allGather(shard.data(), gradient.data(), count * 4))
        return s;
      float mean = float(world.size() + 1) / 2;
      for (size_t i = 0; i < gradient.size(); ++i)
        if (std::fabs(gradient[i] - mean * float(i)) > 1e-3f)
          return Status::failed("element " + std::to_string(i) + ": expected " +
                                std::to_string(mean * float(i)) + ", got " +
                                std::to_string(gradient[i]));
    }
    return Status::ok();
  });
}

TEST_P(Conformance, GroupsOfSomeRanks) {
  run([](World &world) -> Status {
    // Odd and even ranks, and everybody alone.
    std::vector<int> alike;
    for (int r = world.rank() % 2; r < world.size(); r += 2)
      alike.push_back(r);
    auto some = world.openChannel(alike);
    auto alone = world.openChannel({world.rank()});
    if (!some.isOk() || !alone.isOk())
      return some.isOk() ? alone.status() : some.status();
    Random random(3 + uint64_t(world.rank() % 2));
    for (int i = 0; i < 40; ++i)
      if (Status s = checkRandom(**some, random))
        return s;
    for (int i = 0; i < 20; ++i)
      if (Status s = checkRandom(**alone, random))
        return s;
    return Status::ok();
  });
}

TEST_P(Conformance, MessagesBeyondAllLimits) {
  runOnAll([](World &, HostChannel &group) -> Status {
    int64_t bytes = largeBytes();
    if (Status s = checkAllGather(group, bytes, false, 1))
      return s;
    if (Status s = checkAllToAll(group, bytes, 3))
      return s;
    return checkBroadcast(group, bytes, group.size() - 1, true, 2);
  });
  runOnAll([](World &, HostChannel &group) -> Status {
    int64_t count = largeBytes() / int64_t(sizeof(float));
    // Whole numbers: exact in every order, so that a plain sum is enough.
    std::vector<float> src(size_t(count * group.size())), dst(src.size());
    auto value = [](int64_t i, int rank) { return float(i % 1001 + rank); };
    auto sum = [&](int64_t i) {
      return float(group.size()) * float(i % 1001) +
             float(group.size() * (group.size() - 1) / 2);
    };
    for (size_t i = 0; i < src.size(); ++i)
      src[i] = value(int64_t(i), group.rank());
    if (Status s =
            group.reduceScatter(src.data(), dst.data(), count, FSDP_RT_F32, 1))
      return s;
    for (int64_t i = 0; i < count; ++i)
      if (dst[size_t(i)] != sum(group.rank() * count + i))
        return Status::failed("reduce_scatter: element " + std::to_string(i));
    if (Status s = group.allReduce(src.data(), src.data(), int64_t(src.size()),
                                   FSDP_RT_F32, 1))
      return s;
    for (size_t i = 0; i < src.size(); ++i)
      if (src[i] != sum(int64_t(i)))
        return Status::failed("all_reduce: element " + std::to_string(i));
    return Status::ok();
  });
}

TEST_P(Conformance, ManySmallCalls) {
  runOnAll([](World &, HostChannel &group) -> Status {
    int64_t total = 0;
    for (int64_t i = 0; i < 500; ++i) {
      int64_t value = i + group.rank();
      if (Status s = group.allReduce(&value, &value, 1, FSDP_RT_I64, 1))
        return s;
      total += value;
    }
    int64_t n = group.size();
    if (total != n * 500 * 499 / 2 + 500 * n * (n - 1) / 2)
      return Status::failed("wrong total");
    return Status::ok();
  });
}

TEST_P(Conformance, RandomOrderAcrossGroups) {
  run([](World &world) -> Status {
    std::vector<int> columnCounts;
    for (int columns = 1; columns <= world.size(); ++columns)
      if (world.size() % columns == 0)
        columnCounts.push_back(columns);
    std::vector<std::unique_ptr<HostChannel>> groups;
    for (int columns : columnCounts) {
      auto row = world.openChannel(rowOf(world, columns));
      if (!row.isOk())
        return row.status();
      groups.push_back(std::move(*row));
    }
    Random order(11);
    for (int i = 0; i < 150; ++i) {
      size_t at = size_t(order.below(int64_t(groups.size())));
      // All rows of a mesh do the same, each for itself.
      Random random(static_cast<uint64_t>(i));
      if (Status s = checkRandom(*groups[at], random))
        return s;
    }
    return Status::ok();
  });
}

TEST_P(Conformance, GroupsOfTheSameRanksAreApart) {
  run([](World &world) -> Status {
    auto first = world.openChannel(allRanks(world));
    auto second = world.openChannel(allRanks(world));
    if (!first.isOk() || !second.isOk())
      return first.isOk() ? second.status() : first.status();
    Random random(5);
    for (int i = 0; i < 30; ++i)
      if (Status s = checkRandom(i % 3 ? **first : **second, random))
        return s;
    return Status::ok();
  });
}

/// Hashes of everything that one rank receives in a long random sequence.
Status hashSequence(World &world, uint64_t &hash) {
  auto group = world.openChannel(allRanks(world));
  if (!group.isOk())
    return group.status();
  Bytes all;
  for (uint64_t i = 0; i < 2; ++i) {
    int64_t count = 500 + int64_t(i) * 777;
    Bytes src =
        randomElements(i % 2 ? FSDP_RT_BF16 : FSDP_RT_F32, count * world.size(),
                       i * 100 + uint64_t(world.rank()));
    Dtype dtype = i % 2 ? FSDP_RT_BF16 : FSDP_RT_F32;
    Bytes dst(src.size());
    if (Status s = (*group)->reduceScatter(src.data(), dst.data(), count, dtype,
                                           world.size()))
      return s;
    all.insert(all.end(), dst.begin(), dst.begin() + count * sizeOf(dtype));
    if (Status s = (*group)->allReduce(src.data(), dst.data(),
                                       count * world.size(), dtype, 3))
      return s;
    all.insert(all.end(), dst.begin(), dst.end());
  }
  hash = hashOf(all);
  return Status::ok();
}

TEST_P(Conformance, ManyChannelsInARunAndInTheNext) {
  for (uint64_t seed : {1, 2})
    run([&](World &world) -> Status {
      for (int i = 0; i < 100; ++i) {
        auto made = world.openChannel(allRanks(world));
        if (!made.isOk())
          return made.status();
        if (Status s = checkAllReduce(**made, FSDP_RT_I32, 5, 1, false, seed))
          return s;
      }
      return Status::ok();
    });
}

TEST_P(Conformance, BitsAreThoseOfTheLocalBackendTwentyTimes) {
  if (std::string why = whyBitsVary(GetParam()); !why.empty())
    GTEST_SKIP() << why;
  int ranks = GetParam().ranks;
  std::vector<uint64_t> expected(static_cast<size_t>(ranks));
  Status local = runLocally(ranks, [&](World &world) {
    return hashSequence(world, expected[size_t(world.rank())]);
  });
  ASSERT_TRUE(local.isOk()) << local.message();
  for (int i = 0; i < 20; ++i)
    run([&](World &world) -> Status {
      uint64_t hash = 0;
      if (Status s = hashSequence(world, hash))
        return s;
      if (hash != expected[size_t(world.rank())])
        return Status::failed("other bits in run " + std::to_string(i));
      return Status::ok();
    });
}

TEST_P(Conformance, WaitingIsCounted) {
  runOnAll([](World &, HostChannel &group) -> Status {
    int64_t before = group.waitNanoseconds();
    if (before < 0)
      return Status::failed("negative");
    if (Status s = group.barrier())
      return s;
    if (group.waitNanoseconds() < before)
      return Status::failed("went backwards");
    return Status::ok();
  });
}

TEST_P(Conformance, RefusesWhatHasNoMeaning) {
  run([](World &world) -> Status {
    int rank = world.rank(), size = world.size();
    auto refuses = [&](const std::vector<int> &ranks, const char *what) {
      auto group = world.openChannel(ranks);
      EXPECT_FALSE(group.isOk());
      EXPECT_NE(group.status().message().find(what), std::string::npos)
          << group.status().message();
    };
    refuses({}, "among its own");
    refuses({size}, "expected ranks below");
    refuses({-1, rank}, "expected ranks below");
    refuses({rank, rank}, "strictly increasing");
    if (size > 1)
      refuses({(rank + 1) % size}, "among its own");

    auto group = world.openChannel(allRanks(world));
    if (!group.isOk())
      return group.status();
    float value = 0;
    EXPECT_FALSE(
        (*group)->allReduce(&value, &value, 1, FSDP_RT_BOOL, 1).isOk());
    EXPECT_FALSE((*group)->allReduce(&value, &value, 1, FSDP_RT_F32, 0).isOk());
    EXPECT_FALSE(
        (*group)->reduceScatter(&value, &value, 1, FSDP_RT_I8, 200).isOk());
    EXPECT_FALSE((*group)
                     ->run({FSDP_RT_OFFLOAD, &value, &value, 1, FSDP_RT_F32})
                     .isOk());
    EXPECT_FALSE((*group)->broadcast(&value, &value, 4, size).isOk());
    EXPECT_FALSE((*group)->broadcast(&value, &value, 4, -1).isOk());
    // And goes on as if nothing had been asked.
    return checkAllReduce(**group, FSDP_RT_F32, 10, 1, true, 1);
  });
}

INSTANTIATE_TEST_SUITE_P(, Conformance, testing::ValuesIn(backendCases()),
                         [](const testing::TestParamInfo<BackendCase> &info) {
                           return info.param.name();
                         });

} // namespace
} // namespace fsdp::test
