//===- Json.h - Strict JSON --------------------------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// JSON that comes from files: parsed strictly, read with the key's path at
// hand, so that every refusal says where.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_JSON_H
#define FSDP_RT_DATA_JSON_H

#include "core/Status.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace fsdp::rt::data {

/// Refuses, besides what is no JSON: duplicate keys, text that is not UTF-8,
/// numbers out of range, nesting deeper than 64.
Result<nlohmann::json> parseJson(std::string_view text);

/// One line of JSON, or indented where `indent` >= 0. Bytes that are not UTF-8
/// (file names may hold some) become U+FFFD.
std::string dumpJson(const nlohmann::json &value, int indent = -1);

/// A value and the path that leads to it. The first failure of any reader that
/// shares a Status stays in it; after it, readers return empty values, so that
/// a caller checks once, at the end. `value` and `status` outlive the reader.
class JsonReader {
public:
  JsonReader(const nlohmann::json &value, Status &status)
      : value_(&value), status_(&status) {}

  const std::string &path() const { return path_; }
  bool failed() const { return bool(*status_); }
  /// Records "<path>: <message>" unless something failed before.
  void fail(const std::string &message) const;

  /// The member `key`; a missing one fails.
  JsonReader operator[](const char *key) const;
  /// Whether this is an object with that key.
  bool has(const char *key) const;
  bool isNull() const { return value_->is_null(); }
  bool isNumber() const { return value_->is_number(); }
  bool isInteger() const { return value_->is_number_integer(); }
  bool isString() const { return value_->is_string(); }
  bool isObject() const { return value_->is_object(); }

  int64_t integer(int64_t min = std::numeric_limits<int64_t>::min(),
                  int64_t max = std::numeric_limits<int64_t>::max()) const;
  /// A finite number.
  double number() const;
  /// A number, or one of the strings "inf", "-inf", "nan".
  double extendedNumber() const;
  std::string string() const;
  std::string nonEmptyString() const;
  bool boolean() const;
  /// The elements of an array, in order, until something failed.
  void forEach(const std::function<void(const JsonReader &)> &body) const;
  size_t arraySize() const { return value_->size(); }
  /// Object entries in the order of their keys, until something failed.
  void forEachEntry(const std::function<void(const std::string &key,
                                             const JsonReader &)> &body) const;

private:
  JsonReader child(const nlohmann::json &value, std::string path) const;
  void failExpected(const char *what) const;

  const nlohmann::json *value_;
  Status *status_;
  std::string path_;
};

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_JSON_H
