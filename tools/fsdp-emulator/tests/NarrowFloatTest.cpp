//===- NarrowFloatTest.cpp - Instructions of f16 and bf16 -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InstructionTest.h"

#include <cmath>
#include <random>

using namespace fsdp::emulator;
using namespace fsdp::emulator::test;

namespace {

/// Rounds an exact number to a format, by its definition: the nearest multiple
/// of the unit in the last place, ties to even ones. It shares nothing with
/// the emulator.
class Format {
public:
  Format(int mantissaBits, int smallestExponent, int largestExponent)
      : mantissaBits(mantissaBits), smallest(smallestExponent),
        largest(largestExponent) {}

  uint16_t round(long double value) const {
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (value != value)
      return 0x7fff;
    auto infinity =
        static_cast<uint16_t>((largest - smallest + 2) << mantissaBits);
    if (std::isinf(value))
      return sign | infinity;
    if (value == 0)
      return sign;
    int exponent = std::max(std::ilogb(value), smallest);
    long double unit = std::ldexp(1.0L, exponent - mantissaBits);
    long double units = std::fabs(value) / unit;
    long double whole = std::floor(units), part = units - whole;
    bool isOdd = std::fmod(whole, 2.0L) == 1;
    whole += part > 0.5L || (part == 0.5L && isOdd);
    long double rounded = whole * unit;
    if (rounded >= std::ldexp(1.0L, largest + 1))
      return sign | infinity;
    if (rounded == 0)
      return sign;
    int top = std::max(std::ilogb(rounded), smallest);
    auto mantissa =
        static_cast<uint64_t>(rounded / std::ldexp(1.0L, top - mantissaBits));
    bool isNormal = mantissa >> mantissaBits;
    return static_cast<uint16_t>(
        sign | (isNormal ? (uint64_t(top - smallest + 1) << mantissaBits) +
                               (mantissa & ((1u << mantissaBits) - 1))
                         : mantissa));
  }

  long double value(uint16_t bits) const {
    int exponentBits = 15 - mantissaBits;
    int exponent = bits >> mantissaBits & ((1 << exponentBits) - 1);
    int mantissa = bits & ((1 << mantissaBits) - 1);
    long double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == (1 << exponentBits) - 1)
      return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0)
      return sign * std::ldexp(static_cast<long double>(mantissa),
                               smallest - mantissaBits);
    return sign *
           std::ldexp(static_cast<long double>(mantissa + (1 << mantissaBits)),
                      exponent - 1 + smallest - mantissaBits);
  }

private:
  int mantissaBits, smallest, largest;
};

const Format half(10, -14, 15), brain(7, -126, 127);

class NarrowFloats : public InstructionTest {
protected:
  /// Of random bits, in all combinations of exponents.
  template <typename Compute>
  void compare(const std::string &instruction, const Format &format,
               Compute compute, bool isSum = false) {
    std::mt19937 random(3);
    std::vector<std::vector<uint64_t>> operands(8192);
    for (auto &row : operands) {
      row = {random() & 0xffff, random() & 0xffff};
      if (isSum)
        row.push_back(random() & 0xffff);
      // 64 bits hold a product and a sum where exponents are near 0.
      if (isSum && &format == &brain)
        for (uint64_t &bits : row)
          bits = (bits & 0x807f) | (120 + (bits >> 7 & 15)) << 7;
    }
    // Sums that cancel.
    for (size_t i = 0; i < 1000; ++i)
      operands[i][1] = operands[i][0] ^ 0x8000 ^ (random() & 3);
    auto results =
        evaluate(instruction, isSum ? "16 16 16 16" : "16 16 16", operands);
    for (size_t i = 0; i < results.size(); ++i) {
      long double values[3] = {};
      for (size_t k = 0; k < operands[i].size(); ++k)
        values[k] = format.value(static_cast<uint16_t>(operands[i][k]));
      uint16_t expected =
          format.round(compute(values[0], values[1], values[2]));
      ASSERT_EQ(expected, results[i])
          << instruction << " of " << std::hex << operands[i][0] << " "
          << operands[i][1] << " " << (isSum ? operands[i][2] : 0);
    }
  }
};

using Number = long double;

TEST_F(NarrowFloats, F16RoundsOnce) {
  compare("add.rn.f16 $0, $1, $2", half,
          [](Number a, Number b, Number) { return a + b; });
  compare("sub.rn.f16 $0, $1, $2", half,
          [](Number a, Number b, Number) { return a - b; });
  compare("mul.rn.f16 $0, $1, $2", half,
          [](Number a, Number b, Number) { return a * b; });
  compare(
      "fma.rn.f16 $0, $1, $2, $3", half,
      [](Number a, Number b, Number c) { return std::fma(a, b, c); }, true);
}

TEST_F(NarrowFloats, BF16RoundsOnce) {
  compare("add.rn.bf16 $0, $1, $2", brain,
          [](Number a, Number b, Number) { return a + b; });
  compare("mul.rn.bf16 $0, $1, $2", brain,
          [](Number a, Number b, Number) { return a * b; });
  compare(
      "fma.rn.bf16 $0, $1, $2, $3", brain,
      [](Number a, Number b, Number c) { return std::fma(a, b, c); }, true);
}

TEST_F(NarrowFloats, EdgesOfF16) {
  // 1 is 3c00, 2 is 4000, the largest number is 7bff.
  check("add.f16 $0, $1, $2", "16 16 16",
        {{{0x3c00, 0x3c00}, 0x4000},
         {{0x7bff, 0x7bff}, 0x7c00},
         {{0x7c00, 0xfc00}, 0x7fff},
         {{1, 1}, 2}});
  check("add.ftz.f16 $0, $1, $2", "16 16 16", {{{1, 0x8001}, 0}, {{1, 1}, 0}});
  check("add.sat.f16 $0, $1, $2", "16 16 16",
        {{{0x3c00, 0x3c00}, 0x3c00}, {{0xbc00, 0}, 0}, {{0x7fff, 0}, 0}});
  check("fma.rn.relu.f16 $0, $1, $2, $3", "16 16 16 16",
        {{{0x3c00, 0xbc00, 0}, 0}, {{0x3c00, 0x3c00, 0}, 0x3c00}});
  check("neg.f16 $0, $1", "16 16", {{{0x3c00}, 0xbc00}, {{0}, 0x8000}});
  check("abs.f16 $0, $1", "16 16", {{{0xbc00}, 0x3c00}});
  check("min.f16 $0, $1, $2", "16 16 16",
        {{{0, 0x8000}, 0x8000}, {{0x7e00, 0x3c00}, 0x3c00}});
  check("max.NaN.f16 $0, $1, $2", "16 16 16", {{{0x7e00, 0x3c00}, 0x7fff}});
  check("ex2.approx.f16 $0, $1", "16 16", {{{0x4000}, 0x4400}});
  check("tanh.approx.f16 $0, $1", "16 16", {{{0x7c00}, 0x3c00}});
}

TEST_F(NarrowFloats, EdgesOfBF16) {
  // 1 is 3f80, 1 + 2^-7 is 3f81; 2^-8 is 3b80.
  check("add.rn.bf16 $0, $1, $2", "16 16 16",
        {{{0x3f80, 0x3b80}, 0x3f80}, {{0x3f81, 0x3b80}, 0x3f82}});
  // A product halfway between two numbers, and the least bit more or less.
  check("fma.rn.bf16 $0, $1, $2, $3", "16 16 16 16",
        {{{0x5008, 0xd008, 0}, 0xe090},
         {{0x5008, 0xd008, 0xb150}, 0xe091},
         {{0x5008, 0xd008, 0x3150}, 0xe090}});
  check("neg.bf16 $0, $1", "16 16", {{{0x3f80}, 0xbf80}});
  check("max.bf16 $0, $1, $2", "16 16 16", {{{0x7fc0, 0x3f80}, 0x3f80}});
  check("min.NaN.bf16 $0, $1, $2", "16 16 16", {{{0x7fc0, 0x3f80}, 0x7fff}});
  check("ex2.approx.ftz.bf16 $0, $1", "16 16", {{{0x4000}, 0x4080}});
}

TEST_F(NarrowFloats, Pairs) {
  check("add.rn.f16x2 $0, $1, $2", "32 32 32",
        {{{0x40003c00, 0x40003c00}, 0x44004000}});
  check("fma.rn.bf16x2 $0, $1, $2, $3", "32 32 32 32",
        {{{0x40003f80, 0x40003f80, 0x3f803f80}, 0x40a04000}});
  check("mul.rn.bf16x2 $0, $1, $2", "32 32 32",
        {{{0x40003f80, 0xc0003f80}, 0xc0803f80}});
  check("max.NaN.bf16x2 $0, $1, $2", "32 32 32",
        {{{0x7fc03f80, 0xc0004000}, 0x7fff4000}});
  check("neg.f16x2 $0, $1", "32 32", {{{0x3c00bc00}, 0xbc003c00}});
  check("abs.bf16x2 $0, $1", "32 32", {{{0xbf80bf80}, 0x3f803f80}});
}

class Comparisons : public InstructionTest {};

TEST_F(Comparisons, OfIntegers) {
  check("setp.lt.s32 $0, $1, $2", "p 32 32",
        {{{s32(-1), 1}, 1}, {{1, 1}, 0}, {{2, 1}, 0}});
  check("setp.lt.u32 $0, $1, $2", "p 32 32", {{{s32(-1), 1}, 0}, {{0, 1}, 1}});
  check("setp.lo.u32 $0, $1, $2", "p 32 32", {{{0, 1}, 1}, {{1, 0}, 0}});
  check("setp.hs.u32 $0, $1, $2", "p 32 32", {{{1, 1}, 1}, {{0, 1}, 0}});
  check("setp.ls.u64 $0, $1, $2", "p 64 64", {{{1, 1}, 1}, {{~0ull, 1}, 0}});
  check("setp.hi.u16 $0, $1, $2", "p 16 16", {{{0xffff, 1}, 1}, {{1, 1}, 0}});
  check("setp.ge.s16 $0, $1, $2", "p 16 16", {{{0xffff, 1}, 0}, {{1, 1}, 1}});
  check("setp.ne.b64 $0, $1, $2", "p 64 64",
        {{{1ull << 40, 0}, 1}, {{5, 5}, 0}});
  check("setp.eq.b16 $0, $1, $2", "p 16 16", {{{5, 5}, 1}, {{5, 6}, 0}});
  check("setp.gt.s64 $0, $1, $2", "p 64 64", {{{1, s64(-1)}, 1}});
  check("setp.le.s32 $0, $1, $2", "p 32 32", {{{1, 1}, 1}, {{2, 1}, 0}});
}

TEST_F(Comparisons, OfFloats) {
  // Less, equal, greater, unordered.
  std::vector<std::vector<uint64_t>> operands = {
      {bits(1.f), bits(2.f)},
      {0, negative32},
      {bits(3.f), bits(2.f)},
      {nan32, bits(2.f)},
  };
  auto checkAll = [&](const char *name, std::vector<uint64_t> results) {
    std::vector<Row> rows;
    for (size_t i = 0; i < results.size(); ++i)
      rows.push_back({operands[i], results[i]});
    check("setp." + std::string(name) + ".f32 $0, $1, $2", "p 32 32", rows);
    // In f64, the same numbers.
    for (Row &row : rows)
      for (uint64_t &operand : row.operands)
        operand = bits(static_cast<double>(
            std::bit_cast<float>(static_cast<uint32_t>(operand))));
    check("setp." + std::string(name) + ".f64 $0, $1, $2", "p 64 64", rows);
  };
  checkAll("lt", {1, 0, 0, 0});
  checkAll("le", {1, 1, 0, 0});
  checkAll("eq", {0, 1, 0, 0});
  checkAll("ne", {1, 0, 1, 0});
  checkAll("gt", {0, 0, 1, 0});
  checkAll("ge", {0, 1, 1, 0});
  checkAll("ltu", {1, 0, 0, 1});
  checkAll("leu", {1, 1, 0, 1});
  checkAll("equ", {0, 1, 0, 1});
  checkAll("neu", {1, 0, 1, 1});
  checkAll("gtu", {0, 0, 1, 1});
  checkAll("geu", {0, 1, 1, 1});
  checkAll("num", {1, 1, 1, 0});
  checkAll("nan", {0, 0, 0, 1});
  check("setp.eq.ftz.f32 $0, $1, $2", "p 32 32", {{{1, 0}, 1}});
  check("setp.eq.f32 $0, $1, $2", "p 32 32", {{{1, 0}, 0}});
  check("setp.lt.f16 $0, $1, $2", "p 16 16",
        {{{0x3c00, 0x4000}, 1}, {{0x7e00, 0x4000}, 0}});
  check("setp.gt.bf16 $0, $1, $2", "p 16 16", {{{0x4000, 0x3f80}, 1}});
}

TEST_F(Comparisons, Combined) {
  check("setp.lt.and.s32 $0, $1, $2, $3", "p 32 32 p",
        {{{1, 2, 1}, 1}, {{1, 2, 0}, 0}, {{2, 1, 1}, 0}});
  check("setp.lt.or.s32 $0, $1, $2, !$3", "p 32 32 p",
        {{{2, 1, 0}, 1}, {{2, 1, 1}, 0}, {{1, 2, 1}, 1}});
  check("setp.lt.xor.s32 $0, $1, $2, $3", "p 32 32 p",
        {{{1, 2, 1}, 0}, {{2, 1, 1}, 1}});
  // The second predicate is that of the opposite comparison.
  check("setp.lt.s32 %p3|$0, $1, $2", "p 32 32", {{{1, 2}, 0}, {{2, 1}, 1}});
  check("setp.lt.and.s32 %p3|$0, $1, $2, $3", "p 32 32 p",
        {{{2, 1, 0}, 0}, {{2, 1, 1}, 1}});
  check("setp.lt.f16x2 %p3|$0, $1, $2", "p 32 32",
        {{{0x3c004000, 0x40003c00}, 1}, {{0x40003c00, 0x3c004000}, 0}});
  check("setp.lt.f16x2 $0|%p3, $1, $2", "p 32 32",
        {{{0x3c004000, 0x40003c00}, 0}, {{0x40003c00, 0x3c004000}, 1}});
  check("set.lt.u32.f32 $0, $1, $2", "32 32 32",
        {{{bits(1.f), bits(2.f)}, 0xffffffff}, {{bits(2.f), bits(1.f)}, 0}});
  check("set.ge.f32.s32 $0, $1, $2", "32 32 32",
        {{{2, 1}, bits(1.f)}, {{1, 2}, 0}});
}

TEST_F(Comparisons, Selections) {
  check("selp.b32 $0, $1, $2, $3", "32 32 32 p",
        {{{5, 7, 1}, 5}, {{5, 7, 0}, 7}});
  check("selp.f64 $0, $1, $2, $3", "64 64 64 p", {{{5, 7, 0}, 7}});
  check("selp.b16 $0, $1, $2, $3", "16 16 16 p", {{{5, 7, 1}, 5}});
  check("slct.b32.s32 $0, $1, $2, $3", "32 32 32 32",
        {{{5, 7, 0}, 5}, {{5, 7, s32(-1)}, 7}});
  check("slct.b32.f32 $0, $1, $2, $3", "32 32 32 32",
        {{{5, 7, negative32}, 5}, {{5, 7, nan32}, 7}, {{5, 7, 0x80000001}, 7}});
  check("slct.ftz.b32.f32 $0, $1, $2, $3", "32 32 32 32",
        {{{5, 7, 0x80000001}, 5}});
}

} // namespace
