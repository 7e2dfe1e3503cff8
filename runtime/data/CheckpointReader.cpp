//===- CheckpointReader.cpp - Going on from a saved state -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Checkpoint.h"
#include "data/CheckpointBase.h"
#include "data/CheckpointFiles.h"
#include "data/CheckpointStates.h"
#include "data/Digest.h"
#include "data/Directory.h"
#include "data/Initialize.h"
#include "data/Json.h"
#include "data/Names.h"
#include "data/Numbers.h"
#include "data/OwnTensors.h"
#include "data/Parameters.h"
#include "data/Sharding.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <set>

namespace fsdp::rt::data {

namespace {

/// meta.json carries the digest of what else it holds.
Status checkOwnDigest(nlohmann::json json, const std::string &expected) {
  json.erase("digest");
  std::string digest = toHex(digestOf(dumpJson(json)));
  if (digest == expected)
    return Status::ok();
  return Status::failed("expected contents of digest " + expected + ", got " +
                        digest + ": the file was damaged or edited");
}

Result<CheckpointInfo> readMeta(const Directory &directory) {
  std::string file = directory.path() + "/" + metaFile;
  Result<std::string> text = directory.readFile(metaFile, maxMetaBytes);
  if (!text.isOk())
    return text.status();
  Result<nlohmann::json> json = parseJson(*text);
  if (!json.isOk())
    return json.status().withContext(file);
  Status status;
  JsonReader meta(*json, status);
  CheckpointInfo info;
  info.path = directory.path();
  int64_t format = meta["format"].integer();
  if (!meta.failed() &&
      (format < formatWithoutDigests || format > checkpointFormat))
    meta["format"].fail("expected 1 or " + std::to_string(checkpointFormat) +
                        ", got " + std::to_string(format));
  if (!meta.failed() && format != formatWithoutDigests) {
    std::string digest = meta["digest"].nonEmptyString();
    if (!meta.failed())
      status = checkOwnDigest(*json, digest);
    info.digests = meta["digests"].nonEmptyString();
    info.origin = readOrigin(meta);
    if (meta.has("base"))
      info.base = meta["base"]["digest"].nonEmptyString();
  }
  info.step = meta["step"].integer(0, maxStep);
  info.shapes = meta["shapes"].string();
  info.ranks = meta["ranks"].integer(1);
  info.paramsBytes = meta["files"][paramsFile].integer(0);
  info.optimizerBytes = meta["files"][optimizerFile].integer(0);
  if (!meta.failed() && meta["files"].has(ranksFile))
    info.ranksBytes = meta["files"][ranksFile].integer(0);
  if (status)
    return status.withContext(file);
  return info;
}

Result<SafetensorsReader> openComplete(const Directory &directory,
                                       const char *name, int64_t bytes) {
  Result<File> opened = directory.openForReading(name);
  if (!opened.isOk())
    return opened.status();
  Result<SafetensorsReader> file = SafetensorsReader::open(std::move(*opened));
  if (file.isOk() && file->fileBytes() != bytes)
    return Status::failed(file->path() + ": expected " + std::to_string(bytes) +
                          " bytes as in " + metaFile + ", got " +
                          std::to_string(file->fileBytes()));
  return file;
}

/// Whether a tensor of ranks.safetensors has the same bytes for every rank.
Result<bool> isEqualOnAllRanks(const SafetensorsReader &file,
                               const TensorInfo &tensor) {
  constexpr int64_t chunkBytes = 1 << 20;
  int64_t ranks = tensor.shape.empty() ? 1 : tensor.shape[0];
  int64_t bytes = ranks > 0 ? tensor.bytes / ranks : 0;
  std::vector<char> first(std::min(bytes, chunkBytes)), other(first.size());
  for (int64_t begin = 0; begin < bytes; begin += chunkBytes) {
    int64_t now = std::min(chunkBytes, bytes - begin);
    if (Status s = file.read(tensor, begin, first.data(), now))
      return s;
    for (int64_t rank = 1; rank < ranks; ++rank) {
      if (Status s = file.read(tensor, rank * bytes + begin, other.data(), now))
        return s;
      if (std::memcmp(first.data(), other.data(), size_t(now)) != 0)
        return false;
    }
  }
  return true;
}

/// Whether `name` is that of what a reduction hook kept.
bool isResidual(const std::string &name) {
  return name.compare(0, residualPrefix.size(), residualPrefix) == 0;
}

/// What each rank has for itself, found in a checkpoint of as many ranks.
class OwnState {
public:
  /// Finds the tensors of `manifest`'s ranks; the file may also hold those of
  /// `droppedStates`. Residuals that it lacks, or has of other ranks or shapes,
  /// begin anew, and those of another hook are left out: `notes` says so. Those
  /// that the checkpoint has for each rank, not all alike, and of which the
  /// ranks take rank 0's, are named in `notes` of rank 0, which compares them.
  static Result<OwnState> open(const CheckpointInfo &checkpoint,
                               std::optional<SafetensorsReader> file,
                               const Manifest &manifest, int rank,
                               const std::set<std::string> &droppedStates,
                               std::vector<std::string> &notes);
  Status read(int rank, const StateMemory &memory) const;
  const std::optional<SafetensorsReader> &file() const { return file_; }

private:
  void noteResiduals(const CheckpointInfo &checkpoint,
                     const std::vector<OwnTensor> &own,
                     std::vector<std::string> &notes) const;
  Result<std::vector<std::string>>
  findLost(const CheckpointInfo &checkpoint, const std::vector<OwnTensor> &own,
           const std::set<std::string> &droppedStates) const;

  std::optional<SafetensorsReader> file_;
  std::vector<std::pair<OwnTensor, const TensorInfo *>> found_;
};

Result<OwnState> OwnState::open(const CheckpointInfo &checkpoint,
                                std::optional<SafetensorsReader> file,
                                const Manifest &manifest, int rank,
                                const std::set<std::string> &droppedStates,
                                std::vector<std::string> &notes) {
  OwnState state;
  state.file_ = std::move(file);
  int64_t ranks = manifest.worldSize();
  std::vector<OwnTensor> own = ownTensors(manifest);
  if (checkpoint.ranks == ranks && state.file_) {
    std::vector<WantedTensor> wanted;
    for (const OwnTensor &tensor : possibleOwnTensors(manifest))
      if (!isResidual(tensor.name))
        wanted.push_back({tensor.name,
                          {},
                          tensor.dtype,
                          stackedShape(tensor, ranks),
                          /*isOptional=*/true});
    // As they are: those of this program are picked below.
    for (const TensorInfo &info : state.file_->tensors())
      if (isResidual(info.name) && info.dtype)
        wanted.push_back(
            {info.name, {}, *info.dtype, info.shape, /*isOptional=*/true});
    for (const std::string &name : droppedStates)
      if (const TensorInfo *info = state.file_->find("optimizer/" + name);
          info && info->dtype)
        wanted.push_back(
            {info->name, {}, *info->dtype, info->shape, /*isOptional=*/true});
    // Where the file moves, the tensors that it holds do not.
    Result<std::vector<MatchedTensor>> matched =
        matchTensors(TensorFiles::of(*state.file_), wanted, /*cast=*/false);
    if (!matched.isOk())
      return matched.status();
    for (OwnTensor &tensor : own)
      if (const TensorInfo *info = state.file_->find(tensor.name);
          info && (!isResidual(tensor.name) ||
                   (info->dtype == tensor.dtype &&
                    info->shape == stackedShape(tensor, ranks))))
        state.found_.push_back({tensor, info});
  }
  if (rank != 0)
    return state;
  state.noteResiduals(checkpoint, own, notes);
  Result<std::vector<std::string>> lost =
      state.findLost(checkpoint, own, droppedStates);
  if (!lost.isOk())
    return lost.status();
  if (!lost->empty())
    notes.push_back(
        checkpoint.path + " (of " + std::to_string(checkpoint.ranks) +
        " ranks): " +
        (ranks == 1 ? "the rank starts"
                    : "each of " + std::to_string(ranks) + " ranks starts") +
        " from rank 0's " + listNames(*lost, 2) +
        ", which differ between ranks");
  return state;
}

void OwnState::noteResiduals(const CheckpointInfo &checkpoint,
                             const std::vector<OwnTensor> &own,
                             std::vector<std::string> &notes) const {
  std::set<std::string> read;
  for (const auto &[tensor, info] : found_)
    if (isResidual(tensor.name))
      read.insert(tensor.name);
  std::vector<std::string> begun, dropped;
  for (const OwnTensor &tensor : own)
    if (isResidual(tensor.name) && !read.count(tensor.name))
      begun.push_back(tensor.name);
  if (file_)
    for (const TensorInfo &tensor : file_->tensors())
      if (isResidual(tensor.name) && !read.count(tensor.name) &&
          std::find(begun.begin(), begun.end(), tensor.name) == begun.end())
        dropped.push_back(tensor.name);
  std::string of = checkpoint.path + " (of " +
                   std::to_string(checkpoint.ranks) + " ranks): ";
  if (!begun.empty())
    notes.push_back(of +
                    "does not have for these ranks what the reduction "
                    "hook keeps: " +
                    listNames(begun, 2) + " begin anew");
  if (!dropped.empty())
    notes.push_back(of + listNames(dropped, 2) +
                    ", which a reduction hook kept that the program does not "
                    "have, are left out");
}

/// Names of what differs between ranks in the checkpoint and is not read for
/// each. What a program does not have for each rank is equal on all: a file
/// that lacks it tells that, but where an older version wrote none.
Result<std::vector<std::string>>
OwnState::findLost(const CheckpointInfo &checkpoint,
                   const std::vector<OwnTensor> &own,
                   const std::set<std::string> &droppedStates) const {
  std::vector<std::string> lost;
  if (checkpoint.ranks == 1)
    return lost;
  if (!file_) {
    if (checkpoint.digests.empty())
      for (const OwnTensor &tensor : own)
        if (!isResidual(tensor.name))
          lost.push_back(tensor.name);
    return lost;
  }
  auto isDropped = [&](const std::string &name) {
    constexpr std::string_view kind = "optimizer/";
    return name.compare(0, kind.size(), kind) == 0 &&
           droppedStates.count(name.substr(kind.size())) != 0;
  };
  for (const TensorInfo &tensor : file_->tensors()) {
    bool isRead =
        std::any_of(found_.begin(), found_.end(), [&](const auto &found) {
          return found.second->name == tensor.name;
        });
    // States of parameters that are no longer trained were named.
    if (isRead || isDropped(tensor.name) || isResidual(tensor.name))
      continue;
    Result<bool> isEqual = isEqualOnAllRanks(*file_, tensor);
    if (!isEqual.isOk())
      return isEqual.status();
    if (!*isEqual)
      lost.push_back(tensor.name);
  }
  return lost;
}

Status OwnState::read(int rank, const StateMemory &memory) const {
  for (const auto &[tensor, info] : found_)
    if (Status s = uploadTensor(StoredTensor{&*file_, info}, tensor.dtype,
                                rank * tensor.numel, tensor.numel,
                                memory.at(tensor.memory, tensor.offset)))
      return s;
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
  Result<int64_t> step =
      parseInteger(name.substr(std::strlen(prefix)), 0, maxStep);
  // Only as we write it: not "step-50", not "step-00000050.old".
  if (!step.isOk() || checkpointName(*step) != name)
    return std::nullopt;
  return *step;
}

bool hasCheckpoints(const std::string &directory) {
  return pathExists(directory + "/" + latestFile);
}

Result<CheckpointInfo> findCheckpoint(const std::string &path) {
  Result<Directory> directory = Directory::open(path);
  bool hasMeta = directory.isOk() && directory->has(metaFile);
  if (hasMeta)
    return readMeta(*directory);
  if (!directory.isOk() || !directory->has(latestFile))
    return Status::failed("'" + path + "': expected a checkpoint, or a " +
                          "directory with a file '" + latestFile +
                          "' that names one, got neither");
  Result<std::string> text = directory->readFile(latestFile, /*maxBytes=*/256);
  if (!text.isOk())
    return text.status();
  std::string name = text->substr(0, text->find('\n'));
  std::optional<int64_t> step = stepOfName(name);
  if (!step)
    return Status::failed(directory->path() + "/" + latestFile +
                          ": expected a name like " + checkpointName(50) +
                          ", got '" + name + "'");
  Result<Directory> named = directory->openDirectory(name);
  if (!named.isOk())
    return named.status();
  Result<CheckpointInfo> info = readMeta(*named);
  if (info.isOk() && info->step != *step)
    return Status::failed(info->path + "/" + metaFile + ": expected step " +
                          std::to_string(*step) + ", got " +
                          std::to_string(info->step));
  return info;
}

/// This rank's share of all bytes, against what digests.json says of them.
static Status checkShare(const Directory &directory,
                         const CheckpointInfo &checkpoint,
                         const std::vector<DigestedFile> &files, int rank,
                         int64_t ranks) {
  std::string path = directory.path() + "/" + digestsFile;
  Result<std::string> text =
      directory.readFile(digestsFile, std::numeric_limits<int32_t>::max());
  if (!text.isOk())
    return text.status();
  if (std::string got = toHex(digestOf(*text)); got != checkpoint.digests)
    return Status::failed(path + ": expected contents of digest " +
                          checkpoint.digests + " as in " + metaFile + ", got " +
                          got);
  Status status = checkDigests(*text, files, rank, ranks);
  return status;
}

/// Writes what is there before a checkpoint is read: with a source all but
/// `saved`, and states at their initial values.
static Status loadLeftOut(const Manifest &manifest, int rank,
                          const StateMemory &memory,
                          const ParameterSource *source,
                          const std::set<std::string> &saved,
                          LoadNotes &notes) {
  return source ? loadParameters(manifest, rank, *source, memory, notes, saved)
                : initializeStates(manifest, memory);
}

static Status load(const CheckpointInfo &checkpoint, const Directory &directory,
                   const Manifest &manifest, int rank,
                   const StateMemory &memory, LeftOut &leftOut,
                   LoadNotes &notes) {
  // All files are opened first: what another run's --keep removes meanwhile is
  // there until they are closed.
  Result<SafetensorsReader> params =
      openComplete(directory, paramsFile, checkpoint.paramsBytes);
  if (!params.isOk())
    return params.status();
  Result<SafetensorsReader> optimizer =
      openComplete(directory, optimizerFile, checkpoint.optimizerBytes);
  if (!optimizer.isOk())
    return optimizer.status();
  std::optional<SafetensorsReader> ranksOwn;
  if (checkpoint.ranksBytes) {
    Result<SafetensorsReader> file =
        openComplete(directory, ranksFile, *checkpoint.ranksBytes);
    if (!file.isOk())
      return file.status();
    ranksOwn = std::move(*file);
  }

  std::vector<WantedTensor> wanted = wantedParameters(manifest);
  // A checkpoint was written under the first names alone.
  for (WantedTensor &want : wanted) {
    want.aliases.clear();
    want.isOptional = checkpoint.base.has_value();
  }
  Result<std::vector<MatchedTensor>> parameters =
      matchTensors(TensorFiles::of(*params), wanted, /*cast=*/false);
  if (!parameters.isOk())
    return parameters.status();
  Result<CheckpointStates> states =
      CheckpointStates::open(*optimizer, manifest);
  if (!states.isOk())
    return states.status();
  // The fingerprint is of the states, too.
  std::string shapes = shapesFingerprint(manifest);
  if (states->hasAll() && checkpoint.shapes != shapes)
    return Status::failed(checkpoint.path + "/" + metaFile +
                          ": expected shapes " + shapes + ", got " +
                          checkpoint.shapes);
  for (std::string &line : states->notes(checkpoint.path))
    notes.warnings.push_back(std::move(line));

  Result<OwnState> own =
      OwnState::open(checkpoint, std::move(ranksOwn), manifest, rank,
                     states->droppedStates(), notes.warnings);
  if (!own.isOk())
    return own.status();

  if (checkpoint.digests.empty()) {
    notes.warnings.push_back(checkpoint.path +
                             ": it has no digests, as an older "
                             "version saved it: its bytes are not checked");
  } else {
    std::vector<DigestedFile> files = {{paramsFile, &*params},
                                       {optimizerFile, &*optimizer}};
    if (own->file())
      files.push_back({ranksFile, &*own->file()});
    if (Status s = checkShare(directory, checkpoint, files, rank,
                              manifest.worldSize()))
      return s;
  }

  std::set<std::string> saved, rest;
  for (size_t i = 0; i < wanted.size(); ++i)
    ((*parameters)[i].stored ? saved : rest).insert(wanted[i].name);
  if (Status s =
          loadLeftOut(manifest, rank, memory,
                      checkpoint.base ? leftOut.source : nullptr, saved, notes))
    return s;
  if (Status s = readParameters(manifest, rank, *parameters, memory))
    return s;
  if (Status s = states->read(rank, memory))
    return s;
  if (Status s = own->read(rank, memory))
    return s;
  Result<uint64_t> sum = sumOfBase(manifest, rank, memory, rest);
  if (!sum.isOk())
    return sum.status();
  leftOut.sum = *sum;
  return Status::ok();
}

Result<std::set<std::string>> parametersIn(const CheckpointInfo &checkpoint) {
  Result<Directory> directory = Directory::open(checkpoint.path);
  if (!directory.isOk())
    return directory.status();
  Result<SafetensorsReader> file =
      openComplete(*directory, paramsFile, checkpoint.paramsBytes);
  if (!file.isOk())
    return file.status();
  std::set<std::string> names;
  for (const TensorInfo &tensor : file->tensors())
    names.insert(tensor.name);
  return names;
}

Status loadCheckpoint(const CheckpointInfo &checkpoint,
                      const Manifest &manifest, int rank,
                      const StateMemory &memory, LeftOut &leftOut,
                      LoadNotes &notes) {
  Result<Directory> directory = Directory::open(checkpoint.path);
  Status status = directory.isOk() ? load(checkpoint, *directory, manifest,
                                          rank, memory, leftOut, notes)
                                   : directory.status();
  if (status && !pathExists(checkpoint.path))
    return Status::failed(status.message() +
                          ": the checkpoint was removed meanwhile, as --keep "
                          "of a run that saves there does: resume again");
  return status;
}

} // namespace fsdp::rt::data
