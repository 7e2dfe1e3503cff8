//===- Numbers.cpp - Numbers as users type and read them ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Numbers.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace fsdp::rt::data {

Result<int64_t> parseInteger(const std::string &text, int64_t min,
                             int64_t max) {
  int64_t value = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < min || value > max)
    return Status::failed("expected an integer from " + std::to_string(min) +
                          " to " + std::to_string(max) + ", got '" + text +
                          "'");
  return value;
}

Result<double> parseNumber(const std::string &text) {
  double value = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || std::isnan(value))
    return Status::failed("expected a number, got '" + text + "'");
  return value;
}

Result<uint64_t> parseSeed(const std::string &text) {
  uint64_t value = 0;
  const char *end = text.data() + text.size();
  if (text.compare(0, 5, "seed=") == 0) {
    auto [stop, error] = std::from_chars(text.data() + 5, end, value);
    if (error == std::errc() && stop == end)
      return value;
  }
  return Status::failed("expected seed=K with 0 <= K < 2^64, got '" + text +
                        "'");
}

std::string formatNumber(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, std::end(text), value).ptr);
}

std::string groupDigits(int64_t value) {
  std::string digits = std::to_string(value);
  size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string formatBytes(int64_t bytes) {
  constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = double(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units))
    value /= 1024, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f%s" : "%.2f%s", value,
                units[unit]);
  return text;
}

} // namespace fsdp::rt::data
