//===- ReduceTest.cpp - Sums over ranks -----------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/Reduce.h"
#include "Reference.h"
#include "core/NarrowFloat.h"
#include "core/ThreadPool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace {

using namespace fsdp::rt;
using fsdp::test::Bytes;
using fsdp::test::Random;

std::vector<Bytes> sourcesOf(Dtype dtype, int64_t count, int ranks) {
  std::vector<Bytes> sources;
  for (int r = 0; r < ranks; ++r)
    sources.push_back(
        fsdp::test::randomElements(dtype, count, uint64_t(r) * 77 + 1));
  return sources;
}

std::vector<const void *> pointersTo(const std::vector<Bytes> &sources) {
  std::vector<const void *> pointers;
  for (const Bytes &source : sources)
    pointers.push_back(source.data());
  return pointers;
}

class ReduceOfType : public testing::TestWithParam<fsdp_rt_dtype> {};

TEST_P(ReduceOfType, IsTheTreeForAnyNumberOfRanks) {
  Dtype dtype = GetParam();
  for (int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33}) {
    int64_t count = ranks < 10 ? 1500 : 100;
    std::vector<Bytes> sources = sourcesOf(dtype, count, ranks);
    for (int64_t divisor : {1, 2, 3, 100}) {
      Bytes result(sources[0].size());
      treeSum(pointersTo(sources).data(), ranks, result.data(), 0, count, dtype,
              divisor);
      EXPECT_EQ(result,
                fsdp::test::expectedSum(sources, 0, count, dtype, divisor))
          << ranks << " ranks, divisor " << divisor;
    }
  }
}

TEST_P(ReduceOfType, BitsDoNotDependOnCuts) {
  Dtype dtype = GetParam();
  constexpr int64_t count = 5000;
  constexpr int ranks = 7;
  std::vector<Bytes> sources = sourcesOf(dtype, count, ranks);
  std::vector<const void *> pointers = pointersTo(sources);
  Bytes whole(sources[0].size()), parts(whole.size());
  treeSum(pointers.data(), ranks, whole.data(), 0, count, dtype, 3);
  Random random(9);
  for (int64_t at = 0; at < count;) {
    int64_t next = std::min(count, at + 1 + random.below(1500));
    treeSum(pointers.data(), ranks, parts.data(), at, next, dtype, 3);
    at = next;
  }
  EXPECT_EQ(whole, parts);
}

TEST_P(ReduceOfType, BitsDoNotDependOnThreadsAndDstMayBeASource) {
  Dtype dtype = GetParam();
  constexpr int64_t count = 100'003;
  for (int ranks : {2, 5}) {
    std::vector<Bytes> sources = sourcesOf(dtype, count, ranks);
    Bytes whole(sources[0].size());
    treeSum(nullptr, pointersTo(sources).data(), ranks, whole.data(), count,
            dtype, 3);
    for (int threads : {1, 2, 3, 8}) {
      ThreadPool pool;
      ASSERT_TRUE(pool.start(threads, false).isOk());
      std::vector<Bytes> own = sources;
      treeSum(&pool, pointersTo(own).data(), ranks, own[1].data(), count, dtype,
              3);
      EXPECT_EQ(own[1], whole) << threads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, ReduceOfType,
                         testing::ValuesIn(fsdp::test::numberTypes()),
                         [](const testing::TestParamInfo<fsdp_rt_dtype> &info) {
                           return fsdp::test::nameOf(info.param);
                         });

TEST(Reduce, IntegersWrapAndDivideTowardsZero) {
  int32_t a = std::numeric_limits<int32_t>::max(), b = 2, c = -7, d = 0, out;
  const void *wraps[] = {&a, &b};
  treeSum(wraps, 2, &out, 0, 1, FSDP_RT_I32, 1);
  EXPECT_EQ(out, std::numeric_limits<int32_t>::min() + 1);
  const void *negative[] = {&c, &d};
  treeSum(negative, 2, &out, 0, 1, FSDP_RT_I32, 2);
  EXPECT_EQ(out, -3);
}

TEST(Reduce, RefusesWhatHasNoSum) {
  EXPECT_TRUE(checkReduction(FSDP_RT_F32, 1).isOk());
  EXPECT_TRUE(checkReduction(FSDP_RT_I8, 127).isOk());
  EXPECT_FALSE(checkReduction(FSDP_RT_I8, 128).isOk());
  EXPECT_TRUE(checkReduction(FSDP_RT_U8, 255).isOk());
  EXPECT_FALSE(checkReduction(FSDP_RT_F32, 0).isOk());
  EXPECT_FALSE(checkReduction(FSDP_RT_I64, -1).isOk());
  EXPECT_NE(checkReduction(FSDP_RT_BOOL, 1).message().find("got BOOL"),
            std::string::npos);
}

TEST(Reduce, EmptyRangesTouchNothing) {
  treeSum(nullptr, 0, nullptr, 0, 0, FSDP_RT_F32, 1);
  copyBytes(nullptr, nullptr, nullptr, 0);
  fillZero(nullptr, nullptr, 0);
}

TEST(Reduce, CopiesAndFillsWithThreads) {
  Bytes src = fsdp::test::randomElements(FSDP_RT_U8, 1'000'003, 1);
  for (int threads : {1, 3}) {
    ThreadPool pool;
    ASSERT_TRUE(pool.start(threads, false).isOk());
    Bytes dst(src.size());
    copyBytes(&pool, dst.data(), src.data(), int64_t(src.size()));
    EXPECT_EQ(src, dst);
    fillZero(&pool, dst.data(), int64_t(dst.size()) - 1);
    EXPECT_EQ(dst[0], 0);
    EXPECT_EQ(dst[dst.size() - 2], 0);
    EXPECT_EQ(dst.back(), src.back());
  }
}

TEST(NarrowFloat, EveryHalfWidensExactly) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    auto half = static_cast<uint16_t>(bits);
    float brain = toFloat(BFloat16{half}), ieee = toFloat(Float16{half});
    float expectedBrain = fsdp::test::fromBFloat16(half);
    float expectedIeee = fsdp::test::fromFloat16(half);
    if (std::isnan(expectedBrain))
      EXPECT_TRUE(std::isnan(brain)) << bits;
    else
      EXPECT_EQ(bitsOf(brain), bitsOf(expectedBrain)) << bits;
    if (std::isnan(expectedIeee))
      EXPECT_TRUE(std::isnan(ieee)) << bits;
    else
      EXPECT_EQ(bitsOf(ieee), bitsOf(expectedIeee)) << bits;
  }
}

void expectNearest(float value) {
  BFloat16 brain;
  Float16 ieee;
  fromFloat(value, brain);
  fromFloat(value, ieee);
  if (std::isnan(value)) {
    EXPECT_TRUE(std::isnan(toFloat(brain)) && std::isnan(toFloat(ieee)));
    return;
  }
  ASSERT_EQ(brain.bits, fsdp::test::nearestBFloat16(value)) << value;
  ASSERT_EQ(ieee.bits, fsdp::test::nearestFloat16(value)) << value;
}

TEST(NarrowFloat, NarrowsToTheNearest) {
  // Every half, the points half-way to its neighbour, and what lies beside.
  for (uint32_t bits = 0; bits < 65536; bits += 1) {
    for (float half : {toFloat(BFloat16{uint16_t(bits)}),
                       toFloat(Float16{uint16_t(bits)})}) {
      if (std::isnan(half))
        continue;
      uint32_t exact = bitsOf(half);
      for (uint32_t offset :
           {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u})
        expectNearest(floatOf(exact + offset));
    }
  }
  Random random(4);
  for (int i = 0; i < 20000; ++i)
    expectNearest(floatOf(uint32_t(random.next())));
  expectNearest(65519.996f);
  expectNearest(65520.0f);
  expectNearest(std::numeric_limits<float>::max());
  expectNearest(std::numeric_limits<float>::denorm_min());
}

// LLVM's call for a double, which returns a bf16 in the low half of a float.
extern "C" float __truncdfbf2(double value); // NOLINT: the compilers' name

TEST(NarrowFloat, DoublesRoundOnce) {
  auto round = [](double value) {
    return static_cast<uint16_t>(bitsOf(__truncdfbf2(value)));
  };
  EXPECT_EQ(round(1.0), 0x3f80);
  // Halves of the last place go to the even one, and anything more goes up,
  // also where a float between does not show it.
  EXPECT_EQ(round(1.00390625), 0x3f80);
  EXPECT_EQ(round(1.00390625 + 0x1p-40), 0x3f81);
  EXPECT_EQ(round(-1.00390625 - 0x1p-40), 0xbf81);
  EXPECT_EQ(round(1.01171875 - 0x1p-40), 0x3f81);
  // Below every float.
  EXPECT_EQ(round(0x1p-200), 0x0000);
  EXPECT_EQ(round(-0x1p-200), 0x8000);
  EXPECT_EQ(round(-0.0), 0x8000);
  EXPECT_EQ(round(0x1p200), 0x7f80);
  EXPECT_EQ(round(-0x1p200), 0xff80);
}

TEST(NarrowFloat, ArraysAreTheirElements) {
  for (Dtype dtype : {FSDP_RT_BF16, FSDP_RT_F16}) {
    Bytes narrow = fsdp::test::randomElements(dtype, 1003, 3);
    std::vector<float> wide(1003);
    narrowToFloat(narrow.data(), wide.data(), 1003, dtype);
    Bytes back(narrow.size());
    floatToNarrow(wide.data(), back.data(), 1003, dtype);
    EXPECT_EQ(back, narrow);
  }
}

} // namespace
