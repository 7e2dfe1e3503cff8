//===- Initialiser.cpp - Stored types, initial values ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Initialiser.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

bool fsdp::isStoredFloat(Type type) {
  return type.isF32() || type.isF64() || type.isF16() || type.isBF16();
}

bool fsdp::isStoredInteger(Type type) {
  return type.isSignlessInteger() &&
         llvm::is_contained({1u, 8u, 16u, 32u, 64u},
                            type.getIntOrFloatBitWidth());
}

std::optional<double> fsdp::getInitNumber(DictionaryAttr dict, StringRef key) {
  Attribute attr = dict.get(key);
  if (auto value = dyn_cast_or_null<FloatAttr>(attr))
    return value.getValueAsDouble();
  auto value = dyn_cast_or_null<IntegerAttr>(attr);
  if (value && value.getType().isSignlessInteger(64))
    return static_cast<double>(value.getInt());
  return std::nullopt;
}

bool fsdp::fitsInteger(double value, Type integer, bool isUnsigned) {
  unsigned width = integer.getIntOrFloatBitWidth();
  if (width == 1)
    return value == 0 || value == 1;
  if (value != std::trunc(value))
    return false;
  if (isUnsigned)
    return value >= 0 && value < std::ldexp(1.0, width);
  // Beyond 2^53 a double is no integer of its own.
  double limit = std::ldexp(1.0, std::min(width - 1, 53u));
  return value >= -limit && (width > 53 ? value <= limit : value < limit);
}
