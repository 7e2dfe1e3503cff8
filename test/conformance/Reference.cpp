//===- Reference.cpp - What collectives have to give ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reference.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>

namespace fsdp::test {

const std::vector<fsdp_rt_dtype> &numberTypes() {
  static const std::vector<fsdp_rt_dtype> types = {
      FSDP_RT_F32, FSDP_RT_F64, FSDP_RT_F16, FSDP_RT_BF16, FSDP_RT_I64,
      FSDP_RT_I32, FSDP_RT_I16, FSDP_RT_I8,  FSDP_RT_U8};
  return types;
}

int64_t sizeOf(fsdp_rt_dtype dtype) {
  switch (dtype) {
  case FSDP_RT_F64:
  case FSDP_RT_I64:
    return 8;
  case FSDP_RT_F32:
  case FSDP_RT_I32:
    return 4;
  case FSDP_RT_F16:
  case FSDP_RT_BF16:
  case FSDP_RT_I16:
    return 2;
  default:
    return 1;
  }
}

std::string nameOf(fsdp_rt_dtype dtype) {
  static const char *const names[] = {"F32", "F64", "F16", "BF16", "I64",
                                      "I32", "I16", "I8",  "U8",   "BOOL"};
  return names[dtype];
}

uint64_t Random::next() {
  // SplitMix64.
  uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

namespace {

/// The values of small binary floats: no sign bit, `exponentBits`, the rest.
std::vector<double> listMagnitudes(int exponentBits) {
  int fractionBits = 15 - exponentBits;
  int bias = (1 << (exponentBits - 1)) - 1;
  std::vector<double> magnitudes;
  for (int bits = 0; bits < 1 << 15; ++bits) {
    int exponent = bits >> fractionBits;
    int fraction = bits & ((1 << fractionBits) - 1);
    if (exponent == (1 << exponentBits) - 1)
      magnitudes.push_back(fraction ? std::numeric_limits<double>::quiet_NaN()
                                    : std::numeric_limits<double>::infinity());
    else if (exponent == 0)
      magnitudes.push_back(std::ldexp(fraction, 1 - bias - fractionBits));
    else
      magnitudes.push_back(std::ldexp(fraction + (1 << fractionBits),
                                      exponent - bias - fractionBits));
  }
  return magnitudes;
}

/// The value of one with a sign bit before.
double decode(uint16_t bits, int exponentBits) {
  static const std::vector<double> five = listMagnitudes(5),
                                   eight = listMagnitudes(8);
  double magnitude = (exponentBits == 5 ? five : eight)[bits & 0x7fff];
  return bits >> 15 ? -magnitude : magnitude;
}

/// By bisection over the bit patterns of one sign, which are ordered.
uint16_t nearest(float value, int exponentBits) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  int fractionBits = 15 - exponentBits;
  uint16_t infinity =
      static_cast<uint16_t>(((1 << exponentBits) - 1) << fractionBits);
  if (std::isnan(value))
    return static_cast<uint16_t>(sign | infinity | 1 << (fractionBits - 1));
  double magnitude = std::fabs(double(value));
  if (std::isinf(magnitude))
    return static_cast<uint16_t>(sign | infinity);
  uint16_t low = 0, high = infinity;
  while (high - low > 1) {
    uint16_t middle = static_cast<uint16_t>((low + high) / 2);
    (decode(middle, exponentBits) <= magnitude ? low : high) = middle;
  }
  // Overflow begins half a unit beyond the largest number.
  double below = decode(low, exponentBits);
  double above =
      high == infinity
          ? 2 * below - decode(static_cast<uint16_t>(low - 1), exponentBits)
          : decode(high, exponentBits);
  double toBelow = magnitude - below, toAbove = above - magnitude;
  bool isUp = toAbove < toBelow || (toAbove == toBelow && (low & 1));
  return static_cast<uint16_t>(sign | (isUp ? high : low));
}

template <typename T>
T elementOf(const Bytes &bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}

/// tree(lo, hi) = tree(lo, mid) + tree(mid, hi)
template <typename Acc>
Acc tree(const std::function<Acc(int)> &term, int lo, int hi) {
  if (hi - lo == 1)
    return term(lo);
  int mid = lo + (hi - lo + 1) / 2;
  return static_cast<Acc>(tree(term, lo, mid) + tree(term, mid, hi));
}

template <typename T, typename Acc, typename Widen, typename Narrow>
Bytes sum(const std::vector<Bytes> &sources, int64_t begin, int64_t count,
          const Widen &widen, const Narrow &narrow) {
  Bytes result(static_cast<size_t>(count) * sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    std::function<Acc(int)> term = [&](int s) {
      return widen(elementOf<T>(sources[s], begin + i));
    };
    T value = narrow(tree(term, 0, static_cast<int>(sources.size())));
    std::memcpy(result.data() + i * int64_t(sizeof(T)), &value, sizeof(T));
  }
  return result;
}

template <typename T>
Bytes integerSum(const std::vector<Bytes> &sources, int64_t begin,
                 int64_t count, int64_t divisor) {
  using Wrapping = std::make_unsigned_t<T>;
  return sum<T, Wrapping>(
      sources, begin, count, [](T v) { return static_cast<Wrapping>(v); },
      [=](Wrapping v) {
        return static_cast<T>(static_cast<T>(v) / static_cast<T>(divisor));
      });
}

} // namespace

uint16_t nearestBFloat16(float value) { return nearest(value, 8); }
uint16_t nearestFloat16(float value) { return nearest(value, 5); }
float fromBFloat16(uint16_t bits) {
  return static_cast<float>(decode(bits, 8));
}
float fromFloat16(uint16_t bits) { return static_cast<float>(decode(bits, 5)); }

Bytes randomElements(fsdp_rt_dtype dtype, int64_t count, uint64_t seed) {
  Random random(seed);
  int64_t size = sizeOf(dtype);
  Bytes bytes(static_cast<size_t>(count * size));
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = random.next();
    double fraction = double(bits >> 11) * 0x1p-53 * 2 - 1;
    double value = fraction * static_cast<double>(1 << bits % 9);
    float single = static_cast<float>(value);
    uint16_t half = 0;
    const void *from = &bits;
    if (dtype == FSDP_RT_F64)
      from = &value;
    else if (dtype == FSDP_RT_F32)
      from = &single;
    else if (dtype == FSDP_RT_F16 || dtype == FSDP_RT_BF16) {
      half = nearest(single, dtype == FSDP_RT_F16 ? 5 : 8);
      from = &half;
    }
    std::memcpy(bytes.data() + i * size, from, static_cast<size_t>(size));
  }
  return bytes;
}

Bytes expectedSum(const std::vector<Bytes> &sources, int64_t begin,
                  int64_t count, fsdp_rt_dtype dtype, int64_t divisor) {
  float by = static_cast<float>(divisor);
  switch (dtype) {
  case FSDP_RT_F32:
    return sum<float, float>(
        sources, begin, count, [](float v) { return v; },
        [=](float v) { return v / by; });
  case FSDP_RT_F64:
    return sum<double, double>(
        sources, begin, count, [](double v) { return v; },
        [=](double v) { return v / static_cast<double>(divisor); });
  case FSDP_RT_F16:
    return sum<uint16_t, float>(
        sources, begin, count, fromFloat16,
        [=](float v) { return nearestFloat16(v / by); });
  case FSDP_RT_BF16:
    return sum<uint16_t, float>(
        sources, begin, count, fromBFloat16,
        [=](float v) { return nearestBFloat16(v / by); });
  case FSDP_RT_I64:
    return integerSum<int64_t>(sources, begin, count, divisor);
  case FSDP_RT_I32:
    return integerSum<int32_t>(sources, begin, count, divisor);
  case FSDP_RT_I16:
    return integerSum<int16_t>(sources, begin, count, divisor);
  case FSDP_RT_I8:
    return integerSum<int8_t>(sources, begin, count, divisor);
  default:
    return integerSum<uint8_t>(sources, begin, count, divisor);
  }
}

uint64_t hashOf(const Bytes &bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char byte : bytes)
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

} // namespace fsdp::test
