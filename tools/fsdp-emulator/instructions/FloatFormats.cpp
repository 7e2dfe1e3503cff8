//===- FloatFormats.cpp - Bits of floating-point numbers, and rounding ----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "instructions/FloatFormats.h"

#include <algorithm>

namespace fsdp::emulator {

FloatFormat formatOf(Type type) {
  switch (type) {
  case Type::F16:
    return {5, 10};
  case Type::BF16:
    return {8, 7};
  case Type::TF32:
    return {8, 10};
  case Type::F32:
    return {8, 23};
  default:
    return {11, 52};
  }
}

/// Whether what was cut off, `half` of a unit and `rest` below it, moves a
/// number away from zero.
static bool roundsUp(bool isNegative, bool isOdd, bool half, bool rest,
                     Rounding rounding) {
  switch (rounding) {
  case Rounding::Nearest:
    return half && (rest || isOdd);
  case Rounding::Away:
    return half;
  case Rounding::Zero:
    return false;
  case Rounding::Down:
    return isNegative && (half || rest);
  case Rounding::Up:
    return !isNegative && (half || rest);
  }
  return false;
}

uint64_t encodeScaled(bool isNegative, uint64_t mantissa, int exponent,
                      bool isInexact, FloatFormat format, Rounding rounding) {
  auto mantissaBits = static_cast<int>(format.mantissaBits);
  uint64_t sign = uint64_t{isNegative}
                  << (format.exponentBits + format.mantissaBits);
  if (mantissa == 0)
    return sign;
  int bias = (1 << (format.exponentBits - 1)) - 1;
  int zeros = std::countl_zero(mantissa);
  // The number is 1.f * 2^top, with the one at bit 63.
  mantissa <<= zeros;
  int top = exponent + 63 - zeros;
  // Subnormal numbers have fewer bits.
  int kept = mantissaBits + 1;
  if (top < 1 - bias)
    kept -= 1 - bias - top;
  uint64_t value = 0;
  bool half = false, rest = isInexact;
  if (kept > 0) {
    int cut = 64 - kept;
    value = mantissa >> cut;
    half = mantissa >> (cut - 1) & 1;
    rest |= (mantissa & ((uint64_t{1} << (cut - 1)) - 1)) != 0;
  } else {
    half = kept == 0;
    rest |= kept < 0 || mantissa != uint64_t{1} << 63;
  }
  value += roundsUp(isNegative, value & 1, half, rest, rounding);
  // A carry out of the mantissa counts the exponent up.
  uint64_t bits = value;
  if (top >= 1 - bias)
    bits += static_cast<uint64_t>(top + bias - 1) << mantissaBits;
  uint64_t infinity = ((uint64_t{1} << format.exponentBits) - 1)
                      << mantissaBits;
  if (bits < infinity)
    return sign | bits;
  bool isInfinite = rounding == Rounding::Nearest ||
                    rounding == Rounding::Away ||
                    (rounding == Rounding::Down && isNegative) ||
                    (rounding == Rounding::Up && !isNegative);
  return sign | (isInfinite ? infinity : infinity - 1);
}

uint64_t encodeFloat(double value, Type type, Rounding rounding) {
  FloatFormat format = formatOf(type);
  if (type == Type::F64)
    return std::bit_cast<uint64_t>(value);
  uint64_t sign = uint64_t{std::signbit(value)}
                  << (format.exponentBits + format.mantissaBits);
  uint64_t exponents = ((uint64_t{1} << format.exponentBits) - 1)
                       << format.mantissaBits;
  uint64_t bits = 0;
  if (value != value) {
    bits = exponents | ((uint64_t{1} << format.mantissaBits) - 1);
  } else if (std::isinf(value)) {
    bits = sign | exponents;
  } else {
    int exponent = 0;
    double fraction = std::frexp(std::fabs(value), &exponent);
    auto mantissa = static_cast<uint64_t>(std::ldexp(fraction, 53));
    bits = encodeScaled(std::signbit(value), mantissa, exponent - 53, false,
                        format, rounding);
  }
  // tf32 lies in the upper bits of a register.
  return type == Type::TF32 ? bits << 13 : bits;
}

double decodeFloat(uint64_t bits, Type type) {
  switch (type) {
  case Type::BF16:
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  case Type::TF32:
    return std::bit_cast<float>(static_cast<uint32_t>(bits) & 0xffffe000u);
  case Type::F32:
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  case Type::F64:
    return std::bit_cast<double>(bits);
  default:
    break;
  }
  // f16.
  double sign = bits & 0x8000 ? -1 : 1;
  auto exponent = static_cast<int>(bits >> 10 & 31);
  auto mantissa = static_cast<int>(bits & 1023);
  if (exponent == 31)
    return mantissa ? std::nan("") : sign * INFINITY;
  if (exponent == 0)
    return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

double addRoundedToOdd(double a, double b) {
  double sum = a + b;
  if (!std::isfinite(sum))
    return sum;
  // Knuth's: error is what `sum` lacks, exactly.
  double partOfB = sum - a;
  double error = (a - (sum - partOfB)) + (b - partOfB);
  auto bits = std::bit_cast<uint64_t>(sum);
  if (error == 0 || (bits & 1))
    return sum;
  // Towards the exact sum, where the neighbour is odd.
  bool isAway = (error > 0) == (sum > 0);
  return std::bit_cast<double>(isAway ? bits + 1 : bits - 1);
}

} // namespace fsdp::emulator
