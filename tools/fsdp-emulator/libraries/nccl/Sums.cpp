//===- Sums.cpp - Sums in NCCL's order ------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Sums.h"

#include "Types.h"
#include "instructions/FloatFormats.h"

#include <cstring>

namespace fsdp::emulator::nccl {

namespace {

/// Operands may be anywhere.
template <typename T>
T load(const char *at, size_t i) {
  T value;
  std::memcpy(&value, at + i * sizeof(T), sizeof(T));
  return value;
}
template <typename T>
void store(char *at, size_t i, T value) {
  std::memcpy(at + i * sizeof(T), &value, sizeof(T));
}

/// Of numbers that are added as they are, integers without a sign.
template <typename T>
void add(const std::vector<const char *> &sources, size_t last, char *dst,
         size_t count) {
  size_t n = sources.size();
  for (size_t i = 0; i < count; ++i) {
    T value = load<T>(sources[(last + 1) % n], i);
    for (size_t hop = 2; hop <= n; ++hop)
      value = T(value + load<T>(sources[(last + hop) % n], i));
    store(dst, i, value);
  }
}

template <auto ToFloat, auto FromFloat>
void addNarrow(const std::vector<const char *> &sources, size_t last, char *dst,
               size_t count, float factor, bool isRoundedAtHops) {
  size_t n = sources.size();
  auto part = [&](size_t hop, size_t i) {
    auto bits = load<uint16_t>(sources[(last + hop) % n], i);
    return ToFloat(FromFloat(factor * ToFloat(bits)));
  };
  for (size_t i = 0; i < count; ++i) {
    float value = part(1, i);
    for (size_t hop = 2; hop <= n; ++hop) {
      value += part(hop, i);
      if (isRoundedAtHops)
        value = ToFloat(FromFloat(value));
    }
    store(dst, i, FromFloat(value));
  }
}

} // namespace

void addInRing(const std::vector<const char *> &sources, int last, char *dst,
               size_t count, int type, float factor, bool isRoundedAtHops) {
  auto end = size_t(last);
  switch (type) {
  case float32:
    return add<float>(sources, end, dst, count);
  case float64:
    return add<double>(sources, end, dst, count);
  case float16:
    return addNarrow<floatOfF16, f16OfFloat>(sources, end, dst, count, factor,
                                             isRoundedAtHops);
  case bfloat16:
    return addNarrow<floatOfBF16, bf16OfFloat>(sources, end, dst, count, 1,
                                               isRoundedAtHops);
  case int8:
  case uint8:
    return add<uint8_t>(sources, end, dst, count);
  case int32:
  case uint32:
    return add<uint32_t>(sources, end, dst, count);
  case int64:
  case uint64:
    return add<uint64_t>(sources, end, dst, count);
  }
}

} // namespace fsdp::emulator::nccl
