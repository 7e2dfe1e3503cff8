//===- CheckpointOrigin.cpp - What a checkpoint came from -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/CheckpointOrigin.h"

#include "data/Batches.h"
#include "data/Digest.h"
#include "data/File.h"
#include "data/Numbers.h"
#include "data/RateSchedule.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace fsdp::rt::data {

namespace {

constexpr int64_t edgeBytes = 32 << 20;
constexpr size_t shownConstants = 8;

Status digestRange(const File &file, int64_t begin, int64_t end,
                   Digest &digest) {
  std::vector<char> chunk(std::min<int64_t>(1 << 20, end - begin));
  while (begin < end) {
    int64_t now = std::min<int64_t>(chunk.size(), end - begin);
    if (Status s = file.readAt(begin, chunk.data(), now))
      return s;
    digest.add(chunk.data(), now);
    begin += now;
  }
  return Status::ok();
}

std::string describe(const DataIdentity &data) {
  if (data.name.empty())
    return data.kind;
  return "'" + data.name + "' (" + data.kind + ", " +
         std::to_string(data.bytes) + " bytes)";
}

std::string describe(const std::vector<std::string> &constants) {
  std::string text;
  for (size_t i = 0; i < constants.size() && i < shownConstants; ++i)
    text += (i ? ", " : "") + constants[i];
  return constants.size() > shownConstants ? text + ", ..." : text;
}

/// Options are decimal, defaults may be decimals rounded to 32 bits.
bool areEqual(double a, double b) {
  bool isWhole = std::trunc(a) == a && std::trunc(b) == b;
  return a == b || (!isWhole && static_cast<float>(a) == static_cast<float>(b));
}

void compare(const std::map<std::string, double> &saved,
             const std::map<std::string, double> &present,
             std::vector<std::string> &lines) {
  for (const auto &[name, is] : present)
    if (auto was = saved.find(name);
        was != saved.end() && !areEqual(was->second, is))
      lines.push_back(
          optionOf(name) + ": expected " + formatNumber(was->second) +
          ", with which the state was saved, got " + formatNumber(is));
}

void compare(const TracedProgram &saved, const TracedProgram &present,
             std::vector<std::string> &lines) {
  if (saved.step != present.step)
    lines.push_back("expected the traced step that the state was saved by (" +
                    saved.step.substr(0, 16) + "), got another (" +
                    present.step.substr(0, 16) + ")");
  if (saved.optimizer == present.optimizer)
    return;
  bool areNamed = !saved.spec.empty() && !present.spec.empty();
  if (areNamed && saved.spec != present.spec)
    lines.push_back("expected the optimizer " + saved.spec +
                    ", with which the state was saved, got " + present.spec);
  else if (saved.constants != present.constants)
    lines.push_back(
        "expected the optimizer's constants " + describe(saved.constants) +
        ", with which the state was saved, got " + describe(present.constants));
  else
    lines.push_back("expected the optimizer that the state was saved by (" +
                    saved.optimizer.substr(0, 16) + "), got another (" +
                    present.optimizer.substr(0, 16) + ")");
}

/// Without one, the rate is constant.
std::string describeSchedule(const std::string &text) {
  if (text.empty())
    return "constant";
  Result<RateSchedule> schedule = RateSchedule::parse(text);
  return schedule.isOk() ? schedule->describe() : text;
}

} // namespace

std::string optionOf(const std::string &scalar) {
  const scalars::Traits *known = scalars::find(scalar);
  return known && known->setter == scalars::Setter::User ? known->option
                                                         : "--scalar " + scalar;
}

std::string optionOf(const std::string &scalar, const std::string &value) {
  std::string option = optionOf(scalar);
  return option + (option == "--scalar " + scalar ? "=" : " ") + value;
}

Result<DataIdentity> identifyData(const std::string &spec,
                                  const std::string &kind) {
  DataIdentity identity;
  identity.kind = kind;
  identity.source = spec;
  if (kind.compare(0, 7, "random:") == 0)
    return identity;
  std::error_code error;
  identity.source = std::filesystem::absolute(spec, error).string();
  if (error)
    return Status::failed("cannot find the path of '" + spec +
                          "': " + error.message());
  identity.name = std::filesystem::path(spec).filename().string();
  Result<File> file = File::openForReading(spec);
  if (!file.isOk())
    return file.status();
  Result<int64_t> size = file->size();
  if (!size.isOk())
    return size.status();
  identity.bytes = *size;
  Digest digest;
  int64_t head = std::min(*size, edgeBytes);
  if (Status s = digestRange(*file, 0, head, digest))
    return s;
  if (Status s =
          digestRange(*file, std::max(head, *size - edgeBytes), *size, digest))
    return s;
  identity.digest = toHex(digest.value());
  return identity;
}

void writeOrigin(const CheckpointOrigin &origin, nlohmann::json &meta) {
  for (const auto &[name, value] : origin.scalars)
    if (std::isfinite(value))
      meta["scalars"][name] = value;
    else
      meta["scalars"][name] = formatNumber(value);
  if (!origin.rateSchedule.empty())
    meta["lr_schedule"] = origin.rateSchedule;
  if (origin.traced)
    meta["traced"] = {{"step", origin.traced->step},
                      {"optimizer", origin.traced->optimizer},
                      {"constants", origin.traced->constants}};
  if (origin.traced && !origin.traced->spec.empty())
    meta["traced"]["spec"] = origin.traced->spec;
  if (origin.device && !origin.device->choices.empty())
    meta["device"] = {{"name", origin.device->name},
                      {"choices", origin.device->choices}};
  if (!origin.data)
    return;
  nlohmann::json &data =
      meta["data"] = {{"kind", origin.data->kind},
                      {"batches_per_step", origin.data->batchesPerStep}};
  if (!origin.data->name.empty()) {
    data["name"] = origin.data->name;
    data["bytes"] = origin.data->bytes;
    data["digest"] = origin.data->digest;
  }
  if (!origin.data->source.empty())
    data["source"] = origin.data->source;
  if (!origin.data->ranks.empty())
    data["ranks"] = origin.data->ranks;
  if (origin.data->samplesPerStep)
    data["samples_per_step"] = *origin.data->samplesPerStep;
  if (origin.data->taken)
    data["taken"] = {{"unit", origin.data->unit},
                     {"count", *origin.data->taken}};
}

CheckpointOrigin readOrigin(const JsonReader &meta) {
  CheckpointOrigin origin;
  if (meta.has("scalars"))
    meta["scalars"].forEachEntry(
        [&](const std::string &name, const JsonReader &value) {
          origin.scalars[name] = value.extendedNumber();
        });
  if (meta.has("lr_schedule"))
    origin.rateSchedule = meta["lr_schedule"].nonEmptyString();
  if (meta.has("traced")) {
    JsonReader traced = meta["traced"];
    origin.traced.emplace();
    origin.traced->step = traced["step"].string();
    origin.traced->optimizer = traced["optimizer"].string();
    traced["constants"].forEach([&](const JsonReader &constant) {
      origin.traced->constants.push_back(constant.string());
    });
    if (traced.has("spec"))
      origin.traced->spec = traced["spec"].string();
  }
  if (meta.has("device")) {
    JsonReader device = meta["device"];
    origin.device.emplace();
    origin.device->name = device["name"].string();
    device["choices"].forEachEntry(
        [&](const std::string &name, const JsonReader &choice) {
          origin.device->choices[name] = choice.string();
        });
  }
  if (meta.has("data")) {
    JsonReader data = meta["data"];
    origin.data.emplace();
    origin.data->kind = data["kind"].string();
    // Where it is missing, an older version wrote it, which took one.
    if (data.has("batches_per_step"))
      origin.data->batchesPerStep =
          data["batches_per_step"].integer(1, maxTaken);
    if (data.has("name")) {
      origin.data->name = data["name"].string();
      origin.data->bytes = data["bytes"].integer(0);
      origin.data->digest = data["digest"].string();
    }
    if (data.has("ranks"))
      origin.data->ranks = data["ranks"].string();
    if (data.has("source"))
      origin.data->source = data["source"].nonEmptyString();
    if (data.has("samples_per_step"))
      origin.data->samplesPerStep =
          data["samples_per_step"].integer(0, maxTaken);
    if (data.has("taken")) {
      origin.data->unit = data["taken"]["unit"].nonEmptyString();
      origin.data->taken = data["taken"]["count"].integer(0, maxTaken);
    }
  }
  return origin;
}

std::vector<std::string> differences(const CheckpointOrigin &saved,
                                     const CheckpointOrigin &present) {
  std::vector<std::string> lines;
  compare(saved.scalars, present.scalars, lines);
  const std::string schedule = describeSchedule(saved.rateSchedule),
                    other = describeSchedule(present.rateSchedule);
  if (schedule != other)
    lines.push_back("--lr-schedule: expected " + schedule +
                    ", with which the state was saved, got " + other);
  if (saved.traced && present.traced)
    compare(*saved.traced, *present.traced, lines);
  if (!saved.data || !present.data)
    return lines;
  const DataIdentity &was = *saved.data, &is = *present.data;
  bool isSame =
      was.kind == is.kind && was.bytes == is.bytes && was.digest == is.digest;
  std::string begin = is.taken ? ", read from " + is.unit + " " +
                                     std::to_string(*is.taken) + " on"
                               : "";
  if (!isSame && describe(was) == describe(is))
    lines.push_back("--data: expected the contents of " + describe(was) +
                    " as they were when the state was saved, got others" +
                    begin);
  else if (!isSame)
    lines.push_back("--data: expected " + describe(was) +
                    ", with which the state was saved, got " + describe(is) +
                    begin);
  // Those of the first ranks are read whether it is said or not.
  const std::string all = nameOf(DataOptions::Ranks::All);
  if (was.kind == "safetensors" && is.kind == was.kind &&
      was.ranks != is.ranks && (was.ranks == all || is.ranks == all))
    lines.push_back("--data-ranks: expected " +
                    (was.ranks.empty() ? "none" : was.ranks) +
                    ", with which the state was saved, got " +
                    (is.ranks.empty() ? "none" : is.ranks));
  if (was.samplesPerStep && is.samplesPerStep &&
      *was.samplesPerStep != *is.samplesPerStep)
    lines.push_back("the batch of a step: expected " +
                    std::to_string(*was.samplesPerStep) +
                    " samples of all ranks and micro-batches, as when the "
                    "state was saved, got " +
                    std::to_string(*is.samplesPerStep));
  return lines;
}

std::vector<std::string> differences(const DeviceIdentity &saved,
                                     const DeviceIdentity &present) {
  std::vector<std::string> lines;
  if (saved.name != present.name)
    return lines;
  for (const auto &[name, was] : saved.choices)
    for (const auto *choices : {&present.choices, &present.plain})
      if (auto is = choices->find(name);
          is != choices->end() && is->second != was)
        lines.push_back("--" + name + ": expected " + was +
                        ", as when the state was saved, got " + is->second +
                        ": sums have another order");
  return lines;
}

} // namespace fsdp::rt::data
