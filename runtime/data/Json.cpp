//===- Json.cpp - Strict JSON ---------------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Json.h"

#include <cmath>

using nlohmann::json;

namespace fsdp::rt::data {

namespace {

constexpr size_t maxDepth = 64;
constexpr size_t maxQuoted = 60;

/// Builds the value and refuses what the library would let pass.
class StrictBuilder : public nlohmann::json_sax<json> {
public:
  json root;
  std::string error;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t &) override {
    return add(value);
  }
  bool string(string_t &value) override { return add(std::move(value)); }
  bool binary(binary_t &) override { return false; }

  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t &name) override {
    if (open_.back()->contains(name)) {
      error = "duplicate key '" + name.substr(0, maxQuoted) + "'";
      return false;
    }
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string &,
                   const nlohmann::detail::exception &what) override {
    // The library prefixes its own exception number; the rest is plain.
    std::string text = what.what();
    size_t prefix = text.find("] ");
    error = prefix == std::string::npos ? text : text.substr(prefix + 2);
    if (error.find("column") == std::string::npos)
      error += " at byte " + std::to_string(position);
    return false;
  }

private:
  json *place(json value) {
    if (open_.empty())
      return &(root = std::move(value));
    json &parent = *open_.back();
    if (parent.is_object())
      return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }
  bool add(json value) {
    place(std::move(value));
    return true;
  }
  bool open(json value) {
    if (open_.size() == maxDepth) {
      error = "expected at most " + std::to_string(maxDepth) +
              " nested arrays and objects";
      return false;
    }
    // Growing an array moves its elements, but only ones that are closed.
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<json *> open_;
  std::string key_;
};

} // namespace

Result<json> parseJson(std::string_view text) {
  StrictBuilder builder;
  if (!json::sax_parse(text.begin(), text.end(), &builder))
    return Status::failed(builder.error.empty() ? "expected JSON"
                                                : builder.error);
  return std::move(builder.root);
}

std::string dumpJson(const json &value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

void JsonReader::fail(const std::string &message) const {
  if (!*status_)
    *status_ = Status::failed(path_.empty() ? message : path_ + ": " + message);
}

void JsonReader::failExpected(const char *what) const {
  std::string got = dumpJson(*value_);
  if (got.size() > maxQuoted)
    got = got.substr(0, maxQuoted) + "...";
  fail(std::string("expected ") + what + ", got " + got);
}

JsonReader JsonReader::child(const json &value, std::string path) const {
  JsonReader reader(value, *status_);
  reader.path_ = std::move(path);
  return reader;
}

JsonReader JsonReader::operator[](const char *key) const {
  static const json nothing;
  std::string path = path_.empty() ? key : path_ + "." + key;
  if (!failed()) {
    if (!value_->is_object()) {
      failExpected("an object");
    } else {
      auto it = value_->find(key);
      if (it != value_->end())
        return child(*it, std::move(path));
      fail("expected key '" + std::string(key) + "', got none");
    }
  }
  return child(nothing, std::move(path));
}

bool JsonReader::has(const char *key) const {
  return value_->is_object() && value_->contains(key);
}

int64_t JsonReader::integer(int64_t min, int64_t max) const {
  if (failed())
    return min;
  bool isLarge =
      value_->is_number_unsigned() &&
      value_->get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max());
  if (!value_->is_number_integer() || isLarge) {
    failExpected("an integer");
    return min;
  }
  auto value = value_->get<int64_t>();
  if (value >= min && value <= max)
    return value;
  if (max == std::numeric_limits<int64_t>::max())
    failExpected(("an integer of at least " + std::to_string(min)).c_str());
  else
    failExpected(("an integer from " + std::to_string(min) + " to " +
                  std::to_string(max))
                     .c_str());
  return min;
}

double JsonReader::number() const {
  if (failed())
    return 0;
  if (!value_->is_number()) {
    failExpected("a number");
    return 0;
  }
  return value_->get<double>();
}

double JsonReader::extendedNumber() const {
  if (!value_->is_string() || failed())
    return number();
  const auto &text = value_->get_ref<const std::string &>();
  if (text == "inf")
    return std::numeric_limits<double>::infinity();
  if (text == "-inf")
    return -std::numeric_limits<double>::infinity();
  if (text == "nan")
    return std::numeric_limits<double>::quiet_NaN();
  failExpected("a number, \"inf\", \"-inf\" or \"nan\"");
  return 0;
}

std::string JsonReader::string() const {
  if (failed())
    return {};
  if (!value_->is_string()) {
    failExpected("a string");
    return {};
  }
  return value_->get<std::string>();
}

std::string JsonReader::nonEmptyString() const {
  std::string text = string();
  if (!failed() && text.empty())
    failExpected("a string that is not empty");
  return text;
}

bool JsonReader::boolean() const {
  if (failed())
    return false;
  if (!value_->is_boolean()) {
    failExpected("true or false");
    return false;
  }
  return value_->get<bool>();
}

void JsonReader::forEach(
    const std::function<void(const JsonReader &)> &body) const {
  if (failed())
    return;
  if (!value_->is_array())
    return failExpected("an array");
  for (size_t i = 0; i < value_->size() && !failed(); ++i)
    body(child((*value_)[i], path_ + "[" + std::to_string(i) + "]"));
}

void JsonReader::forEachEntry(
    const std::function<void(const std::string &, const JsonReader &)> &body)
    const {
  if (failed())
    return;
  if (!value_->is_object())
    return failExpected("an object");
  for (auto it = value_->begin(); it != value_->end() && !failed(); ++it)
    body(it.key(),
         child(it.value(), path_.empty() ? it.key() : path_ + "." + it.key()));
}

} // namespace fsdp::rt::data
