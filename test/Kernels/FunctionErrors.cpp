//===- FunctionErrors.cpp - Arguments of functions, and errors ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For functions.py:
//
//   fsdp-function-errors arguments TYPE OPERANDS DENSITY FILE
//   fsdp-function-errors errors FUNCTION TYPE ARGUMENTS RESULTS
//
// The first writes arguments of one or two operands, all of the first one and
// then all of the second, as bits in little-endian order. The second compares a
// function's results for them with long double's and prints the largest error
// in units in the last place, the argument where it is found, and how many
// results differ from those for the same arguments earlier in the file: vectors
// and the remainder of a loop have to compute the same bits.
//
//===----------------------------------------------------------------------===//

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

using Real = long double;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

namespace {
struct Format {
  int bytes;
  /// Of the significand with its leading bit, and of the exponent.
  int precision, exponentBits;

  int getBias() const { return (1 << (exponentBits - 1)) - 1; }
  uint64_t getSign() const { return uint64_t(1) << (8 * bytes - 1); }
  uint64_t getInfinity() const {
    return ((uint64_t(1) << exponentBits) - 1) << (precision - 1);
  }
  Real decode(uint64_t bits) const;
  /// Rounded towards zero; finite.
  uint64_t encode(Real value) const;
};
} // namespace

static const std::map<std::string, Format> formats = {
    {"f64", {8, 53, 11}},
    {"f32", {4, 24, 8}},
    {"f16", {2, 11, 5}},
    {"bf16", {2, 8, 8}},
};

Real Format::decode(uint64_t bits) const {
  Real sign = bits & getSign() ? -1 : 1;
  uint64_t size = bits & (getSign() - 1);
  if (size > getInfinity())
    return std::numeric_limits<Real>::quiet_NaN();
  if (size == getInfinity())
    return sign * std::numeric_limits<Real>::infinity();
  int64_t exponent = int64_t(size >> (precision - 1));
  uint64_t digits = size & ((uint64_t(1) << (precision - 1)) - 1);
  if (exponent > 0)
    digits |= uint64_t(1) << (precision - 1);
  exponent = std::max<int64_t>(exponent, 1) - getBias() - (precision - 1);
  return sign * std::ldexp(Real(digits), int(exponent));
}

uint64_t Format::encode(Real value) const {
  uint64_t sign = std::signbit(value) ? getSign() : 0;
  Real size = std::fabs(value);
  if (size == 0)
    return sign;
  int least = 2 - getBias() - precision;
  int unit = std::max(std::ilogb(size) - precision + 1, least);
  uint64_t digits = uint64_t(std::ldexp(size, -unit));
  // With the leading bit, the exponent's field goes up by one.
  uint64_t bits = (uint64_t(unit - least) << (precision - 1)) + digits;
  return sign | std::min(bits, getInfinity() - 1);
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

/// Arguments from anywhere in a file that stand at its end, too.
constexpr size_t kRepeated = 64;

static std::vector<uint64_t> getSpecials(const Format &format) {
  std::vector<uint64_t> result;
  uint64_t one = format.encode(1);
  for (uint64_t size :
       {uint64_t(0), uint64_t(1), uint64_t(2),
        (uint64_t(1) << (format.precision - 1)) - 1,
        uint64_t(1) << (format.precision - 1), one - 1, one, one + 1,
        format.encode(0.5), format.encode(2), format.encode(3),
        format.encode(1.57079632679489661923L),
        format.encode(3.14159265358979323846L), format.getInfinity() - 1,
        format.getInfinity(),
        format.getInfinity() | (uint64_t(1) << (format.precision - 2)),
        format.getSign() - 1})
    for (uint64_t sign : {uint64_t(0), format.getSign()})
      result.push_back(size | sign);
  return result;
}

/// Of 16 bits: each `density`-th number. Of others: of every exponent `density`
/// significands with alternating signs, and more from ranges where functions
/// bend. Special numbers are in front and at the end, where some of the others
/// alternate with them: a loop's remainder gets both.
static std::vector<uint64_t> getArguments(const Format &format, int density) {
  std::mt19937_64 random(1);
  std::vector<uint64_t> specials = getSpecials(format), result = specials;
  uint64_t digits = uint64_t(1) << (format.precision - 1);
  if (format.bytes == 2) {
    for (uint64_t bits = 0; bits < 0x10000; bits += uint64_t(density))
      result.push_back(bits);
  } else {
    for (uint64_t exponent = 0; exponent < format.getInfinity() / digits;
         ++exponent)
      for (int i = 0; i < density; ++i)
        result.push_back(exponent * digits + random() % digits +
                         (i % 2 ? format.getSign() : 0));
    for (int shift = 0; shift < format.precision; ++shift)
      for (uint64_t sign : {uint64_t(0), format.getSign()})
        result.push_back(sign | (digits >> shift) |
                         (random() % digits >> shift));
    Real most = format.bytes == 8 ? 760 : 110;
    for (Real range : {Real(0.1), Real(0.5), Real(1.1), Real(4), Real(12), most,
                       Real(70000)})
      for (int i = 0; i < 24 * density; ++i) {
        Real part = Real(random() >> 11) / Real(uint64_t(1) << 53);
        result.push_back(format.encode((2 * part - 1) * range));
      }
    // Next to multiples of pi / 2, where reductions lose digits.
    for (int i = 1; i < 16 * density; ++i) {
      Real multiple = std::floor(std::exp2(Real(i) / density));
      uint64_t bits =
          format.encode(multiple * 1.57079632679489661923132169164L);
      result.insert(result.end(),
                    {bits, bits + 1, (bits + 1) | format.getSign()});
    }
    // Of float: the hardest ones of 2^e multiples (Kahan's search).
    if (format.bytes == 4)
      for (float hard : {0x1.921fb6p0f, 0x1.b9328ap12f, 0x1.5c4342p15f,
                         0x1.f37fc8p64f, 0x1.6ac5b2p62f, 0x1.ddebdep41f,
                         0x1.1a8ea4p66f, 0x1.d5a2b2p98f, 0x1.f7b91ap103f}) {
        result.push_back(format.encode(hard));
        result.push_back(format.encode(-hard));
      }
  }
  std::vector<uint64_t> tail;
  for (size_t i = 0; i < kRepeated; ++i) {
    if (i + specials.size() >= kRepeated)
      tail.push_back(specials[kRepeated - 1 - i]);
    tail.push_back(result[random() % result.size()]);
  }
  // No multiple of a vector's length.
  while ((result.size() + tail.size()) % 16 != 11)
    result.push_back(specials[result.size() % specials.size()]);
  result.insert(result.end(), tail.begin(), tail.end());
  return result;
}

/// All pairs of special numbers; others whose power is finite, and whose
/// quotient is near one. Some of both are at the end again.
static std::vector<uint64_t> getPairs(const Format &format, int density) {
  std::mt19937_64 random(2);
  std::vector<uint64_t> specials = getSpecials(format), first, second;
  for (uint64_t a : specials)
    for (uint64_t b : specials) {
      first.push_back(a);
      second.push_back(b);
    }
  auto draw = [&] { return Real(random() >> 11) / Real(uint64_t(1) << 53); };
  Real range = format.exponentBits == 11  ? 1030
               : format.exponentBits == 8 ? 140
                                          : 20;
  for (int i = 0; i < 256 * density; ++i) {
    Real size = std::exp2((2 * draw() - 1) * range);
    if (i % 4 == 0)
      size = 1 + (draw() - Real(0.5)) / (1 << (i % 23));
    first.push_back(format.encode(i % 7 ? size : -size));
    Real power = (2 * draw() - 1) * range * Real(1.1) / std::log2(size);
    if (i % 5 == 0)
      power = std::round(power);
    if (i % 3 == 0)
      power = size * std::exp2((2 * draw() - 1) * 12) * (i % 2 ? 1 : -1);
    if (!(std::fabs(power) < std::exp2(range)))
      power = 0.75;
    second.push_back(format.encode(power));
  }
  auto repeat = [&](size_t i) {
    first.push_back(first[i]);
    second.push_back(second[i]);
  };
  size_t count = first.size(), special = specials.size() * specials.size();
  for (size_t i = 0; i < kRepeated || first.size() % 16 != 11; ++i)
    repeat(random() % (i % 2 ? special : count));
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

namespace {
struct Function {
  int operands;
  std::function<Real(Real, Real)> compute;
  /// By whose last place errors are measured; none: the result's.
  std::function<Real(Real)> scale = {};
};
} // namespace

static Function unary(Real (*function)(Real)) {
  return {1, [function](Real x, Real) { return function(x); }, {}};
}

/// Those that exporters compose of others lose what their formula loses; of 16
/// bits they are computed in f32.
static std::map<std::string, Function> getFunctions(const Format &format) {
  int bias = format.bytes == 2 ? 127 : format.getBias();
  Real most = std::ldexp(Real(1), bias + 1);
  auto sigmoid = [=](Real x, Real) {
    Real power = std::exp(-x);
    return power < most ? 1 / (1 + power) : std::isnan(x) ? x : 0;
  };
  auto softplus = [](Real x, Real) {
    return x > 20 ? x : std::log1p(std::exp(x));
  };
  auto gelu = [](Real x, Real) {
    return x * (std::isinf(x) ? Real(x > 0)
                              : std::erfc(-x * std::sqrt(Real(0.5))) / 2);
  };
  auto geluOfTanh = [](Real x, Real) {
    constexpr Real slope = 0.79788456080286535588L;
    return x / 2 * (1 + std::tanh(slope * (x + Real(0.044715L) * x * x * x)));
  };
  // Rounded to 16 bits, what is above x / 2 is off by half of its own unit.
  auto getScale = [=](Real x, Real result) {
    return format.bytes == 2 && std::fabs(result) > std::fabs(x / 2) ? result
                                                                     : x / 2;
  };
  auto sinc = [=](Real x, Real) -> Real {
    constexpr double pi = 3.14159265358979323846;
    Real angle =
        format.bytes == 8 ? Real(double(x) * pi) : Real(float(x) * float(pi));
    return x == 0 ? 1 : std::sin(angle) / angle;
  };
  return {
      {"acos", unary(std::acos)},
      {"acosh", unary(std::acosh)},
      {"asin", unary(std::asin)},
      {"asinh", unary(std::asinh)},
      {"atan", unary(std::atan)},
      {"atan2", {2, [](Real y, Real x) { return std::atan2(y, x); }, {}}},
      {"atanh", unary(std::atanh)},
      {"cbrt", unary(std::cbrt)},
      {"cos", unary(std::cos)},
      {"cosh", unary(std::cosh)},
      {"erf", unary(std::erf)},
      {"erfc", unary(std::erfc)},
      {"exp", unary(std::exp)},
      {"exp2", unary(std::exp2)},
      {"expm1", unary(std::expm1)},
      {"log", unary(std::log)},
      {"log10", unary(std::log10)},
      {"log1p", unary(std::log1p)},
      {"log2", unary(std::log2)},
      {"powf", {2, [](Real x, Real y) { return std::pow(x, y); }, {}}},
      {"rsqrt", {1, [](Real x, Real) { return 1 / std::sqrt(x); }, {}}},
      {"sin", unary(std::sin)},
      {"sinh", unary(std::sinh)},
      {"sqrt", unary(std::sqrt)},
      {"tan", unary(std::tan)},
      {"tanh", unary(std::tanh)},
      {"sigmoid", {1, sigmoid, {}}},
      {"silu", {1, [=](Real x, Real) { return x * sigmoid(x, 0); }, {}}},
      {"softplus", {1, softplus, {}}},
      {"sinc", {1, sinc, {}}},
      // In last places of x / 2, of which 1 + erf(..) loses one.
      {"gelu", {1, gelu, [=](Real x) { return getScale(x, gelu(x, 0)); }}},
      {"gelu_tanh",
       {1, geluOfTanh, [=](Real x) { return getScale(x, geluOfTanh(x, 0)); }}},
      {"quotient", {2, [](Real x, Real y) { return x / y; }, {}}},
      {"reciprocal", {1, [](Real x, Real) { return 1 / x; }, {}}},
      {"third", {1, [](Real x, Real) { return x / 3; }, {}}},
  };
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

/// In units in the last place of `scale`; infinite where no number is near, or
/// a zero has the wrong sign.
static double getError(const Format &format, Real got, Real exact, Real scale) {
  double wrong = std::numeric_limits<double>::infinity();
  if (std::isnan(exact) || std::isnan(got))
    return std::isnan(exact) && std::isnan(got) ? 0 : wrong;
  // Instructions that round to bf16 (AVX512-BF16) make zeros of its subnormal
  // numbers.
  if (format.precision == 8 && got == 0 &&
      std::fabs(exact) < std::ldexp(Real(1), 1 - format.getBias()) &&
      std::signbit(got) == std::signbit(exact))
    return 0;
  if (exact == 0)
    return got == 0 && std::signbit(got) == std::signbit(exact) ? 0 : wrong;
  Real most = std::ldexp(Real(1), format.getBias() + 1);
  if (std::isinf(exact))
    return got == exact ? 0 : wrong;
  if (std::isinf(got))
    got = got > 0 ? most : -most;
  if (std::fabs(exact) > most)
    exact = exact > 0 ? most : -most;
  int exponent = scale == 0 ? -format.getBias() : std::ilogb(scale);
  exponent = std::clamp(exponent, 1 - format.getBias(), format.getBias());
  Real unit = std::ldexp(Real(1), exponent - format.precision + 1);
  return double(std::fabs(got - exact) / unit);
}

static std::vector<uint64_t> readBits(const char *path, int bytes) {
  std::ifstream file(path, std::ios::binary);
  std::string data{std::istreambuf_iterator<char>(file), {}};
  std::vector<uint64_t> result(data.size() / size_t(bytes));
  for (size_t i = 0; i < result.size(); ++i)
    std::memcpy(&result[i], &data[i * size_t(bytes)], size_t(bytes));
  return result;
}

static int printErrors(const std::string &name, const Format &format,
                       const char *argumentPath, const char *resultPath) {
  Function function = getFunctions(format).at(name);
  std::vector<uint64_t> arguments = readBits(argumentPath, format.bytes),
                        results = readBits(resultPath, format.bytes);
  size_t count = results.size();
  if (count == 0 || arguments.size() != count * size_t(function.operands)) {
    std::fprintf(stderr,
                 "expected a result for each argument, got %zu of %zu\n", count,
                 arguments.size());
    return 1;
  }
  double largest = -1;
  size_t at = 0, different = 0;
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> known;
  for (size_t i = 0; i < count; ++i) {
    uint64_t second = function.operands == 2 ? arguments[count + i] : 0;
    Real x = format.decode(arguments[i]), y = format.decode(second);
    Real exact = function.compute(x, y), got = format.decode(results[i]);
    double error = getError(format, got, exact,
                            function.scale ? function.scale(x) : exact);
    if (error > largest) {
      largest = error;
      at = i;
    }
    auto [it, isNew] = known.try_emplace({arguments[i], second}, results[i]);
    different += !isNew && it->second != results[i] &&
                 !(std::isnan(got) && std::isnan(format.decode(it->second)));
  }
  Real x = format.decode(arguments[at]);
  Real y = function.operands == 2 ? format.decode(arguments[count + at]) : 0;
  std::printf("%.3f %zu %.17Lg,%.17Lg gives %.17Lg, exactly %.21Lg\n", largest,
              different, x, y, format.decode(results[at]),
              function.compute(x, y));
  return 0;
}

int main(int count, char **words) {
  std::string mode = count > 1 ? words[1] : "";
  if (mode == "arguments" && count == 6) {
    const Format &format = formats.at(words[2]);
    int density = std::atoi(words[4]);
    std::vector<uint64_t> all = words[3][0] == '2'
                                    ? getPairs(format, density)
                                    : getArguments(format, density);
    std::ofstream file(words[5], std::ios::binary);
    for (uint64_t bits : all)
      file.write(reinterpret_cast<const char *>(&bits), format.bytes);
    return file.good() ? 0 : 1;
  }
  if (mode == "errors" && count == 6)
    return printErrors(words[2], formats.at(words[3]), words[4], words[5]);
  std::fprintf(stderr, "usage: fsdp-function-errors arguments TYPE OPERANDS "
                       "DENSITY FILE\n       fsdp-function-errors errors "
                       "FUNCTION TYPE ARGUMENTS RESULTS\n");
  return 2;
}
