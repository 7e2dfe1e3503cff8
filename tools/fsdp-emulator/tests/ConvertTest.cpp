//===- ConvertTest.cpp - cvt and mov --------------------------------------===//
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

class Conversions : public InstructionTest {
protected:
  /// One conversion of f32 in all four roundings to integers.
  void checkRoundings(const char *type, float value, int64_t nearest,
                      int64_t zero, int64_t down, int64_t up) {
    auto one = [&](const char *rounding, int64_t result) {
      check(std::string("cvt.") + rounding + "." + type + ".f32 $0, $1",
            "32 32", {{{bits(value)}, s32(result)}});
    };
    one("rni", nearest);
    one("rzi", zero);
    one("rmi", down);
    one("rpi", up);
  }
};

TEST_F(Conversions, FloatsToIntegersRound) {
  checkRoundings("s32", 2.5f, 2, 2, 2, 3);
  checkRoundings("s32", 3.5f, 4, 3, 3, 4);
  checkRoundings("s32", -2.5f, -2, -2, -3, -2);
  checkRoundings("s32", -0.75f, -1, 0, -1, 0);
  checkRoundings("u32", 2.5f, 2, 2, 2, 3);
  checkRoundings("u32", -0.5f, 0, 0, 0, 0);
}

TEST_F(Conversions, FloatsToIntegersSaturate) {
  check("cvt.rzi.s32.f32 $0, $1", "32 32",
        {{{nan32}, 0},
         {{inf32}, s32(INT32_MAX)},
         {{inf32 | negative32}, s32(INT32_MIN)},
         {{bits(2147483648.f)}, s32(INT32_MAX)},
         {{bits(2147483520.f)}, 2147483520},
         {{bits(-2147483648.f)}, s32(INT32_MIN)},
         {{bits(-3e9f)}, s32(INT32_MIN)}});
  check("cvt.rni.s32.f32 $0, $1", "32 32",
        {{{nan32}, 0}, {{inf32}, s32(INT32_MAX)}});
  check("cvt.rzi.u32.f32 $0, $1", "32 32",
        {{{bits(-1.f)}, 0},
         {{bits(4294967296.f)}, 0xffffffff},
         {{bits(3e9f)}, 3000000000},
         {{nan32}, 0}});
  check("cvt.rzi.s64.f32 $0, $1", "64 32",
        {{{inf32}, negative64 - 1},
         {{bits(-1e30f)}, negative64},
         {{bits(1e10f)}, 10000000000}});
  check("cvt.rzi.u64.f64 $0, $1", "64 64",
        {{{bits(1e30)}, ~0ull},
         {{bits(-1.0)}, 0},
         {{bits(0x1p63)}, 1ull << 63},
         {{nan64}, 0}});
  check("cvt.rzi.s16.f32 $0, $1", "16 32",
        {{{bits(40000.f)}, 0x7fff},
         {{bits(-40000.f)}, 0x8000},
         {{bits(-2.7f)}, 0xfffe}});
  check("cvt.rzi.u8.f32 $0, $1", "16 32",
        {{{bits(300.f)}, 255}, {{bits(-3.f)}, 0}});
  check("cvt.rzi.s8.f32 $0, $1", "32 32",
        {{{bits(300.f)}, 127}, {{bits(-3.f)}, s32(-3)}});
  check("cvt.rni.s32.f64 $0, $1", "32 64",
        {{{bits(2147483647.5)}, s32(INT32_MAX)}, {{bits(0.5)}, 0}});
  check("cvt.rzi.s32.f16 $0, $1", "32 16", {{{0xc900}, s32(-10)}});
  check("cvt.rni.u16.bf16 $0, $1", "16 16", {{{0x4020}, 2}});
}

TEST_F(Conversions, IntegersToFloats) {
  check("cvt.rn.f32.s32 $0, $1", "32 32",
        {{{s32(-5)}, bits(-5.f)},
         {{16777217}, bits(16777216.f)},
         {{16777219}, bits(16777220.f)}});
  check("cvt.rz.f32.u32 $0, $1", "32 32",
        {{{16777219}, bits(16777218.f)}, {{0xffffffff}, bits(4294967040.f)}});
  check("cvt.rp.f32.u32 $0, $1", "32 32", {{{16777217}, bits(16777218.f)}});
  check("cvt.rm.f32.s32 $0, $1", "32 32",
        {{{s32(-16777217)}, bits(-16777218.f)}});
  check("cvt.rn.f32.u32 $0, $1", "32 32", {{{0xffffffff}, bits(4294967296.f)}});
  check("cvt.rn.f32.s64 $0, $1", "32 64", {{{negative64}, bits(-0x1p63f)}});
  check("cvt.rn.f32.u64 $0, $1", "32 64",
        {{{~0ull}, bits(0x1p64f)},
         {{(1ull << 63) + (1ull << 39)}, bits(0x1p63f)},
         {{(1ull << 63) + (1ull << 39) + 1}, bits(0x1.000002p63f)}});
  check("cvt.rn.f64.s64 $0, $1", "64 64",
        {{{(1ull << 53) + 1}, bits(0x1p53)}, {{s64(-3)}, bits(-3.0)}});
  check("cvt.rn.f64.u32 $0, $1", "64 32", {{{0xffffffff}, bits(4294967295.0)}});
  check("cvt.rn.f16.s32 $0, $1", "16 32",
        {{{70000}, 0x7c00}, {{2049}, 0x6800}, {{2051}, 0x6802}});
  check("cvt.rz.f16.s32 $0, $1", "16 32", {{{70000}, 0x7bff}});
  check("cvt.rn.bf16.s32 $0, $1", "16 32", {{{257}, 0x4380}, {{259}, 0x4382}});
  check("cvt.rn.f32.s8 $0, $1", "32 16", {{{0xff}, bits(-1.f)}});
  check("cvt.rn.f32.u16 $0, $1", "32 16", {{{0xffff}, bits(65535.f)}});
}

TEST_F(Conversions, Integers) {
  check("cvt.s32.s8 $0, $1", "32 32", {{{0x180}, s32(-128)}, {{0x17f}, 127}});
  check("cvt.u32.u8 $0, $1", "32 32", {{{0x1ff}, 255}});
  check("cvt.u32.u16 $0, $1", "32 16", {{{0xffff}, 0xffff}});
  check("cvt.s64.s32 $0, $1", "64 32", {{{s32(-5)}, s64(-5)}});
  check("cvt.u64.u32 $0, $1", "64 32", {{{s32(-5)}, 0xfffffffb}});
  check("cvt.u32.u64 $0, $1", "32 64", {{{0x123456789}, 0x23456789}});
  check("cvt.s16.s8 $0, $1", "16 16", {{{0x80}, 0xff80}});
  check("cvt.u16.u32 $0, $1", "16 32", {{{0x12345}, 0x2345}});
  check("cvt.s32.u8 $0, $1", "32 16", {{{0xff}, 255}});
  // A result that is narrower than its register is extended by its own sign.
  check("cvt.s8.s32 $0, $1", "32 32", {{{0x80}, s32(-128)}});
  check("cvt.u8.s32 $0, $1", "32 32", {{{s32(-1)}, 255}});
  check("cvt.sat.u8.s32 $0, $1", "32 32",
        {{{s32(-1)}, 0}, {{300}, 255}, {{200}, 200}});
  check("cvt.sat.s8.s32 $0, $1", "32 32",
        {{{s32(-300)}, s32(-128)}, {{300}, 127}});
  check("cvt.sat.s32.u64 $0, $1", "32 64", {{{~0ull}, s32(INT32_MAX)}});
  check("cvt.sat.u32.s64 $0, $1", "32 64",
        {{{s64(-1)}, 0}, {{1ull << 40}, ~0u}});
}

TEST_F(Conversions, BetweenFloats) {
  check("cvt.rn.f32.f64 $0, $1", "32 64",
        {{{bits(1 + 0x1p-24)}, bits(1.f)},
         {{bits(1 + 0x1p-24 + 0x1p-50)}, bits(std::nextafter(1.f, 2.f))},
         {{bits(1e300)}, inf32},
         {{nan64}, nan32},
         {{bits(0x1p-149)}, 1}});
  check("cvt.rz.f32.f64 $0, $1", "32 64",
        {{{bits(1e300)}, 0x7f7fffff}, {{bits(-1 - 0x1p-30)}, bits(-1.f)}});
  check("cvt.rm.f32.f64 $0, $1", "32 64",
        {{{bits(-1 - 0x1p-30)}, bits(-std::nextafter(1.f, 2.f))}});
  check("cvt.rp.f32.f64 $0, $1", "32 64", {{{bits(0x1p-200)}, 1}});
  check("cvt.f64.f32 $0, $1", "64 32", {{{bits(1.5f)}, bits(1.5)}});
  check("cvt.f32.f16 $0, $1", "32 16",
        {{{0x3c00}, bits(1.f)}, {{1}, bits(0x1p-24f)}, {{0xfc00}, 0xff800000}});
  check("cvt.f32.bf16 $0, $1", "32 16", {{{0x3fc0}, bits(1.5f)}});
  check("cvt.rn.bf16.f32 $0, $1", "16 32",
        {{{0x3f808000}, 0x3f80},
         {{0x3f818000}, 0x3f82},
         {{0x3f808001}, 0x3f81},
         {{0x7f800001}, 0x7fff},
         {{0x7f7fffff}, 0x7f80}});
  check("cvt.rz.bf16.f32 $0, $1", "16 32",
        {{{0x3f80ffff}, 0x3f80}, {{0x7f7fffff}, 0x7f7f}});
  check("cvt.rn.f16.f32 $0, $1", "16 32",
        {{{bits(65519.f)}, 0x7bff},
         {{bits(65520.f)}, 0x7c00},
         {{bits(0x1p-25f)}, 0},
         {{bits(0x1.8p-25f)}, 1},
         {{nan32}, 0x7fff}});
  check("cvt.rn.f16.f64 $0, $1", "16 64",
        // Through f32, this would be rounded up twice.
        {{{bits(1 + 0x1p-11 + 0x1p-40)}, 0x3c01},
         {{bits(1 + 0x1p-11 - 0x1p-40)}, 0x3c00}});
  check("cvt.rn.relu.f16.f32 $0, $1", "16 32",
        {{{bits(-1.f)}, 0}, {{bits(1.f)}, 0x3c00}, {{nan32}, 0x7fff}});
  check("cvt.rna.tf32.f32 $0, $1", "32 32",
        {{{0x3f801000}, 0x3f802000},
         {{0x3f800fff}, 0x3f800000},
         {{0xbf801000}, 0xbf802000}});
  check("cvt.rn.f16x2.f32 $0, $1, $2", "32 32 32",
        {{{bits(1.f), bits(2.f)}, 0x3c004000}});
  check("cvt.rn.bf16x2.f32 $0, $1, $2", "32 32 32",
        {{{bits(1.f), bits(2.f)}, 0x3f804000}});
  check("cvt.rz.bf16x2.f32 $0, $1, $2", "32 32 32",
        {{{0x3f80ffff, 0xbf80ffff}, 0x3f80bf80}});
  check("cvt.rn.relu.bf16x2.f32 $0, $1, $2", "32 32 32",
        {{{bits(-1.f), bits(2.f)}, 0x00004000}});
}

TEST_F(Conversions, FloatsToWholeFloats) {
  check("cvt.rni.f32.f32 $0, $1", "32 32",
        {{{bits(2.5f)}, bits(2.f)},
         {{bits(-0.4f)}, negative32},
         {{bits(3.5f)}, bits(4.f)},
         {{nan32}, nan32}});
  check("cvt.rzi.f32.f32 $0, $1", "32 32", {{{bits(-2.7f)}, bits(-2.f)}});
  check("cvt.rmi.f32.f32 $0, $1", "32 32", {{{bits(-2.1f)}, bits(-3.f)}});
  check("cvt.rpi.f64.f64 $0, $1", "64 64", {{{bits(2.1)}, bits(3.0)}});
  check("cvt.rmi.f16.f16 $0, $1", "16 16", {{{0x3e00}, 0x3c00}});
  check("cvt.sat.f32.f32 $0, $1", "32 32",
        {{{bits(2.f)}, bits(1.f)},
         {{bits(-2.f)}, 0},
         {{nan32}, 0},
         {{bits(.3f)}, bits(.3f)}});
  check("cvt.ftz.f32.f32 $0, $1", "32 32",
        {{{1}, 0}, {{bits(1.f)}, bits(1.f)}});
  check("cvt.rn.ftz.f32.f64 $0, $1", "32 64", {{{bits(0x1p-140)}, 0}});
}

/// Every f16 to f32 and back is itself; from f32, ties go to even.
TEST_F(Conversions, EveryF16) {
  std::vector<std::vector<uint64_t>> operands;
  for (unsigned i = 0; i < 65536; i += 1)
    operands.push_back({i});
  auto floats = evaluate("cvt.f32.f16 $0, $1", "32 16", operands);
  for (unsigned i = 0; i < 65536; ++i)
    operands[i] = {floats[i]};
  auto halves = evaluate("cvt.rn.f16.f32 $0, $1", "16 32", operands);
  for (unsigned i = 0; i < 65536; ++i) {
    bool isNaN = (i & 0x7fff) > 0x7c00;
    ASSERT_EQ(isNaN ? 0x7fffu : i, halves[i]);
  }
  // Halfway between two neighbours.
  for (unsigned i = 0; i < 0x7bff; ++i) {
    float low = std::bit_cast<float>(static_cast<uint32_t>(floats[i]));
    float high = std::bit_cast<float>(static_cast<uint32_t>(floats[i + 1]));
    operands[i] = {bits((low + high) / 2)};
  }
  operands.resize(0x7800);
  halves = evaluate("cvt.rn.f16.f32 $0, $1", "16 32", operands);
  for (unsigned i = 0; i < 0x7800; ++i)
    ASSERT_EQ(i + (i & 1), halves[i]);
}

TEST_F(Conversions, Moves) {
  check("mov.b32 $0, {$1, $2}", "32 16 16", {{{0x1234, 0x5678}, 0x56781234}});
  check("mov.b32 {%h20, $0}, $1", "16 32", {{{0x56781234}, 0x5678}});
  check("mov.b32 {$0, _}, $1", "16 32", {{{0x56781234}, 0x1234}});
  check("mov.b64 $0, {$1, $2}", "64 32 32", {{{1, 2}, 0x200000001}});
  check("mov.b64 {%r20, $0}, $1", "32 64", {{{0x200000001}, 2}});
  check("mov.b64 $0, {$1, $2, $1, $2}", "64 16 16",
        {{{0x1234, 0x5678}, 0x5678123456781234}});
  check("mov.b64 {%h20, %h21, $0, _}, $1", "16 64",
        {{{0x1111222233334444}, 0x2222}});
  check("mov.b32 $0, 0f3F800000", "32", {{{}, bits(1.f)}});
  check("mov.b64 $0, 0d3FF0000000000000", "64", {{{}, bits(1.0)}});
  check("mov.b32 $0, -0x10", "32", {{{}, s32(-16)}});
  check("mov.b32 $0, 017", "32", {{{}, 15}});
  check("mov.b32 $0, 0b101", "32", {{{}, 5}});
  check("mov.u32 $0, 4294967295U", "32", {{{}, 0xffffffff}});
}

} // namespace
