//===- FloatTest.cpp - Instructions of f32 and f64 ------------------------===//
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

/// The smallest subnormal and normal numbers, the largest one.
constexpr uint64_t tiny = 1, smallest = 0x00800000, largest = 0x7f7fffff;

class Floats : public InstructionTest {};

TEST_F(Floats, Sums) {
  check("add.rn.f32 $0, $1, $2", "32 32 32",
        {{{bits(1.5f), bits(2.25f)}, bits(3.75f)},
         {{inf32, inf32 | negative32}, nan32},
         {{0x7fc12345, bits(1.f)}, nan32},
         {{largest, largest}, inf32},
         {{tiny, tiny}, 2},
         {{bits(16777216.f), bits(1.f)}, bits(16777216.f)},
         {{bits(16777218.f), bits(1.f)}, bits(16777220.f)},
         {{bits(-1.f), bits(1.f)}, 0},
         {{negative32, negative32}, negative32}});
  check("add.f32 $0, $1, $2", "32 32 32",
        {{{bits(1.f), bits(2.f)}, bits(3.f)}});
  check("add.ftz.f32 $0, $1, $2", "32 32 32",
        {{{tiny, tiny}, 0},
         {{tiny | negative32, tiny | negative32}, negative32},
         {{smallest, smallest + 1 + negative32}, negative32}});
  check("add.sat.f32 $0, $1, $2", "32 32 32",
        {{{bits(1.f), bits(2.f)}, bits(1.f)},
         {{bits(-1.f), bits(.5f)}, 0},
         {{nan32, bits(.5f)}, 0},
         {{bits(.25f), bits(.5f)}, bits(.75f)}});
  // 1 + 2^-30 in each direction.
  float ulp = std::nextafter(1.f, 2.f);
  std::vector<uint64_t> operands = {bits(1.f), bits(0x1p-30f)};
  check("add.rz.f32 $0, $1, $2", "32 32 32", {{operands, bits(1.f)}});
  check("add.rp.f32 $0, $1, $2", "32 32 32", {{operands, bits(ulp)}});
  check("add.rm.f32 $0, $1, $2", "32 32 32",
        {{operands, bits(1.f)},
         {{bits(-1.f), bits(-0x1p-30f)}, bits(-ulp)},
         {{bits(1.f), bits(-1.f)}, negative32}});
  check("sub.rn.f64 $0, $1, $2", "64 64 64",
        {{{bits(1.0), bits(0x1p-60)}, bits(1.0)},
         {{bits(3.0), bits(5.0)}, bits(-2.0)}});
  check("add.rz.f64 $0, $1, $2", "64 64 64",
        {{{bits(1.0), bits(-0x1p-60)}, bits(std::nextafter(1.0, 0.0))}});
}

TEST_F(Floats, Products) {
  check("mul.rn.f32 $0, $1, $2", "32 32 32",
        {{{bits(3.f), bits(-.5f)}, bits(-1.5f)},
         {{inf32, 0}, nan32},
         {{bits(0x1p-100f), bits(0x1p-49f)}, tiny},
         {{bits(0x1p-100f), bits(0x1p-50f)}, 0},
         {{bits(0x1.8p-100f), bits(0x1p-50f)}, tiny},
         {{largest, bits(2.f)}, inf32}});
  check("mul.ftz.f32 $0, $1, $2", "32 32 32",
        {{{bits(0x1p-100f), bits(0x1p-49f)}, 0}, {{tiny, bits(0x1p100f)}, 0}});
  // A product that is not rounded before the sum.
  float a = 1 + 0x1p-12f, c = -(1 + 0x1p-11f);
  check("fma.rn.f32 $0, $1, $2, $3", "32 32 32 32",
        {{{bits(a), bits(a), bits(c)}, bits(0x1p-24f)},
         {{inf32, 0, bits(1.f)}, nan32},
         {{bits(2.f), bits(3.f), bits(4.f)}, bits(10.f)}});
  check("mul.rn.f32 %f20, $1, $2;\nadd.rn.f32 $0, %f20, $3", "32 32 32 32",
        {{{bits(a), bits(a), bits(c)}, 0}});
  check("fma.rm.f32 $0, $1, $2, $3", "32 32 32 32",
        {{{bits(a), bits(a), bits(1.f)}, bits(0x1.001p1f)},
         {{bits(a), bits(-a), bits(-1.f)}, bits(-0x1.001002p1f)}});
  check("fma.rz.f32 $0, $1, $2, $3", "32 32 32 32",
        {{{bits(a), bits(-a), bits(-1.f)}, bits(-0x1.001p1f)}});
  check("fma.rn.sat.f32 $0, $1, $2, $3", "32 32 32 32",
        {{{bits(2.f), bits(3.f), bits(4.f)}, bits(1.f)}});
  double wide = 1 + 0x1p-27;
  check("fma.rn.f64 $0, $1, $2, $3", "64 64 64 64",
        {{{bits(wide), bits(wide), bits(-1 - 0x1p-26)}, bits(0x1p-54)}});
}

TEST_F(Floats, Quotients) {
  check("div.rn.f32 $0, $1, $2", "32 32 32",
        {{{bits(1.f), bits(3.f)}, bits(1.f / 3.f)},
         {{bits(1.f), 0}, inf32},
         {{bits(1.f), negative32}, inf32 | negative32},
         {{0, 0}, nan32},
         {{inf32, inf32}, nan32},
         {{tiny, bits(2.f)}, 0},
         {{3, bits(2.f)}, 2}});
  check("div.rn.ftz.f32 $0, $1, $2", "32 32 32", {{{3, bits(2.f)}, 0}});
  check("div.rz.f32 $0, $1, $2", "32 32 32",
        {{{bits(2.f), bits(3.f)}, bits(std::nextafter(2.f / 3.f, 0.f))}});
  check("div.full.f32 $0, $1, $2", "32 32 32",
        {{{bits(0x1p127f), bits(0x1p127f)}, bits(1.f)}});
  // Of large divisors, the approximation is zero.
  check("div.approx.f32 $0, $1, $2", "32 32 32",
        {{{bits(6.f), bits(3.f)}, bits(2.f)},
         {{bits(0x1p127f), bits(0x1p127f)}, 0},
         {{bits(-0x1p127f), bits(0x1p127f)}, negative32},
         {{inf32, bits(0x1p127f)}, nan32}});
  check("div.rn.f64 $0, $1, $2", "64 64 64",
        {{{bits(1.0), bits(3.0)}, bits(1.0 / 3.0)}, {{bits(1.0), 0}, inf64}});
  check("rcp.rn.f32 $0, $1", "32 32",
        {{{bits(3.f)}, bits(1 / 3.f)}, {{negative32}, inf32 | negative32}});
  check("rcp.approx.ftz.f32 $0, $1", "32 32",
        {{{bits(4.f)}, bits(.25f)}, {{tiny}, inf32}, {{bits(0x1p127f)}, 0}});
  check("rcp.rn.f64 $0, $1", "64 64", {{{bits(3.0)}, bits(1 / 3.0)}});
  check("sqrt.rn.f32 $0, $1", "32 32",
        {{{bits(2.f)}, bits(std::sqrt(2.f))},
         {{bits(-1.f)}, nan32},
         {{negative32}, negative32},
         {{tiny}, bits(std::sqrt(0x1p-149f))}});
  check("sqrt.rp.f32 $0, $1", "32 32",
        {{{bits(2.f)}, bits(std::nextafter(std::sqrt(2.f), 2.f))}});
  check("rsqrt.approx.f32 $0, $1", "32 32",
        {{{bits(4.f)}, bits(.5f)},
         {{0}, inf32},
         {{inf32}, 0},
         {{bits(-1.f)}, nan32}});
  check("sqrt.rn.f64 $0, $1", "64 64", {{{bits(2.0)}, bits(std::sqrt(2.0))}});
}

TEST_F(Floats, Extremes) {
  check("min.f32 $0, $1, $2", "32 32 32",
        {{{bits(1.f), bits(2.f)}, bits(1.f)},
         {{nan32, bits(2.f)}, bits(2.f)},
         {{bits(2.f), nan32}, bits(2.f)},
         {{nan32, 0x7fc00001}, nan32},
         {{0, negative32}, negative32},
         {{negative32, 0}, negative32}});
  check("max.f32 $0, $1, $2", "32 32 32",
        {{{bits(1.f), bits(2.f)}, bits(2.f)},
         {{0, negative32}, 0},
         {{negative32, 0}, 0},
         {{nan32, bits(-2.f)}, bits(-2.f)}});
  check("max.NaN.f32 $0, $1, $2", "32 32 32",
        {{{0xffc00001, bits(2.f)}, nan32},
         {{bits(2.f), 0x7f800001}, nan32},
         {{bits(3.f), bits(2.f)}, bits(3.f)}});
  check("min.ftz.f32 $0, $1, $2", "32 32 32", {{{tiny, bits(2.f)}, 0}});
  check("max.f64 $0, $1, $2", "64 64 64",
        {{{nan64, bits(2.0)}, bits(2.0)}, {{negative64, 0}, 0}});
}

TEST_F(Floats, Signs) {
  check("neg.f32 $0, $1", "32 32",
        {{{bits(1.f)}, bits(-1.f)}, {{0}, negative32}});
  check("abs.f32 $0, $1", "32 32",
        {{{bits(-1.f)}, bits(1.f)}, {{inf32 | negative32}, inf32}});
  check("abs.ftz.f32 $0, $1", "32 32", {{{tiny | negative32}, 0}});
  check("neg.f64 $0, $1", "64 64", {{{bits(1.0)}, bits(-1.0)}});
  check("copysign.f32 $0, $1, $2", "32 32 32",
        {{{bits(-1.f), bits(2.f)}, bits(-2.f)}, {{0, bits(-2.f)}, bits(2.f)}});
  check("copysign.f64 $0, $1, $2", "64 64 64",
        {{{negative64, bits(2.0)}, bits(-2.0)}});
}

TEST_F(Floats, Properties) {
  auto checkProperty = [&](const char *name, std::vector<uint64_t> results) {
    uint64_t operands[] = {bits(1.f), inf32 | negative32, 0x7f800001, tiny, 0};
    std::vector<Row> rows;
    for (size_t i = 0; i < results.size(); ++i)
      rows.push_back({{operands[i]}, results[i]});
    check("testp." + std::string(name) + ".f32 $0, $1", "p 32", rows);
  };
  checkProperty("finite", {1, 0, 0, 1, 1});
  checkProperty("infinite", {0, 1, 0, 0, 0});
  checkProperty("number", {1, 1, 0, 1, 1});
  checkProperty("notanumber", {0, 0, 1, 0, 0});
  checkProperty("normal", {1, 0, 0, 0, 0});
  checkProperty("subnormal", {0, 0, 0, 1, 0});
  check("testp.subnormal.f64 $0, $1", "p 64", {{{1}, 1}, {{bits(1.0)}, 0}});
}

TEST_F(Floats, SpecialFunctions) {
  check("ex2.approx.f32 $0, $1", "32 32",
        {{{0}, bits(1.f)},
         {{bits(3.f)}, bits(8.f)},
         {{bits(-149.f)}, tiny},
         {{bits(-151.f)}, 0},
         {{bits(128.f)}, inf32},
         {{inf32 | negative32}, 0},
         {{inf32}, inf32},
         {{nan32}, nan32}});
  check("ex2.approx.ftz.f32 $0, $1", "32 32",
        {{{bits(-149.f)}, 0}, {{tiny}, bits(1.f)}});
  check("lg2.approx.f32 $0, $1", "32 32",
        {{{bits(8.f)}, bits(3.f)},
         {{0}, inf32 | negative32},
         {{negative32}, inf32 | negative32},
         {{bits(-1.f)}, nan32},
         {{inf32}, inf32}});
  check("sin.approx.f32 $0, $1", "32 32", {{{0}, 0}, {{inf32}, nan32}});
  check("cos.approx.f32 $0, $1", "32 32", {{{0}, bits(1.f)}});
  check("tanh.approx.f32 $0, $1", "32 32",
        {{{0}, 0}, {{inf32}, bits(1.f)}, {{bits(-20.f)}, bits(-1.f)}});
}

/// Errors over many arguments, in units of the last place.
TEST_F(Floats, FunctionsAreAccurate) {
  struct Function {
    const char *instruction;
    double (*exact)(double);
    float least, most;
  };
  const Function functions[] = {
      {"ex2.approx.f32 $0, $1", [](double x) { return std::exp2(x); }, -120,
       120},
      {"lg2.approx.f32 $0, $1", [](double x) { return std::log2(x); }, 2,
       1e30f},
      {"rsqrt.approx.f32 $0, $1", [](double x) { return 1 / std::sqrt(x); },
       1e-30f, 1e30f},
      {"tanh.approx.f32 $0, $1", [](double x) { return std::tanh(x); }, -9, 9},
      {"sin.approx.f32 $0, $1", [](double x) { return std::sin(x); }, .1f, 3},
  };
  std::mt19937 random(1);
  for (const Function &function : functions) {
    std::uniform_real_distribution<float> values(function.least, function.most);
    std::vector<std::vector<uint64_t>> operands(4096);
    for (auto &row : operands)
      row = {bits(values(random))};
    auto results = evaluate(function.instruction, "32 32", operands);
    for (size_t i = 0; i < results.size(); ++i) {
      float x = std::bit_cast<float>(static_cast<uint32_t>(operands[i][0]));
      float got = std::bit_cast<float>(static_cast<uint32_t>(results[i]));
      double exact = function.exact(x);
      ASSERT_LE(std::fabs(got - exact), 1.5e-7 * std::fabs(exact))
          << function.instruction << " of " << x;
    }
  }
}

/// What the host computes of random bits, NaNs and subnormal numbers among
/// them.
TEST_F(Floats, AgreeWithTheHost) {
  std::mt19937_64 random(2);
  std::vector<std::vector<uint64_t>> operands(8192);
  for (auto &row : operands)
    row = {static_cast<uint32_t>(random()), static_cast<uint32_t>(random())};
  auto host = [](uint64_t value) {
    return std::bit_cast<float>(static_cast<uint32_t>(value));
  };
  auto compare = [&](const char *instruction, auto compute) {
    auto results = evaluate(instruction, "32 32 32", operands);
    for (size_t i = 0; i < results.size(); ++i) {
      volatile float a = host(operands[i][0]), b = host(operands[i][1]);
      float exact = compute(a, b);
      uint64_t expected = exact != exact ? nan32 : bits(exact);
      ASSERT_EQ(expected, results[i]) << instruction << a << " " << b;
    }
  };
  compare("add.rn.f32 $0, $1, $2", [](float a, float b) { return a + b; });
  compare("mul.rn.f32 $0, $1, $2", [](float a, float b) { return a * b; });
  compare("div.rn.f32 $0, $1, $2", [](float a, float b) { return a / b; });
}

} // namespace
