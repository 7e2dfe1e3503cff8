//===- JsonReader.cpp - Strict reading of JSON files ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JsonReader.h"

#include "fsdp/Cost/ParseJson.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <array>
#include <charconv>

using namespace llvm;
using namespace mlir::fsdp;

Expected<std::string> mlir::fsdp::readTextFile(StringRef path) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return createStringError("expected to read " + path + ", got " +
                             buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

/// As many digits as tell it from all others.
static std::string show(double number) {
  std::array<char, 32> text;
  auto [end, error] =
      std::to_chars(text.data(), text.data() + text.size(), number);
  assert(error == std::errc() && "the longest is shorter");
  return std::string(text.data(), end);
}

/// A value as an error shows it: short, and on one line.
static std::string show(const json::Value &value) {
  switch (value.kind()) {
  case json::Value::Object:
    return "an object";
  case json::Value::Array:
    return "an array of " + std::to_string(value.getAsArray()->size());
  case json::Value::Number:
    return show(*value.getAsNumber());
  default:
    break;
  }
  std::string text = formatv("{0}", value);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

static std::string show(NumberRange range) {
  std::string text =
      (range.open ? "a number above " : "a number of at least ") +
      show(range.least);
  if (range.most > 0)
    text += (range.open ? " and at most " : ", at most ") + show(range.most);
  return text;
}

/// No quantity in any of the files is outside of this, and inside of it no
/// product or quotient of a few overflows.
static constexpr double kSmallest = 1e-12, kLargest = 1e18;

static double checkNumber(JsonFile &file, StringRef path,
                          const json::Value &value, NumberRange range) {
  std::optional<double> number = value.getAsNumber();
  bool inRange = number && *number >= range.least &&
                 (!range.open || *number > range.least) &&
                 (range.most == 0 || *number <= range.most);
  bool isSane =
      number && (*number == 0 || (*number >= kSmallest && *number <= kLargest));
  if (inRange && isSane)
    return *number;
  bool mayBeZero = range.least == 0 && !range.open;
  if (inRange)
    range = {std::max(range.least, kSmallest), false,
             range.most == 0 ? kLargest : std::min(range.most, kLargest)};
  file.report(path, std::string("expected ") +
                        (inRange && mayBeZero ? "0 or " : "") + show(range) +
                        ", got " + show(value));
  return 1;
}

static std::string showIntegers(int64_t least, int64_t most) {
  std::string text = "an integer of at least " + std::to_string(least);
  if (most != INT64_MAX)
    text += ", at most " + std::to_string(most);
  return text;
}

static int64_t checkInteger(JsonFile &file, StringRef path,
                            const json::Value &value, int64_t least,
                            int64_t most) {
  std::optional<int64_t> number = value.getAsInteger();
  if (number && *number >= least && *number <= most)
    return *number;
  file.report(path,
              "expected " + showIntegers(least, most) + ", got " + show(value));
  return std::max<int64_t>(least, 1);
}

//===----------------------------------------------------------------------===//
// JsonFile
//===----------------------------------------------------------------------===//

JsonFile::JsonFile(StringRef text, StringRef path) : path(path.str()) {
  if (Expected<json::Value> parsed = parseJson(text))
    root = std::move(*parsed);
  else
    report("", toString(parsed.takeError()));
}

void JsonFile::report(StringRef where, const Twine &message) {
  if (error.empty())
    error =
        path + ": " + (where.empty() ? "" : where.str() + ": ") + message.str();
}

Error JsonFile::takeError() {
  if (error.empty())
    return Error::success();
  return createStringError(std::move(error));
}

//===----------------------------------------------------------------------===//
// JsonObject
//===----------------------------------------------------------------------===//

JsonObject::JsonObject(JsonFile &file)
    : JsonObject(file, "", file.hasError() ? nullptr : &file.getRoot()) {}

JsonObject::JsonObject(JsonFile &file, std::string path,
                       const json::Value *value)
    : file(&file), path(std::move(path)) {
  if (!value)
    return;
  members = value->getAsObject();
  if (!members)
    file.report(this->path, "expected an object, got " + show(*value));
}

std::string JsonObject::pathOf(StringRef key) const {
  return path.empty() ? key.str() : path + "." + key.str();
}

void JsonObject::report(StringRef key, const Twine &message) {
  file->report(key.empty() ? path : pathOf(key), message);
}

const json::Value *JsonObject::get(StringRef key) {
  asked.push_back(key.str());
  return members ? members->get(key) : nullptr;
}

bool JsonObject::has(StringRef key) { return get(key) != nullptr; }

const json::Value *JsonObject::require(StringRef key, StringRef expected) {
  const json::Value *value = get(key);
  if (!value && members)
    report(key, "expected " + expected + ", got nothing");
  return value;
}

double JsonObject::number(StringRef key, NumberRange range) {
  const json::Value *value = require(key, show(range));
  return value ? checkNumber(*file, pathOf(key), *value, range) : 1;
}

double JsonObject::numberOr(StringRef key, NumberRange range, double fallback) {
  return has(key) ? number(key, range) : fallback;
}

int64_t JsonObject::integer(StringRef key, int64_t least, int64_t most) {
  const json::Value *value = require(key, showIntegers(least, most));
  return value ? checkInteger(*file, pathOf(key), *value, least, most)
               : std::max<int64_t>(least, 1);
}

int64_t JsonObject::integerOr(StringRef key, int64_t least, int64_t fallback,
                              int64_t most) {
  return has(key) ? integer(key, least, most) : fallback;
}

std::string JsonObject::string(StringRef key) {
  const json::Value *value = require(key, "a string");
  if (!value)
    return "";
  std::optional<StringRef> text = value->getAsString();
  if (!text || text->empty()) {
    report(key, (text ? "expected a string that is not empty, got "
                      : "expected a string, got ") +
                    show(*value));
    return "";
  }
  return text->str();
}

bool JsonObject::booleanOr(StringRef key, bool fallback) {
  const json::Value *value = get(key);
  if (!value)
    return fallback;
  if (std::optional<bool> flag = value->getAsBoolean())
    return *flag;
  report(key, "expected true or false, got " + show(*value));
  return fallback;
}

unsigned JsonObject::oneOf(StringRef key, ArrayRef<StringLiteral> names) {
  std::string expected = "one of " + join(names, ", ");
  const json::Value *value = require(key, expected);
  if (!value)
    return 0;
  std::optional<StringRef> text = value->getAsString();
  for (auto [index, name] : enumerate(names))
    if (text && *text == name)
      return index;
  report(key, "expected " + expected + ", got " + show(*value));
  return 0;
}

JsonObject JsonObject::object(StringRef key) {
  return JsonObject(*file, pathOf(key), require(key, "an object"));
}

JsonArray JsonObject::array(StringRef key) {
  return JsonArray(*file, pathOf(key), require(key, "an array"));
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> result;
  if (members)
    for (const auto &member : *members)
      if (StringRef key = member.first; key != "source" && key != "note")
        result.push_back(key.str());
  llvm::sort(result);
  return result;
}

void JsonObject::finish() {
  llvm::sort(asked);
  asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
  for (const std::string &key : keys())
    if (!is_contained(asked, key))
      report("",
             "expected one of " + join(asked, ", ") + ", got \"" + key + "\"");
}

//===----------------------------------------------------------------------===//
// JsonArray
//===----------------------------------------------------------------------===//

JsonArray::JsonArray(JsonFile &file, std::string path, const json::Value *value)
    : file(&file), path(std::move(path)) {
  if (!value)
    return;
  elements = value->getAsArray();
  if (!elements)
    file.report(this->path, "expected an array, got " + show(*value));
}

std::string JsonArray::pathOf(size_t index) const {
  return path + "[" + std::to_string(index) + "]";
}

void JsonArray::report(const Twine &message) const {
  file->report(path, message);
}

double JsonArray::number(size_t index, NumberRange range) const {
  return checkNumber(*file, pathOf(index), (*elements)[index], range);
}

int64_t JsonArray::integer(size_t index, int64_t least, int64_t most) const {
  return checkInteger(*file, pathOf(index), (*elements)[index], least, most);
}

std::string JsonArray::string(size_t index) const {
  const json::Value &value = (*elements)[index];
  if (std::optional<StringRef> text = value.getAsString())
    return text->str();
  file->report(pathOf(index), "expected a string, got " + show(value));
  return "";
}

JsonObject JsonArray::object(size_t index) const {
  return JsonObject(*file, pathOf(index), &(*elements)[index]);
}

JsonArray JsonArray::array(size_t index) const {
  return JsonArray(*file, pathOf(index), &(*elements)[index]);
}

std::vector<std::pair<double, double>>
JsonArray::risingPoints(NumberRange values) const {
  std::vector<std::pair<double, double>> result = points(values);
  for (size_t i = 1; i < result.size(); ++i)
    if (double before = result[i - 1].second; result[i].second < before)
      array(i).report("expected a value of at least " + show(before) +
                      ", that of the smaller size, got " +
                      show(result[i].second));
  return result;
}

std::vector<std::pair<double, double>>
JsonArray::points(NumberRange values) const {
  std::vector<std::pair<double, double>> result;
  if (elements && size() == 0)
    report("expected at least one [size, value], got an empty array");
  for (size_t i = 0; i < size(); ++i) {
    JsonArray point = array(i);
    if (point.size() != 2) {
      point.report("expected [size, value], got " + show((*elements)[i]));
      return {};
    }
    double size = point.number(0, NumberRange::positive());
    double value = point.number(1, values);
    if (!result.empty() && size <= result.back().first)
      point.report("expected a size above " + show(result.back().first) +
                   ", got " + show(size));
    result.emplace_back(size, value);
  }
  return file->hasError() ? std::vector<std::pair<double, double>>() : result;
}
