//===- RandomFill.cpp - Random tensors, any part of them ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiled without contraction into fused multiply-adds: they would change
// bits from one machine to the next.
//
//===----------------------------------------------------------------------===//

#include "data/RandomFill.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace fsdp::rt::data {

namespace {

constexpr int64_t chunkBlocks = 256;
constexpr int64_t chunkElements = chunkBlocks * 4;
constexpr double twoPi = 6.283185307179586476925;
constexpr double inverseSqrtTwoPi = 0.398942280401432677940;
constexpr double log2High = 0x1.62e42fefa3800p-1; // low bits zero: k * it is
constexpr double log2Low = 0x1.ef35793c76730p-45; // exact for small integers k

/// Of a normal positive number.
inline double naturalLog(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  // Moves the mantissa into [sqrt(1/2), sqrt(2)).
  uint64_t shifted = bits - 0x3fe6a09e667f3bcd;
  auto exponent = static_cast<int32_t>(static_cast<int64_t>(shifted) >> 52);
  bits -= uint64_t(int64_t(exponent)) << 52;
  double mantissa;
  std::memcpy(&mantissa, &bits, sizeof mantissa);
  // log m = 2 atanh(s), |s| < 0.172.
  double s = (mantissa - 1.0) / (mantissa + 1.0), t = s * s;
  double sum = 2.0 / 21;
  sum = sum * t + 2.0 / 19;
  sum = sum * t + 2.0 / 17;
  sum = sum * t + 2.0 / 15;
  sum = sum * t + 2.0 / 13;
  sum = sum * t + 2.0 / 11;
  sum = sum * t + 2.0 / 9;
  sum = sum * t + 2.0 / 7;
  sum = sum * t + 2.0 / 5;
  sum = sum * t + 2.0 / 3;
  return exponent * log2High + (2.0 * s + (s * t * sum + exponent * log2Low));
}

/// For -700 < x <= 0.
double naturalExp(double x) {
  double k = std::nearbyint(x * 1.4426950408889634074);
  double r = (x - k * log2High) - k * log2Low;
  double sum = 1.0;
  for (int n = 14; n > 0; --n)
    sum = 1.0 + sum * r / n;
  return std::ldexp(sum, static_cast<int>(k));
}

/// Sine and cosine of 2 pi * turn / 2^32.
inline void sineCosine(uint32_t turn, double &sine, double &cosine) {
  uint32_t quadrant = (turn + 0x20000000u) >> 30;
  auto rest = static_cast<int32_t>(turn - (quadrant << 30));
  double x = rest * (twoPi * 0x1p-32), t = x * x; // |x| <= pi / 4
  double s = -1.0 / 1307674368000;
  s = s * t + 1.0 / 6227020800;
  s = s * t - 1.0 / 39916800;
  s = s * t + 1.0 / 362880;
  s = s * t - 1.0 / 5040;
  s = s * t + 1.0 / 120;
  s = s * t - 1.0 / 6;
  s = x + x * (t * s);
  double c = 1.0 / 20922789888000;
  c = c * t - 1.0 / 87178291200;
  c = c * t + 1.0 / 479001600;
  c = c * t - 1.0 / 3628800;
  c = c * t + 1.0 / 40320;
  c = c * t - 1.0 / 720;
  c = c * t + 1.0 / 24;
  c = c * t - 0.5;
  c = 1.0 + t * c;
  bool isSwapped = quadrant & 1;
  double a = isSwapped ? c : s, b = isSwapped ? s : c;
  sine = quadrant & 2 ? -a : a;
  cosine = (quadrant + 1) & 2 ? -b : b;
}

/// In (0, 1), symmetric about 1/2.
inline double openUniform(uint32_t word) { return (word + 0.5) * 0x1p-32; }

void store(const double *values, int64_t count, Dtype dtype, char *dst) {
  if (dtype == FSDP_RT_F32) {
    for (int64_t i = 0; i < count; ++i) {
      auto narrow = static_cast<float>(values[i]);
      std::memcpy(dst + i * 4, &narrow, sizeof narrow);
    }
    return;
  }
  int64_t size = dtypeSize(dtype);
  for (int64_t i = 0; i < count; ++i)
    storeFloat(dtype, values[i], dst + i * size);
}

/// Runs `draw(words, values, blocks)` over whole blocks of four elements and
/// keeps the elements asked for.
template <typename Draw>
void fillBlocks(const RandomStream &stream, Dtype dtype, int64_t begin,
                int64_t count, char *dst, Draw draw) {
  uint32_t words[chunkElements];
  double values[chunkElements];
  int64_t size = dtypeSize(dtype);
  while (count > 0) {
    int64_t firstBlock = begin / 4, skipped = begin % 4;
    int64_t taken = std::min(count, chunkElements - skipped);
    int64_t blocks = (skipped + taken + 3) / 4;
    for (int64_t i = 0; i < blocks; ++i) {
      PhiloxBlock block = stream.block(uint64_t(firstBlock + i));
      std::copy(block.begin(), block.end(), words + i * 4);
    }
    draw(words, values, blocks);
    store(values + skipped, taken, dtype, dst);
    begin += taken, count -= taken, dst += taken * size;
  }
}

/// P(Z < -x) for x >= 0.
double lowerTail(double x) {
  if (x > 37) // below the smallest normal double
    return 0;
  double density = inverseSqrtTwoPi * naturalExp(-0.5 * x * x);
  if (x < 3) {
    // 1/2 - density * (x + x^3/3 + x^5/(3*5) + ...)
    double term = x, sum = x;
    for (int n = 3; n < 140; n += 2) {
      term *= x * x / n;
      sum += term;
    }
    return 0.5 - density * sum;
  }
  // Laplace's continued fraction, from far inside.
  double fraction = x;
  for (int n = 250; n > 0; --n)
    fraction = x + n / fraction;
  return density / fraction;
}

} // namespace

double normalCdf(double x) {
  return x < 0 ? lowerTail(-x) : 1.0 - lowerTail(x);
}

/// Wichura's algorithm AS 241 (PPND16): relative accuracy about 1e-16.
double normalQuantile(double p) {
  if (p <= 0 || p >= 1)
    return p <= 0 ? -std::numeric_limits<double>::infinity()
                  : std::numeric_limits<double>::infinity();
  static constexpr double a[] = {
      3.3871328727963666080e0,  1.3314166789178437745e+2,
      1.9715909503065514427e+3, 1.3731693765509461125e+4,
      4.5921953931549871457e+4, 6.7265770927008700853e+4,
      3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static constexpr double b[] = {1.0,
                                 4.2313330701600911252e+1,
                                 6.8718700749205790830e+2,
                                 5.3941960214247511077e+3,
                                 2.1213794301586595867e+4,
                                 3.9307895800092710610e+4,
                                 2.8729085735721942674e+4,
                                 5.2264952788528545610e+3};
  static constexpr double c[] = {
      1.42343711074968357734e0,  4.63033784615654529590e0,
      5.76949722146069140550e0,  3.64784832476320460504e0,
      1.27045825245236838258e0,  2.41780725177450611770e-1,
      2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double d[] = {1.0,
                                 2.05319162663775882187e0,
                                 1.67638483018380384940e0,
                                 6.89767334985100004550e-1,
                                 1.48103976427480074590e-1,
                                 1.51986665636164571966e-2,
                                 5.47593808499534494600e-4,
                                 1.05075007164441684324e-9};
  static constexpr double e[] = {
      6.65790464350110377720e0,  5.46378491116411436990e0,
      1.78482653991729133580e0,  2.96560571828504891230e-1,
      2.65321895265761230930e-2, 1.24266094738807843860e-3,
      2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double f[] = {1.0,
                                 5.99832206555887937690e-1,
                                 1.36929880922735805310e-1,
                                 1.48753612908506148525e-2,
                                 7.86869131145613259100e-4,
                                 1.84631831751005468180e-5,
                                 1.42151175831644588870e-7,
                                 2.04426310338993978564e-15};
  auto ratio = [](const double *top, const double *bottom, double x) {
    double up = top[7], down = bottom[7];
    for (int i = 6; i >= 0; --i)
      up = up * x + top[i], down = down * x + bottom[i];
    return up / down;
  };
  double q = p - 0.5;
  if (std::fabs(q) <= 0.425)
    return q * ratio(a, b, 0.180625 - q * q);
  double r = std::sqrt(-naturalLog(q < 0 ? p : 1.0 - p));
  double tail = r <= 5.0 ? ratio(c, d, r - 1.6) : ratio(e, f, r - 5.0);
  return q < 0 ? -tail : tail;
}

void fillNormal(const RandomStream &stream, double mean, double std,
                Dtype dtype, int64_t begin, int64_t count, char *dst) {
  fillBlocks(stream, dtype, begin, count, dst,
             [=](const uint32_t *words, double *values, int64_t blocks) {
               for (int64_t i = 0; i < blocks * 4; i += 2) {
                 double u = openUniform(words[i]);
                 double radius = std * std::sqrt(-2.0 * naturalLog(u));
                 double sine, cosine;
                 sineCosine(words[i + 1], sine, cosine);
                 values[i] = mean + radius * cosine;
                 values[i + 1] = mean + radius * sine;
               }
             });
}

void fillUniform(const RandomStream &stream, double low, double high,
                 Dtype dtype, int64_t begin, int64_t count, char *dst) {
  double unit = (high - low) * 0x1p-32;
  fillBlocks(stream, dtype, begin, count, dst,
             [=](const uint32_t *words, double *values, int64_t blocks) {
               for (int64_t i = 0; i < blocks * 4; ++i)
                 values[i] = low + unit * words[i];
             });
}

void fillTruncatedNormal(const RandomStream &stream, double mean, double std,
                         double low, double high, Dtype dtype, int64_t begin,
                         int64_t count, char *dst) {
  double sign = 1.0, from = 0.0, width = 0.0;
  if (std > 0) {
    double a = (low - mean) / std, b = (high - mean) / std;
    // In the upper tail probabilities crowd at 1 and lose their digits.
    if (a > 0) {
      std::swap(a, b);
      a = -a, b = -b, sign = -1.0;
    }
    from = normalCdf(a);
    width = normalCdf(b) - from;
  }
  if (!(width > 0)) { // no deviation, or too far out for any mass
    double nearest = std::clamp(mean, low, high);
    for (int64_t i = 0; i < count; ++i)
      storeFloat(dtype, nearest, dst + i * dtypeSize(dtype));
    return;
  }
  fillBlocks(stream, dtype, begin, count, dst,
             [=](const uint32_t *words, double *values, int64_t blocks) {
               for (int64_t i = 0; i < blocks * 4; ++i) {
                 double p = from + openUniform(words[i]) * width;
                 double z = normalQuantile(p);
                 values[i] = std::clamp(mean + sign * std * z, low, high);
               }
             });
}

void fillIntegers(const RandomStream &stream, int64_t low, int64_t high,
                  Dtype dtype, int64_t begin, int64_t count, char *dst) {
  // Unsigned, so that the width of any range fits and sums wrap.
  uint64_t width = uint64_t(high) - uint64_t(low);
  int64_t size = dtypeSize(dtype);
  PhiloxBlock block{};
  for (int64_t i = 0; i < count; ++i) {
    int64_t e = begin + i;
    if (i == 0 || e % 2 == 0)
      block = stream.block(uint64_t(e / 2));
    size_t half = e % 2 * 2;
    uint64_t word = block[half] | uint64_t(block[half + 1]) << 32;
    auto scaled = static_cast<uint64_t>(
        static_cast<unsigned __int128>(word) * width >> 64);
    storeInteger(dtype, static_cast<int64_t>(uint64_t(low) + scaled),
                 dst + i * size);
  }
}

} // namespace fsdp::rt::data
