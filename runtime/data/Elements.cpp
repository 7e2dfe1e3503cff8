//===- Elements.cpp - Elements of stored tensors --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Elements.h"

#include "core/NarrowFloat.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace fsdp::rt::data {

namespace {

constexpr Dtype allDtypes[] = {
    FSDP_RT_F32, FSDP_RT_F64, FSDP_RT_F16, FSDP_RT_BF16, FSDP_RT_I64,
    FSDP_RT_I32, FSDP_RT_I16, FSDP_RT_I8,  FSDP_RT_U8,   FSDP_RT_BOOL};

template <typename T>
T load(const char *src) {
  T value;
  std::memcpy(&value, src, sizeof value);
  return value;
}

template <typename T>
void store(T value, char *dst) {
  std::memcpy(dst, &value, sizeof value);
}

template <typename T>
T narrow(double value) {
  T result;
  fromFloat(static_cast<float>(value), result);
  return result;
}

} // namespace

std::optional<Dtype> dtypeFromName(std::string_view name) {
  for (Dtype dtype : allDtypes)
    if (name == dtypeName(dtype))
      return dtype;
  return std::nullopt;
}

bool isFloat(Dtype dtype) {
  return dtype == FSDP_RT_F32 || dtype == FSDP_RT_F64 || dtype == FSDP_RT_F16 ||
         dtype == FSDP_RT_BF16;
}

bool isInteger(Dtype dtype) { return !isFloat(dtype) && dtype != FSDP_RT_BOOL; }

int64_t minOf(Dtype dtype) {
  switch (dtype) {
  case FSDP_RT_I64:
    return std::numeric_limits<int64_t>::min();
  case FSDP_RT_I32:
    return std::numeric_limits<int32_t>::min();
  case FSDP_RT_I16:
    return std::numeric_limits<int16_t>::min();
  case FSDP_RT_I8:
    return std::numeric_limits<int8_t>::min();
  default:
    return 0;
  }
}

int64_t maxOf(Dtype dtype) {
  switch (dtype) {
  case FSDP_RT_I64:
    return std::numeric_limits<int64_t>::max();
  case FSDP_RT_I32:
    return std::numeric_limits<int32_t>::max();
  case FSDP_RT_I16:
    return std::numeric_limits<int16_t>::max();
  case FSDP_RT_I8:
    return std::numeric_limits<int8_t>::max();
  case FSDP_RT_U8:
    return std::numeric_limits<uint8_t>::max();
  default:
    return 1;
  }
}

void storeFloat(Dtype dtype, double value, char *dst) {
  switch (dtype) {
  case FSDP_RT_F64:
    return store(value, dst);
  case FSDP_RT_F16:
    return store(narrow<Float16>(value), dst);
  case FSDP_RT_BF16:
    return store(narrow<BFloat16>(value), dst);
  default:
    return store(static_cast<float>(value), dst);
  }
}

double loadFloat(Dtype dtype, const char *src) {
  switch (dtype) {
  case FSDP_RT_F64:
    return load<double>(src);
  case FSDP_RT_F16:
    return toFloat(load<Float16>(src));
  case FSDP_RT_BF16:
    return toFloat(load<BFloat16>(src));
  default:
    return load<float>(src);
  }
}

void storeInteger(Dtype dtype, int64_t value, char *dst) {
  switch (dtypeSize(dtype)) {
  case 8:
    return store(value, dst);
  case 4:
    return store(static_cast<int32_t>(value), dst);
  case 2:
    return store(static_cast<int16_t>(value), dst);
  default:
    return store(static_cast<uint8_t>(value), dst);
  }
}

int64_t loadInteger(Dtype dtype, const char *src) {
  switch (dtype) {
  case FSDP_RT_I64:
    return load<int64_t>(src);
  case FSDP_RT_I32:
    return load<int32_t>(src);
  case FSDP_RT_I16:
    return load<int16_t>(src);
  case FSDP_RT_I8:
    return load<int8_t>(src);
  default:
    return load<uint8_t>(src);
  }
}

bool isRepresentable(Dtype dtype, double value) {
  if (isFloat(dtype))
    return true;
  // 2^63 is a double, the largest int64 is not.
  return value == std::floor(value) && value >= double(minOf(dtype)) &&
         value < double(maxOf(dtype)) + 1.0 && value < 0x1p63;
}

void storeNumber(Dtype dtype, double value, char *dst) {
  if (isFloat(dtype))
    storeFloat(dtype, value, dst);
  else
    storeInteger(dtype, static_cast<int64_t>(value), dst);
}

double loadNumber(Dtype dtype, const char *src) {
  return isFloat(dtype) ? loadFloat(dtype, src)
                        : double(loadInteger(dtype, src));
}

void convertFloats(Dtype from, const char *src, Dtype to, char *dst,
                   int64_t count) {
  int64_t fromSize = dtypeSize(from), toSize = dtypeSize(to);
  for (int64_t i = 0; i < count; ++i)
    storeFloat(to, loadFloat(from, src + i * fromSize), dst + i * toSize);
}

} // namespace fsdp::rt::data
