//===- RateSchedule.cpp - Learning rates by step --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/RateSchedule.h"

#include "core/StableHash.h"
#include "data/Numbers.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

namespace fsdp::rt::data {

namespace {

constexpr int64_t maxStep = std::numeric_limits<int64_t>::max() / 4;
constexpr size_t maxEntries = 1 << 16;

constexpr const char *kindNames[] = {"constant", "linear", "cosine",
                                     "sqrt",     "wsd",    "table"};

/// "a=1" and so on, as they are given.
Result<std::vector<std::pair<std::string, std::string>>>
splitPairs(const std::string &text, const char *expected) {
  std::vector<std::pair<std::string, std::string>> pairs;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos)
      return Status::failed(std::string("expected ") + expected + ", got '" +
                            word + "'");
    pairs.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  if (pairs.empty())
    return Status::failed(std::string("expected ") + expected + ", got none");
  return pairs;
}

Status setSteps(int64_t &place, const std::string &value, int64_t least,
                int64_t most = maxStep) {
  Result<int64_t> number = parseInteger(value, least, most);
  if (number.isOk())
    place = *number;
  return number.status();
}

Status setRatio(double &place, const std::string &value, double most) {
  Result<double> number = parseNumber(value);
  if (!number.isOk() || !(*number >= 0) || !(*number <= most))
    return Status::failed("expected a ratio from 0 to " + formatNumber(most) +
                          ", got '" + value + "'");
  place = *number;
  return Status::ok();
}

} // namespace

const char *RateSchedule::nameOf(Kind kind) {
  return kindNames[static_cast<size_t>(kind)];
}

Status RateSchedule::set(const std::string &key, const std::string &value) {
  auto isKey = [&](const char *name, bool isOfKind) {
    return key == name && isOfKind;
  };
  bool isWsd = kind_ == Kind::Wsd;
  if (isKey("warmup", true))
    return setSteps(warmup_, value, 0);
  if (isKey("warmup-tokens", true))
    return setSteps(warmupTokens_, value, 1);
  if (isKey("start", true))
    return setRatio(start_, value, 1);
  if (isKey("first", true))
    return setSteps(first_, value, 0, 1);
  if (isKey("steps", decays()))
    return setSteps(steps_, value, 1);
  if (isKey("min", decays()))
    return setRatio(min_, value, 1);
  if (isKey("decay", isWsd)) {
    decay_ = 0;
    return setSteps(*decay_, value, 1);
  }
  if (isKey("shape", isWsd)) {
    for (Kind shape : {Kind::Linear, Kind::Cosine, Kind::Sqrt})
      if (value == nameOf(shape)) {
        shape_ = shape;
        return Status::ok();
      }
    return Status::failed("expected linear, cosine or sqrt, got '" + value +
                          "'");
  }
  std::string keys = "warmup, warmup-tokens, start or first";
  if (decays())
    keys = std::string("warmup, warmup-tokens, start, first, steps") +
           (isWsd ? ", min, decay or shape" : " or min");
  return Status::failed("expected one of " + keys + " of " + nameOf(kind_) +
                        ", got '" + key + "'");
}

Status RateSchedule::check() const {
  const std::string name = nameOf(kind_);
  if (decays() && steps_ == 0)
    return Status::failed("expected " + name +
                          ":steps=N, the step after which "
                          "the rate stays, got none");
  if (kind_ == Kind::Wsd && !decay_)
    return Status::failed("expected wsd:decay=N, the steps that the rate "
                          "falls in, got none");
  if (warmup_ != 0 && warmupTokens_ != 0)
    return Status::failed("expected warmup or warmup-tokens, got both");
  if (start_ != 0 && warmup_ == 0 && warmupTokens_ == 0)
    return Status::failed("expected warmup or warmup-tokens beside start, got "
                          "neither");
  const int64_t rest = decays() ? steps_ - decay_.value_or(0) : maxStep;
  if (rest < 0 || warmup_ > rest)
    return Status::failed("expected a warm-up" +
                          std::string(decay_ ? " and a decay" : "") +
                          " within the schedule's " + std::to_string(steps_) +
                          " steps, got " + std::to_string(warmup_) +
                          (decay_ ? " and " + std::to_string(*decay_) : ""));
  return Status::ok();
}

Result<RateSchedule> RateSchedule::parse(const std::string &text) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::string rest =
      colon == std::string::npos ? "" : text.substr(colon + 1);
  if (name == "file")
    return readTable(rest);
  if (name == nameOf(Kind::Table))
    return parseTable(rest);
  const auto *found =
      std::find(std::begin(kindNames), std::end(kindNames), name);
  if (found == std::end(kindNames))
    return Status::failed("expected constant, linear, cosine, sqrt, wsd, table "
                          "or file, got '" +
                          name + "'");
  RateSchedule schedule;
  schedule.kind_ = static_cast<Kind>(found - std::begin(kindNames));
  if (colon != std::string::npos) {
    auto pairs = splitPairs(rest, "KEY=VALUE");
    if (!pairs.isOk())
      return pairs.status();
    std::set<std::string> given;
    for (const auto &[key, value] : *pairs) {
      if (!given.insert(key).second)
        return Status::failed("expected " + key + " once, got it twice");
      if (Status s = schedule.set(key, value))
        return s.withContext(key);
    }
  }
  if (Status s = schedule.check())
    return s;
  return schedule;
}

Status RateSchedule::addEntry(const std::string &step,
                              const std::string &ratio) {
  const int64_t least = table_.empty() ? 1 : table_.back().first + 1;
  std::pair<int64_t, double> entry;
  if (Status s = setSteps(entry.first, step, least))
    return s.withContext("step");
  if (Status s = setRatio(entry.second, ratio, 1e6))
    return s.withContext("step " + step);
  if (table_.empty() && entry.first != 1)
    return Status::failed("expected a ratio of step 1 first, got step " + step);
  if (table_.size() == maxEntries)
    return Status::failed("expected at most " + std::to_string(maxEntries) +
                          " steps, got more");
  table_.push_back(entry);
  return Status::ok();
}

Result<RateSchedule> RateSchedule::parseTable(const std::string &entries) {
  RateSchedule schedule;
  schedule.kind_ = Kind::Table;
  auto pairs = splitPairs(entries, "STEP=RATIO");
  if (!pairs.isOk())
    return pairs.status();
  for (const auto &[step, ratio] : *pairs)
    if (Status s = schedule.addEntry(step, ratio))
      return s;
  return schedule;
}

Result<RateSchedule> RateSchedule::readTable(const std::string &path) {
  if (path.empty())
    return Status::failed("expected file:PATH, got no path");
  std::ifstream file(path);
  if (!file)
    return Status::failed("cannot open '" + path +
                          "': " + std::strerror(errno));
  RateSchedule schedule;
  schedule.kind_ = Kind::Table;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string step, ratio, more;
    if (!(words >> step))
      continue;
    Status status = Status::ok();
    if (!(words >> ratio) || words >> more)
      status = Status::failed("expected STEP RATIO, got '" + line + "'");
    else
      status = schedule.addEntry(step, ratio);
    if (status)
      return status.withContext(path + ":" + std::to_string(number));
  }
  if (!file.eof())
    return Status::failed("cannot read '" + path + "'");
  if (schedule.table_.empty())
    return Status::failed("expected lines of STEP RATIO in '" + path +
                          "', got none");
  return schedule;
}

Status RateSchedule::resolve(int64_t tokensPerStep) {
  if (warmupTokens_ == 0)
    return Status::ok();
  if (tokensPerStep < 1)
    return Status::failed("warmup-tokens: expected a step that takes tokens, "
                          "got one without: warmup counts steps");
  warmup_ = warmupTokens_ / tokensPerStep +
            (warmupTokens_ % tokensPerStep != 0 ? 1 : 0);
  warmupTokens_ = 0;
  return check();
}

double RateSchedule::ratioOf(int64_t step) const {
  if (kind_ == Kind::Table) {
    auto after = std::upper_bound(
        table_.begin(), table_.end(), step,
        [](int64_t at, const auto &entry) { return at < entry.first; });
    return std::prev(after)->second;
  }
  const int64_t s = step - 1 + first_;
  if (s < warmup_)
    return start_ + (1 - start_) * (double(s) / double(warmup_));
  if (decays() && s >= steps_)
    return min_;
  const int64_t stable = decays() ? steps_ - decaySteps() : s;
  if (s <= stable)
    return 1;
  const double p = double(s - stable) / double(decaySteps());
  const Kind shape = kind_ == Kind::Wsd ? shape_ : kind_;
  double ratio = 1 - p;
  if (shape == Kind::Cosine)
    ratio = 0.5 * (1 + std::cos(M_PI * p));
  if (shape == Kind::Sqrt)
    ratio = 1 - std::sqrt(p);
  return min_ + (1 - min_) * ratio;
}

std::optional<int64_t> RateSchedule::lastStep() const {
  return decays() ? std::optional<int64_t>(steps_ - first_) : std::nullopt;
}

double RateSchedule::lastRatio() const { return min_; }

std::string RateSchedule::describe() const {
  constexpr size_t shown = 8;
  if (table_.size() <= shown)
    return text();
  return "table of " + std::to_string(table_.size()) +
         " ratios, the last from step " + std::to_string(table_.back().first) +
         " on, hash " + std::to_string(stableHash(text()));
}

std::string RateSchedule::text() const {
  std::string text = nameOf(kind_), separator = ":";
  auto add = [&](const std::string &key, const std::string &value) {
    text += separator + key + "=" + value;
    separator = ",";
  };
  for (const auto &[step, ratio] : table_)
    add(std::to_string(step), formatNumber(ratio));
  for (auto [key, value] :
       {std::pair("warmup", warmup_), std::pair("warmup-tokens", warmupTokens_),
        std::pair("first", first_), std::pair("steps", steps_),
        std::pair("decay", decay_.value_or(0))})
    if (value != 0)
      add(key, std::to_string(value));
  for (auto [key, value] : {std::pair("start", start_), std::pair("min", min_)})
    if (value != 0)
      add(key, formatNumber(value));
  if (shape_ != Kind::Linear)
    add("shape", nameOf(shape_));
  return text;
}

} // namespace fsdp::rt::data
