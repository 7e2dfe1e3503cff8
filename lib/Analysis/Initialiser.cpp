//===- Initialiser.cpp - Numbers of initialisers --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Initialiser.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

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
