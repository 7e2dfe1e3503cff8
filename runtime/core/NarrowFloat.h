//===- NarrowFloat.h - float16 and bfloat16 in registers --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Without branches and without the processor's own conversions, so that
// compilers vectorise loops over them on any target, and every target gives
// the same bits. Rounding is to nearest, ties to even; NaNs stay NaNs.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_NARROWFLOAT_H
#define FSDP_RT_CORE_NARROWFLOAT_H

#include <cstdint>
#include <cstring>

// Inlined even into functions compiled for a larger instruction set.
#define FSDP_RT_INLINE inline __attribute__((always_inline))

namespace fsdp::rt {

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

FSDP_RT_INLINE uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

FSDP_RT_INLINE float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

FSDP_RT_INLINE float toFloat(BFloat16 value) {
  return floatOf(uint32_t(value.bits) << 16);
}

FSDP_RT_INLINE float toFloat(Float16 value) {
  constexpr uint32_t exponent = 0x7c00u << 13;
  uint32_t magnitude = uint32_t(value.bits & 0x7fff) << 13;
  uint32_t sign = uint32_t(value.bits & 0x8000) << 16;
  // The exponent's bias, once for numbers and twice for infinity and NaN.
  uint32_t bias = (127u - 15) << 23;
  uint32_t large = (magnitude & exponent) == exponent ? bias : 0;
  uint32_t normal = magnitude + bias + large;
  // Denormals: put the fraction below a leading 2^-14 and take that off again.
  constexpr uint32_t smallest = 113u << 23;
  uint32_t denormal = bitsOf(floatOf(magnitude + smallest) - floatOf(smallest));
  uint32_t bits = (magnitude & exponent) == 0 ? denormal : normal;
  return floatOf(bits | sign);
}

FSDP_RT_INLINE float toFloat(float value) { return value; }

FSDP_RT_INLINE void fromFloat(float value, float &result) { result = value; }

FSDP_RT_INLINE void fromFloat(float value, BFloat16 &result) {
  uint32_t bits = bitsOf(value);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  uint32_t quiet = (bits >> 16) | 0x40;
  bool isNan = (bits & 0x7fffffff) > 0x7f800000;
  result.bits = static_cast<uint16_t>(isNan ? quiet : rounded);
}

FSDP_RT_INLINE void fromFloat(float value, Float16 &result) {
  constexpr uint32_t infinity = 255u << 23;
  constexpr uint32_t tooLarge = (127u + 16) << 23;
  constexpr uint32_t smallestNormal = 113u << 23;
  // Adding this lines a denormal's last place up with float32's: the addition
  // rounds it.
  constexpr uint32_t align = (127u - 15 + 23 - 10 + 1) << 23;
  uint32_t bits = bitsOf(value);
  uint32_t sign = bits & 0x80000000;
  uint32_t magnitude = bits ^ sign;
  uint32_t special = magnitude > infinity ? 0x7e00 : 0x7c00;
  uint32_t denormal = bitsOf(floatOf(magnitude) + floatOf(align)) - align;
  uint32_t odd = (magnitude >> 13) & 1;
  uint32_t normal = (magnitude - ((127u - 15) << 23) + 0xfff + odd) >> 13;
  uint32_t half = magnitude < smallestNormal ? denormal : normal;
  half = magnitude >= tooLarge ? special : half;
  result.bits = static_cast<uint16_t>(half | sign >> 16);
}

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_NARROWFLOAT_H
