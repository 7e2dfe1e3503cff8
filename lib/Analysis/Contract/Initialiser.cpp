//===- Initialiser.cpp - Stored types, initial values ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Initialiser.h"

#include "mlir/Support/DebugStringHelper.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

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

/// The word that says how @init makes values; empty where there is none.
static StringRef getInitKind(Attribute init) {
  auto dict = dyn_cast<DictionaryAttr>(init);
  auto kind = dict ? dict.getAs<StringAttr>("kind") : StringAttr();
  return kind ? kind.getValue() : StringRef();
}

ArrayRef<StringRef> fsdp::getInitEntries(Attribute init) {
  static const llvm::StringMap<SmallVector<StringRef>> kEntries = {
      {"file", {"kind"}},
      {"constant", {"kind", "value"}},
      {"values", {"kind", "values"}},
      {"normal", {"kind", "mean", "std"}},
      {"uniform", {"kind", "low", "high"}},
      {"truncated_normal", {"kind", "mean", "std", "low", "high"}}};
  auto entries = kEntries.find(getInitKind(init));
  return entries == kEntries.end() ? ArrayRef<StringRef>()
                                   : ArrayRef<StringRef>(entries->second);
}

std::string fsdp::findInitFault(Attribute init, RankedTensorType type,
                                bool isUnsigned) {
  if (getInitEntries(init).empty())
    return "a kind among constant, normal, uniform, truncated_normal, values "
           "and file";
  auto dict = cast<DictionaryAttr>(init);
  StringRef kind = getInitKind(init);
  auto number = [&](StringRef key) { return getInitNumber(dict, key); };
  auto isFinite = [&](StringRef key) {
    std::optional<double> value = number(key);
    return value && std::isfinite(*value);
  };
  auto hasDeviation = [&] {
    return isFinite("mean") && isFinite("std") && *number("std") >= 0;
  };
  auto hasRange = [&] {
    return isFinite("low") && isFinite("high") &&
           *number("low") < *number("high");
  };
  Type element = type.getElementType();
  if (kind == "file")
    return "";
  if (kind == "constant") {
    std::optional<double> value = number("value");
    if (!value)
      return "a number in 'value'";
    if (isStoredInteger(element) && !fitsInteger(*value, element, isUnsigned))
      return "a value that " + debugString(element) +
             (isUnsigned ? " without a sign" : "") + " can hold";
    return "";
  }
  if (kind == "values") {
    auto values = dyn_cast_or_null<DenseElementsAttr>(dict.get("values"));
    return values && values.getType() == type
               ? ""
               : "dense values of " + debugString(type);
  }
  if (isStoredInteger(element))
    return "constant, values or file for integers";
  if (kind != "uniform" && !hasDeviation())
    return "finite numbers 'mean' and 'std', std not below 0,";
  if (kind != "normal" && !hasRange())
    return "finite numbers 'low' < 'high'";
  return "";
}
