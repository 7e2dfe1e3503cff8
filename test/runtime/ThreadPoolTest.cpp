//===- ThreadPoolTest.cpp - A rank's own threads --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/ThreadPool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <vector>

namespace {

using fsdp::rt::ThreadPool;

struct Range {
  int thread;
  int64_t begin, end;
  bool operator==(const Range &o) const {
    return thread == o.thread && begin == o.begin && end == o.end;
  }
};

std::vector<Range> rangesOf(ThreadPool &pool, int64_t size, int64_t grain) {
  std::mutex mutex;
  std::vector<Range> ranges;
  auto body = [&](int thread, int64_t begin, int64_t end) {
    std::lock_guard<std::mutex> lock(mutex);
    ranges.push_back({thread, begin, end});
  };
  pool.parallelFor(size, grain, body);
  std::sort(ranges.begin(), ranges.end(),
            [](const Range &a, const Range &b) { return a.thread < b.thread; });
  return ranges;
}

class ThreadPoolTest : public testing::TestWithParam<std::tuple<int, bool>> {
protected:
  void SetUp() override {
    auto [threads, spin] = GetParam();
    ASSERT_TRUE(pool_.start(threads, spin).isOk());
    ASSERT_EQ(pool_.threads(), threads);
  }
  ThreadPool pool_;
};

TEST_P(ThreadPoolTest, PartsCoverTheRangeInOrder) {
  int threads = pool_.threads();
  for (int64_t size : {0, 1, 2, 3, 7, 8, 100, 1001})
    for (int64_t grain : {0, 1, 3, 50, 10000}) {
      std::vector<Range> ranges = rangesOf(pool_, size, grain);
      int64_t at = 0;
      for (size_t i = 0; i < ranges.size(); ++i) {
        EXPECT_EQ(ranges[i].thread, int(i));
        EXPECT_EQ(ranges[i].begin, at);
        at = ranges[i].end;
        int64_t part = ranges[i].end - ranges[i].begin;
        EXPECT_GE(part, std::min(size, std::max<int64_t>(grain, 1)));
        EXPECT_LE(part, size / int64_t(ranges.size()) + 1);
      }
      EXPECT_EQ(at, size);
      EXPECT_LE(ranges.size(), size_t(threads));
      // And the same parts every time.
      EXPECT_EQ(ranges, rangesOf(pool_, size, grain));
    }
}

TEST_P(ThreadPoolTest, ManyRunsInARow) {
  std::vector<int64_t> sums(16);
  int64_t total = 0;
  for (int64_t run = 0; run < 3000; ++run) {
    std::fill(sums.begin(), sums.end(), 0);
    auto body = [&](int thread, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        sums[size_t(thread)] += i;
    };
    // Now and then fewer parts than threads.
    pool_.parallelFor(run % 17, 1, body);
    int64_t sum = 0;
    for (int64_t s : sums)
      sum += s;
    int64_t n = run % 17;
    ASSERT_EQ(sum, n * (n - 1) / 2) << run;
    total += sum;
  }
  EXPECT_GT(total, 0);
}

TEST_P(ThreadPoolTest, SeesWhatTheCallerWroteAndIsSeen) {
  std::vector<int> data(1000);
  for (int run = 1; run < 200; ++run) {
    for (int &d : data)
      d = run;
    auto body = [&](int, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        data[size_t(i)] *= 2;
    };
    pool_.parallelFor(1000, 1, body);
    for (int d : data)
      ASSERT_EQ(d, 2 * run);
  }
}

INSTANTIATE_TEST_SUITE_P(, ThreadPoolTest,
                         testing::Combine(testing::Values(1, 2, 3, 8),
                                          testing::Bool()));

TEST(ThreadPool, HugeRangesDoNotOverflow) {
  ThreadPool pool;
  ASSERT_TRUE(pool.start(3, false).isOk());
  int64_t size = std::numeric_limits<int64_t>::max() - 1;
  std::vector<Range> ranges = rangesOf(pool, size, 1);
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[2].end, size);
  EXPECT_EQ(rangesOf(pool, -5, 1).size(), 0u);
}

TEST(ThreadPool, RefusesNoThreads) {
  ThreadPool pool;
  EXPECT_NE(pool.start(0, false).message().find("at least 1 thread, got 0"),
            std::string::npos);
}

TEST(ThreadPool, EndsWithoutHavingRun) {
  for (int i = 0; i < 20; ++i) {
    ThreadPool pool;
    ASSERT_TRUE(pool.start(4, i % 2 == 0).isOk());
  }
}

} // namespace
