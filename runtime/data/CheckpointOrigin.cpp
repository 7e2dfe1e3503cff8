//===- CheckpointOrigin.cpp - What a checkpoint came from -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/CheckpointOrigin.h"

#include "data/Digest.h"
#include "data/File.h"

#include <algorithm>
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

/// Of the step after `step`, counted from 1.
std::string firstBatch(int64_t step, int64_t batchesPerStep) {
  int64_t batch;
  // What a checkpoint says may be anything.
  if (__builtin_mul_overflow(step, batchesPerStep, &batch) ||
      __builtin_add_overflow(batch, 1, &batch))
    return "one beyond 2^63";
  return std::to_string(batch);
}

void compare(const TracedProgram &saved, const TracedProgram &present,
             std::vector<std::string> &lines) {
  if (saved.step != present.step)
    lines.push_back("expected the traced step that the state was saved by (" +
                    saved.step.substr(0, 16) + "), got another (" +
                    present.step.substr(0, 16) + ")");
  if (saved.optimizer == present.optimizer)
    return;
  if (saved.constants != present.constants)
    lines.push_back(
        "expected the optimizer's constants " + describe(saved.constants) +
        ", with which the state was saved, got " + describe(present.constants));
  else
    lines.push_back("expected the optimizer that the state was saved by (" +
                    saved.optimizer.substr(0, 16) + "), got another (" +
                    present.optimizer.substr(0, 16) + ")");
}

} // namespace

Result<DataIdentity> identifyData(const std::string &spec,
                                  const std::string &kind,
                                  int64_t batchesPerStep) {
  DataIdentity identity;
  identity.kind = kind;
  identity.batchesPerStep = batchesPerStep;
  if (kind.compare(0, 7, "random:") == 0)
    return identity;
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
  if (origin.traced)
    meta["traced"] = {{"step", origin.traced->step},
                      {"optimizer", origin.traced->optimizer},
                      {"constants", origin.traced->constants}};
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
}

CheckpointOrigin readOrigin(const JsonReader &meta) {
  CheckpointOrigin origin;
  if (meta.has("traced")) {
    JsonReader traced = meta["traced"];
    origin.traced.emplace();
    origin.traced->step = traced["step"].string();
    origin.traced->optimizer = traced["optimizer"].string();
    traced["constants"].forEach([&](const JsonReader &constant) {
      origin.traced->constants.push_back(constant.string());
    });
  }
  if (meta.has("data")) {
    JsonReader data = meta["data"];
    origin.data.emplace();
    origin.data->kind = data["kind"].string();
    // Where it is missing, an older version wrote it, which took one.
    if (data.has("batches_per_step"))
      origin.data->batchesPerStep = data["batches_per_step"].integer(1);
    if (data.has("name")) {
      origin.data->name = data["name"].string();
      origin.data->bytes = data["bytes"].integer(0);
      origin.data->digest = data["digest"].string();
    }
  }
  return origin;
}

std::vector<std::string> differences(const CheckpointOrigin &saved,
                                     const CheckpointOrigin &present,
                                     int64_t step) {
  std::vector<std::string> lines;
  if (saved.traced && present.traced)
    compare(*saved.traced, *present.traced, lines);
  if (!saved.data || !present.data)
    return lines;
  const DataIdentity &was = *saved.data, &is = *present.data;
  bool isSame =
      was.kind == is.kind && was.bytes == is.bytes && was.digest == is.digest;
  if (!isSame && describe(was) == describe(is))
    lines.push_back("--data: expected the contents of " + describe(was) +
                    " as they were when the state was saved, got others");
  else if (!isSame)
    lines.push_back("--data: expected " + describe(was) +
                    ", with which the state was saved, got " + describe(is));
  if (was.batchesPerStep != is.batchesPerStep)
    lines.push_back(
        "--accumulate: expected " + std::to_string(was.batchesPerStep) +
        ", with which the state was saved, got " +
        std::to_string(is.batchesPerStep) + ": step " +
        std::to_string(step + 1) + " begins at batch " +
        firstBatch(step, is.batchesPerStep) + " of --data instead of " +
        firstBatch(step, was.batchesPerStep));
  return lines;
}

} // namespace fsdp::rt::data
