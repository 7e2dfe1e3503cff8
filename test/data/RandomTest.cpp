//===- RandomTest.cpp - Random numbers and their distributions ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Elements.h"
#include "data/RandomFill.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

using namespace fsdp::rt;
using namespace fsdp::rt::data;

namespace {

// The vectors that Random123 publishes (kat_vectors, philox4x32, 10 rounds).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// FNV-1a's published values.
TEST(Philox, StableHash) {
  EXPECT_EQ(stableHash(""), 0xcbf29ce484222325u);
  EXPECT_EQ(stableHash("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(stableHash("foobar"), 0x85944171f73967e8u);
}

TEST(Philox, StreamUsesAllBitsOfSeedStreamAndIndex) {
  RandomStream base(0, 0);
  for (int bit : {0, 31, 32, 63}) {
    uint64_t one = uint64_t(1) << bit;
    EXPECT_NE(RandomStream(one, 0).block(0), base.block(0));
    EXPECT_NE(RandomStream(0, one).block(0), base.block(0));
    EXPECT_NE(base.block(one), base.block(0));
  }
}

constexpr int64_t many = 1 << 20;

struct Moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0, min = INFINITY,
         max = -INFINITY;
};

Moments momentsOf(const std::vector<float> &values) {
  Moments m;
  for (double v : values) {
    m.mean += v / values.size();
    m.min = std::min(m.min, v), m.max = std::max(m.max, v);
  }
  for (double v : values) {
    double d = v - m.mean;
    m.variance += d * d / values.size();
    m.skew += d * d * d / values.size();
    m.kurtosis += d * d * d * d / values.size();
  }
  m.skew /= std::pow(m.variance, 1.5);
  m.kurtosis /= m.variance * m.variance;
  return m;
}

/// Largest distance between the sample's distribution and `cdf`.
double kolmogorov(std::vector<float> values, double (*cdf)(double)) {
  std::sort(values.begin(), values.end());
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    double expected = cdf(values[i]);
    worst = std::max({worst, std::fabs(expected - double(i) / values.size()),
                      std::fabs(expected - double(i + 1) / values.size())});
  }
  return worst;
}

// 1.95 / sqrt(n) is exceeded once in a thousand; the seed is fixed.
const double kolmogorovLimit = 1.95 / std::sqrt(double(many));

TEST(RandomFill, NormalIsNormal) {
  std::vector<float> values(many);
  fillNormal(RandomStream(7, 1), 0, 1, FSDP_RT_F32, 0, many,
             reinterpret_cast<char *>(values.data()));
  Moments m = momentsOf(values);
  EXPECT_NEAR(m.mean, 0, 4e-3);
  EXPECT_NEAR(m.variance, 1, 6e-3);
  EXPECT_NEAR(m.skew, 0, 1e-2);
  EXPECT_NEAR(m.kurtosis, 3, 2e-2);
  EXPECT_GT(m.max, 4.3);
  EXPECT_LT(kolmogorov(values, normalCdf), kolmogorovLimit);
  // Neighbours come from one pair of words.
  double together = 0;
  for (int64_t i = 0; i < many; i += 2)
    together += values[i] * values[i + 1] / (many / 2);
  EXPECT_NEAR(together, 0, 6e-3);
}

TEST(RandomFill, NormalAgreesWithTheLibrary) {
  RandomStream stream(3, 4);
  std::vector<double> values(4000);
  fillNormal(stream, 1.5, 0.25, FSDP_RT_F64, 0, values.size(),
             reinterpret_cast<char *>(values.data()));
  for (size_t i = 0; i < values.size(); i += 2) {
    PhiloxBlock block = stream.block(i / 4);
    double u = (block[i % 4] + 0.5) * 0x1p-32;
    double angle = 2 * M_PI * (block[i % 4 + 1] * 0x1p-32);
    double radius = std::sqrt(-2 * std::log(u));
    EXPECT_NEAR(values[i], 1.5 + 0.25 * radius * std::cos(angle), 1e-15);
    EXPECT_NEAR(values[i + 1], 1.5 + 0.25 * radius * std::sin(angle), 1e-15);
  }
}

// Bits that were once drawn stay the same: checkpoints and reports of past runs
// must remain reproducible.
TEST(RandomFill, BitsAreFrozen) {
  float normal[4], uniform[4], truncated[4];
  RandomStream stream(0, stableHash("wte.weight"));
  fillNormal(stream, 0, 0.02, FSDP_RT_F32, 0, 4, (char *)normal);
  fillUniform(stream, -1, 1, FSDP_RT_F32, 0, 4, (char *)uniform);
  fillTruncatedNormal(stream, 0, 1, -2, 2, FSDP_RT_F32, 0, 4,
                      (char *)truncated);
  uint32_t bits[12];
  std::memcpy(bits, normal, 16);
  std::memcpy(bits + 4, uniform, 16);
  std::memcpy(bits + 8, truncated, 16);
  std::vector<uint32_t> got(bits, bits + 12),
      frozen = {0x3d5fde22, 0x3ca50524, 0x3b4d48fd, 0x3af6d873,
                0xbf78a1de, 0xbf6339b1, 0x3f77857c, 0xbf53e3a5,
                0xbfe58171, 0xbfb70241, 0x3fe243a9, 0xbfa077ba};
  EXPECT_EQ(got, frozen);
}

TEST(RandomFill, UniformIsUniform) {
  std::vector<float> values(many);
  fillUniform(RandomStream(7, 2), -2, 6, FSDP_RT_F32, 0, many,
              reinterpret_cast<char *>(values.data()));
  Moments m = momentsOf(values);
  EXPECT_NEAR(m.mean, 2, 2e-2);
  EXPECT_NEAR(m.variance, 64.0 / 12, 2e-2);
  EXPECT_GE(m.min, -2);
  EXPECT_LE(m.max, 6);
  EXPECT_LT(kolmogorov(values, [](double x) { return (x + 2) / 8; }),
            kolmogorovLimit);
}

TEST(RandomFill, TruncatedNormalKeepsToItsRange) {
  std::vector<float> values(many);
  char *bytes = reinterpret_cast<char *>(values.data());
  fillTruncatedNormal(RandomStream(7, 3), 0, 1, -2, 1, FSDP_RT_F32, 0, many,
                      bytes);
  Moments m = momentsOf(values);
  EXPECT_GE(m.min, -2);
  EXPECT_LE(m.max, 1);
  EXPECT_LT(kolmogorov(values,
                       [](double x) {
                         double from = normalCdf(-2), to = normalCdf(1);
                         return (normalCdf(x) - from) / (to - from);
                       }),
            kolmogorovLimit);
  // Far out in the upper tail, where 1 - p has no digits left.
  fillTruncatedNormal(RandomStream(7, 4), 10, 2, 30, 40, FSDP_RT_F32, 0, many,
                      bytes);
  m = momentsOf(values);
  EXPECT_GE(m.min, 30);
  EXPECT_LE(m.max, 40);
  EXPECT_NEAR(m.mean, 30.196, 5e-3);
  // No mass at all, and no width.
  fillTruncatedNormal(RandomStream(7, 4), 0, 1, 100, 101, FSDP_RT_F32, 0, 8,
                      bytes);
  EXPECT_EQ(values[3], 100);
  fillTruncatedNormal(RandomStream(7, 4), 5, 0, 1, 2, FSDP_RT_F32, 0, 8, bytes);
  EXPECT_EQ(values[3], 2);
  fillTruncatedNormal(RandomStream(7, 4), 1, 0, 1, 2, FSDP_RT_F32, 0, 8, bytes);
  EXPECT_EQ(values[3], 1);
}

TEST(RandomFill, DistributionFunctionAndInverseAgree) {
  for (double x = -12; x < 12; x += 0.01) {
    EXPECT_NEAR(normalCdf(x), 0.5 * std::erfc(-x / std::sqrt(2.0)),
                1e-12 * normalCdf(x) + 1e-300);
    if (x < 6) {
      EXPECT_NEAR(normalQuantile(normalCdf(x)), x, x < 4 ? 1e-9 : 1e-6);
    }
  }
  EXPECT_EQ(normalQuantile(0), -INFINITY);
  EXPECT_EQ(normalQuantile(1), INFINITY);
}

TEST(RandomFill, IntegersCoverTheirRangeEvenly) {
  std::vector<int64_t> values(many);
  char *bytes = reinterpret_cast<char *>(values.data());
  fillIntegers(RandomStream(7, 5), -3, 4, FSDP_RT_I64, 0, many, bytes);
  int64_t counts[7] = {};
  for (int64_t value : values) {
    ASSERT_TRUE(value >= -3 && value < 4) << value;
    ++counts[value + 3];
  }
  double chi = 0, expected = many / 7.0;
  for (int64_t count : counts)
    chi += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi, 22.5); // once in a thousand for six degrees of freedom

  fillIntegers(RandomStream(7, 6), 5, 6, FSDP_RT_I64, 0, 100, bytes);
  EXPECT_EQ(values[99], 5);
  int64_t lowest = std::numeric_limits<int64_t>::min();
  int64_t largest = std::numeric_limits<int64_t>::max();
  fillIntegers(RandomStream(7, 7), lowest, largest, FSDP_RT_I64, 0, many,
               bytes);
  EXPECT_LT(*std::min_element(values.begin(), values.end()), lowest / 2);
  EXPECT_GT(*std::max_element(values.begin(), values.end()), -(lowest / 2));
}

TEST(RandomFill, AnyPartIsThatPartOfTheWhole) {
  RandomStream stream(11, 12);
  auto check = [&](auto fill, int64_t size) {
    constexpr int64_t whole = 5000;
    std::vector<char> all(whole * size), part(whole * size);
    fill(0, whole, all.data());
    for (auto [begin, count] :
         std::vector<std::pair<int64_t, int64_t>>{{0, 1},
                                                  {1, 1},
                                                  {3, 2},
                                                  {5, 1023},
                                                  {2, 1025},
                                                  {1021, 3000},
                                                  {4999, 1},
                                                  {7, 0}}) {
      fill(begin, count, part.data());
      EXPECT_EQ(
          std::memcmp(part.data(), all.data() + begin * size, count * size), 0)
          << begin << " " << count;
    }
  };
  for (Dtype dtype : {FSDP_RT_F32, FSDP_RT_F64, FSDP_RT_F16, FSDP_RT_BF16}) {
    int64_t size = dtypeSize(dtype);
    check(
        [&](int64_t begin, int64_t count, char *dst) {
          fillNormal(stream, 0, 1, dtype, begin, count, dst);
        },
        size);
    check(
        [&](int64_t begin, int64_t count, char *dst) {
          fillTruncatedNormal(stream, 0, 1, -1, 1, dtype, begin, count, dst);
        },
        size);
  }
  check(
      [&](int64_t begin, int64_t count, char *dst) {
        fillIntegers(stream, 0, 200, FSDP_RT_U8, begin, count, dst);
      },
      1);
}

TEST(RandomFill, FarElementsNeedNoNearOnes) {
  RandomStream stream(1, 1);
  float a[8], b[4];
  int64_t far = int64_t(1) << 40;
  fillNormal(stream, 0, 1, FSDP_RT_F32, far, 8, (char *)a);
  fillNormal(stream, 0, 1, FSDP_RT_F32, far + 4, 4, (char *)b);
  EXPECT_EQ(std::memcmp(a + 4, b, sizeof b), 0);
}

TEST(Elements, RoundAndReadBack) {
  char bytes[8];
  storeFloat(FSDP_RT_BF16, 1.00390625, bytes); // halfway: to even
  EXPECT_EQ(loadFloat(FSDP_RT_BF16, bytes), 1.0);
  storeFloat(FSDP_RT_F16, 65520.0, bytes);
  EXPECT_EQ(loadFloat(FSDP_RT_F16, bytes), INFINITY);
  storeFloat(FSDP_RT_F16, 6e-8, bytes);
  EXPECT_EQ(loadFloat(FSDP_RT_F16, bytes), 0x1p-24);
  storeNumber(FSDP_RT_I16, -300, bytes);
  EXPECT_EQ(loadNumber(FSDP_RT_I16, bytes), -300);
  EXPECT_FALSE(isRepresentable(FSDP_RT_U8, -1));
  EXPECT_FALSE(isRepresentable(FSDP_RT_U8, 256));
  EXPECT_FALSE(isRepresentable(FSDP_RT_I32, 0.5));
  EXPECT_FALSE(isRepresentable(FSDP_RT_I64, 0x1p63));
  EXPECT_TRUE(isRepresentable(FSDP_RT_I64, -0x1p63));
  EXPECT_FALSE(isRepresentable(FSDP_RT_I64, INFINITY));
  EXPECT_TRUE(isRepresentable(FSDP_RT_F16, 1e9));
  EXPECT_EQ(dtypeFromName("F33"), std::nullopt);
}

} // namespace
