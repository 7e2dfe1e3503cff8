//===- FloatFormats.h - Bits of floating-point numbers, and rounding ------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_INSTRUCTIONS_FLOATFORMATS_H
#define FSDP_EMULATOR_INSTRUCTIONS_FLOATFORMATS_H

#include "ptx/Types.h"

#include <bit>
#include <cmath>

namespace fsdp::emulator {

enum class Rounding : uint8_t {
  /// To the nearest, ties to even: .rn, .rni.
  Nearest,
  Zero,
  Down,
  Up,
  /// To the nearest, ties away from zero: .rna.
  Away,
};

/// A format of IEEE 754's kind.
struct FloatFormat {
  unsigned exponentBits;
  unsigned mantissaBits;
};
FloatFormat formatOf(Type type);

/// `mantissa` * 2^`exponent` in `format`, rounded once. `isInexact`: a little
/// more than that, by less than one unit of the mantissa.
uint64_t encodeScaled(bool isNegative, uint64_t mantissa, int exponent,
                      bool isInexact, FloatFormat format, Rounding rounding);
/// The bits of a number in the format of `type`; NaNs become PTX's one NaN.
uint64_t encodeFloat(double value, Type type, Rounding rounding);
/// The number that bits of f16, bf16, tf32, f32 or f64 are.
double decodeFloat(uint64_t bits, Type type);

/// What a device gives for every NaN that it computes in f32.
inline float canonicalNaN() { return std::bit_cast<float>(0x7fffffffu); }
inline float canonical(float value) {
  return value != value ? canonicalNaN() : value;
}
inline double canonical(double value) { return value; }

/// .ftz: subnormal numbers become zeros of their sign.
inline float flush(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  return bits & 0x7f800000 ? value : std::bit_cast<float>(bits & 0x80000000u);
}
/// .sat: between 0 and 1; +0 for NaN.
template <typename T>
T saturate(T value) {
  return value >= T(1) ? T(1) : value > T(0) ? value : T(0);
}

inline float floatOfBF16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}
inline uint16_t bf16OfFloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return static_cast<uint16_t>(value != value ? 0x7fff : rounded);
}

#if defined(__F16C__) || defined(__aarch64__)
inline float floatOfF16(uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}
inline uint16_t f16OfFloat(float value) {
  auto bits = std::bit_cast<uint16_t>(static_cast<_Float16>(value));
  return value != value ? 0x7fff : bits;
}
#else
inline float floatOfF16(uint16_t bits) {
  return static_cast<float>(decodeFloat(bits, Type::F16));
}
inline uint16_t f16OfFloat(float value) {
  return static_cast<uint16_t>(
      encodeFloat(value, Type::F16, Rounding::Nearest));
}
#endif

/// a + b, and `value` as a float, with the last bit set where they are not
/// exact, so that rounding them to fewer bits rounds the exact number.
double addRoundedToOdd(double a, double b);
inline float roundToOdd(double value) {
  auto nearest = static_cast<float>(value);
  auto bits = std::bit_cast<uint32_t>(nearest);
  bool isExact = nearest == value || value != value || (bits & 1);
  bool isShort = std::fabs(value) > std::fabs(static_cast<double>(nearest));
  return isExact ? nearest
                 : std::bit_cast<float>(isShort ? bits + 1 : bits - 1);
}

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_INSTRUCTIONS_FLOATFORMATS_H
