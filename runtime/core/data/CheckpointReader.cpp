//===- CheckpointReader.cpp - Going on from a saved state -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/data/Checkpoint.h"
#include "core/data/CheckpointFiles.h"
#include "core/data/Initialize.h"
#include "core/data/Json.h"
#include "core/data/Numbers.h"
#include "core/data/Parameters.h"
#include "core/data/Sharding.h"

#include <cstdio>
#include <cstring>
#include <limits>

namespace fsdp::rt::data {

namespace {

constexpr int64_t maxMetaBytes = 1 << 20;

Result<CheckpointInfo> readMeta(const std::string &path) {
  std::string file = path + "/" + metaFile;
  Result<std::string> text = readWholeFile(file, maxMetaBytes);
  if (!text.isOk())
    return text.status();
  Result<nlohmann::json> json = parseJson(*text);
  if (!json.isOk())
    return json.status().withContext(file);
  Status status;
  JsonReader meta(*json, status);
  CheckpointInfo info;
  info.path = path;
  int64_t format = meta["format"].integer();
  if (!meta.failed() && format != checkpointFormat)
    meta["format"].fail("expected " + std::to_string(checkpointFormat) +
                        ", got " + std::to_string(format));
  info.step = meta["step"].integer(0);
  info.shapes = meta["shapes"].string();
  info.paramsBytes = meta["files"][paramsFile].integer(0);
  info.optimizerBytes = meta["files"][optimizerFile].integer(0);
  if (status)
    return status.withContext(file);
  return info;
}

Result<SafetensorsReader> openComplete(const std::string &path, int64_t bytes) {
  Result<SafetensorsReader> file = SafetensorsReader::open(path);
  if (file.isOk() && file->fileBytes() != bytes)
    return Status::failed(path + ": expected " + std::to_string(bytes) +
                          " bytes as in " + metaFile + ", got " +
                          std::to_string(file->fileBytes()));
  return file;
}

Status readScalarState(const SafetensorsReader &file, const FlatParam &flat,
                       const OptimizerState &state,
                       const TensorInfo *const *members, char *dst) {
  int64_t size = dtypeSize(state.dtype);
  for (size_t m = 0; m < flat.members.size(); ++m) {
    char value[8];
    if (Status s = readElements(file, *members[m], state.dtype, 0, 1, value))
      return s;
    if (m == 0)
      std::memcpy(dst, value, size);
    else if (std::memcmp(dst, value, size) != 0)
      return Status::failed(file.path() + ": expected one value of '" +
                            state.name + "' for all of unit '" + flat.name +
                            "', got " +
                            std::to_string(loadNumber(state.dtype, dst)) +
                            " for '" + flat.members[0].fqn + "' and " +
                            std::to_string(loadNumber(state.dtype, value)) +
                            " for '" + flat.members[m].fqn + "'");
  }
  return Status::ok();
}

Status readStates(const SafetensorsReader &file,
                  const std::vector<const TensorInfo *> &matched,
                  const Manifest &manifest, int rank, char *arena) {
  size_t first = 0;
  for (const FlatParam &flat : manifest.flatParams) {
    std::vector<Piece> pieces =
        piecesOf(flat, placeAlong(manifest, rank, flat.shardAxes));
    for (const OptimizerState &state : flat.states) {
      char *values = arena + state.offset;
      if (state.scalar) {
        if (Status s = readScalarState(file, flat, state,
                                       matched.data() + first, values))
          return s;
      } else {
        for (const Piece &piece : pieces)
          if (Status s = readElements(
                  file, *matched[first + piece.member], state.dtype,
                  piece.memberBegin, piece.count,
                  values + piece.shardBegin * dtypeSize(state.dtype)))
            return s;
      }
      first += flat.members.size();
    }
  }
  return Status::ok();
}

} // namespace

std::string checkpointName(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return name;
}

std::optional<int64_t> stepOfName(const std::string &name) {
  constexpr const char *prefix = "step-";
  if (name.compare(0, std::strlen(prefix), prefix) != 0)
    return std::nullopt;
  Result<int64_t> step = parseInteger(name.substr(std::strlen(prefix)), 0,
                                      std::numeric_limits<int64_t>::max());
  // Only as we write it: not "step-50", not "step-00000050.old".
  if (!step.isOk() || checkpointName(*step) != name)
    return std::nullopt;
  return *step;
}

Result<CheckpointInfo> findCheckpoint(const std::string &directory) {
  if (pathExists(directory + "/" + metaFile))
    return readMeta(directory);
  std::string latest = directory + "/" + latestFile;
  if (!pathExists(latest))
    return Status::failed("'" + directory + "': expected a checkpoint, or a " +
                          "directory with a file '" + latestFile +
                          "' that names one, got neither");
  Result<std::string> text = readWholeFile(latest, /*maxBytes=*/256);
  if (!text.isOk())
    return text.status();
  std::string name = text->substr(0, text->find('\n'));
  std::optional<int64_t> step = stepOfName(name);
  if (!step)
    return Status::failed(latest + ": expected a name like " +
                          checkpointName(50) + ", got '" + name + "'");
  Result<CheckpointInfo> info = readMeta(directory + "/" + name);
  if (info.isOk() && info->step != *step)
    return Status::failed(info->path + "/" + metaFile + ": expected step " +
                          std::to_string(*step) + ", got " +
                          std::to_string(info->step));
  return info;
}

Status loadCheckpoint(const CheckpointInfo &checkpoint,
                      const Manifest &manifest, int rank, char *arena) {
  Result<SafetensorsReader> params =
      openComplete(checkpoint.path + "/" + paramsFile, checkpoint.paramsBytes);
  if (!params.isOk())
    return params.status();
  Result<SafetensorsReader> optimizer = openComplete(
      checkpoint.path + "/" + optimizerFile, checkpoint.optimizerBytes);
  if (!optimizer.isOk())
    return optimizer.status();

  std::vector<WantedTensor> wanted = wantedParameters(manifest), wantedStates;
  // A checkpoint was written under the first names alone.
  for (WantedTensor &want : wanted)
    want.aliases.clear();
  for (TensorSpec &spec : optimizerTensors(manifest))
    wantedStates.push_back(
        {std::move(spec.name), {}, spec.dtype, std::move(spec.shape), false});
  Result<std::vector<const TensorInfo *>> parameters =
      matchTensors(*params, wanted, /*cast=*/false);
  if (!parameters.isOk())
    return parameters.status();
  Result<std::vector<const TensorInfo *>> states =
      matchTensors(*optimizer, wantedStates, /*cast=*/false);
  if (!states.isOk())
    return states.status();
  std::string shapes = shapesFingerprint(manifest);
  if (checkpoint.shapes != shapes)
    return Status::failed(checkpoint.path + "/" + metaFile +
                          ": expected shapes " + shapes + ", got " +
                          checkpoint.shapes);

  initializeStates(manifest, arena);
  if (Status s = readParameters(manifest, rank, *params, *parameters, arena))
    return s;
  return readStates(*optimizer, *states, manifest, rank, arena);
}

} // namespace fsdp::rt::data
