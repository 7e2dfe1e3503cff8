//===- CheckpointWriter.cpp - Saving the state ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/data/Checkpoint.h"
#include "core/data/CheckpointFiles.h"
#include "core/data/Json.h"
#include "core/data/OwnTensors.h"
#include "core/data/Parameters.h"
#include "core/data/Philox.h"
#include "core/data/Sharding.h"

#include <algorithm>
#include <cstdio>

namespace fsdp::rt::data {

namespace {

std::vector<TensorSpec> parameterTensors(const Manifest &manifest) {
  std::vector<TensorSpec> specs;
  for (WantedTensor &want : wantedParameters(manifest))
    specs.push_back({std::move(want.name), want.dtype, std::move(want.shape)});
  return specs;
}

/// What a checkpoint holds of every rank; nothing where there is one rank,
/// whose tensors are in the other files.
std::vector<TensorSpec> rankTensors(const Manifest &manifest) {
  std::vector<TensorSpec> specs;
  int64_t ranks = manifest.worldSize();
  if (ranks > 1)
    for (OwnTensor &tensor : ownTensors(manifest))
      specs.push_back(
          {std::move(tensor.name), tensor.dtype, stackedShape(tensor, ranks)});
  return specs;
}

std::string tensorLine(const TensorSpec &spec) {
  return spec.name + '\0' + dtypeName(spec.dtype) + toString(spec.shape) + '\0';
}

constexpr const char *probeFile = ".writable";

bool startsWith(const std::string &text, std::string_view start) {
  return text.compare(0, start.size(), start) == 0;
}

/// What a save that was killed may have left: a checkpoint's temporary
/// directory, or the temporary file of what replaceFile replaces.
bool isLeftover(const std::string &name) {
  size_t suffix = std::string_view(temporarySuffix).size();
  if (name.size() < suffix ||
      name.substr(name.size() - suffix) != temporarySuffix)
    return name == probeFile;
  std::string stem = name.substr(0, name.size() - suffix);
  return stepOfName(stem) || startsWith(stem, std::string(latestFile) + ".") ||
         startsWith(stem, std::string(probeFile) + ".");
}

/// The name in DIR/latest; empty where there is none.
std::string readLatest(const std::string &directory) {
  Result<std::string> text =
      readWholeFile(directory + "/" + latestFile, /*maxBytes=*/256);
  return text.isOk() ? text->substr(0, text->find('\n')) : "";
}

} // namespace

std::vector<TensorSpec> optimizerTensors(const Manifest &manifest) {
  std::vector<TensorSpec> specs;
  for (const FlatParam &flat : manifest.flatParams)
    for (const OptimizerState &state : flat.states)
      for (const Member &member : flat.members)
        specs.push_back({member.fqn + "." + state.name, state.dtype,
                         state.scalar ? Shape{} : member.shape});
  return specs;
}

std::string shapesFingerprint(const Manifest &manifest) {
  std::vector<std::string> lines;
  for (const TensorSpec &spec : parameterTensors(manifest))
    lines.push_back("p" + tensorLine(spec));
  for (const TensorSpec &spec : optimizerTensors(manifest))
    lines.push_back("s" + tensorLine(spec));
  std::sort(lines.begin(), lines.end());
  uint64_t hash = stableHash("");
  for (const std::string &line : lines)
    hash = stableHash(line, hash);
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(hash));
  return text;
}

Result<CheckpointWriter> CheckpointWriter::create(const Manifest &manifest,
                                                  int rank, Consensus &ranks,
                                                  const Options &options) {
  Result<SafetensorsLayout> params =
      SafetensorsLayout::create(parameterTensors(manifest));
  if (!params.isOk())
    return params.status().withContext(paramsFile);
  Result<SafetensorsLayout> optimizer =
      SafetensorsLayout::create(optimizerTensors(manifest));
  if (!optimizer.isOk())
    return optimizer.status().withContext(optimizerFile);
  Result<SafetensorsLayout> own =
      SafetensorsLayout::create(rankTensors(manifest));
  if (!own.isOk())
    return own.status().withContext(ranksFile);
  CheckpointWriter writer(manifest, rank, ranks, options, std::move(*params),
                          std::move(*optimizer), std::move(*own));
  if (Status s = ranks.announce(rank == 0 ? writer.claimDirectory() : Status()))
    return s;
  Status seen = ranks.agree(rank == 0 ? Status() : writer.checkIsShared());
  Status removed = rank == 0 ? removeTree(writer.probe()) : Status();
  if (seen)
    return seen;
  if (Status s = ranks.announce(removed))
    return s;
  return writer;
}

std::vector<std::pair<const char *, const SafetensorsLayout *>>
CheckpointWriter::files() const {
  std::vector<std::pair<const char *, const SafetensorsLayout *>> files = {
      {paramsFile, &params_}, {optimizerFile, &optimizer_}};
  if (!own_.specs().empty())
    files.push_back({ranksFile, &own_});
  return files;
}

Status CheckpointWriter::claimDirectory() {
  const std::string &directory = options_.directory;
  if (Status s = claim_.create(directory))
    return s.withContext("--save");
  std::string latest = readLatest(directory);
  // Two runs in one directory would take each other's checkpoints for theirs.
  if (!latest.empty() && !isSameFile(options_.resumedFrom + "/..", directory))
    return Status::failed("--save: '" + directory + "' holds checkpoint " +
                          latest + " already: expected --resume of it, or " +
                          "another directory");
  Result<std::vector<std::string>> names = listDirectory(directory);
  if (!names.isOk())
    return names.status();
  for (const std::string &name : *names)
    if (isLeftover(name))
      if (Status s = removeTree(directory + "/" + name))
        return s;
  // To find out after hours of training would be late.
  return replaceFile(probe(), "").withContext("--save");
}

std::string CheckpointWriter::probe() const {
  return options_.directory + "/" + probeFile;
}

/// Every rank writes into files that rank 0 creates.
Status CheckpointWriter::checkIsShared() const {
  if (!pathExists(probe()))
    return Status::failed("--save: expected '" + options_.directory +
                          "' to be one directory of all ranks, got one "
                          "without what rank 0 has just written there");
  Result<File> file = File::openForWriting(probe());
  return file.status().withContext("--save");
}

Status CheckpointWriter::save(int64_t step, const char *arena) {
  std::string name = checkpointName(step);
  std::string temporary = options_.directory + "/" + name + temporarySuffix;
  std::string context = "cannot save step " + std::to_string(step);
  Status status = ranks_->announce(
      (rank_ == 0 ? prepare(temporary) : Status::ok()).withContext(context));
  if (!status)
    status =
        ranks_->agree(writeOwnRanges(temporary, arena).withContext(context));
  if (!status)
    status = ranks_->announce(
        (rank_ == 0 ? commit(name, step) : Status::ok()).withContext(context));
  if (status && rank_ == 0)
    // The failure that counts is the one before.
    (void)removeTree(temporary);
  return status;
}

Status CheckpointWriter::prepare(const std::string &temporary) const {
  if (Status s = removeTree(temporary))
    return s;
  if (Status s = makeDirectories(temporary))
    return s;
  for (auto [name, layout] : files())
    if (Status s = layout->createFile(temporary + "/" + name))
      return s;
  return Status::ok();
}

Status CheckpointWriter::writeOwnRanges(const std::string &temporary,
                                        const char *arena) const {
  auto write = [&](const char *name, auto body) -> Status {
    Result<File> file = File::openForWriting(temporary + "/" + name);
    if (!file.isOk())
      return file.status();
    if (Status s = (this->*body)(*file, arena))
      return s;
    if (Status s = file->sync())
      return s;
    return file->close();
  };
  if (Status s = write(paramsFile, &CheckpointWriter::writeParameters))
    return s;
  if (Status s = write(optimizerFile, &CheckpointWriter::writeStates))
    return s;
  return own_.specs().empty() ? Status::ok()
                              : write(ranksFile, &CheckpointWriter::writeOwn);
}

Status CheckpointWriter::writeParameters(const File &file,
                                         const char *arena) const {
  size_t first = 0;
  for (const FlatParam &flat : manifest_->flatParams) {
    int64_t size = dtypeSize(flat.dtype);
    if (isFirstReplica(*manifest_, rank_, flat.shardAxes))
      for (const Piece &piece :
           piecesOf(flat, placeAlong(*manifest_, rank_, flat.shardAxes)))
        if (Status s =
                file.writeAt(params_.offsetOf(first + piece.member) +
                                 piece.memberBegin * size,
                             arena + flat.offset + piece.shardBegin * size,
                             piece.count * size))
          return s;
    first += flat.members.size();
  }
  for (const Buffer &buffer : manifest_->buffers) {
    int64_t offset = params_.offsetOf(first++);
    if (rank_ == 0)
      if (Status s = file.writeAt(offset, arena + buffer.offset,
                                  buffer.numel * dtypeSize(buffer.dtype)))
        return s;
  }
  return Status::ok();
}

Status CheckpointWriter::writeStates(const File &file,
                                     const char *arena) const {
  size_t first = 0;
  for (const FlatParam &flat : manifest_->flatParams) {
    bool isWriter = isFirstReplica(*manifest_, rank_, flat.shardAxes);
    std::vector<Piece> pieces =
        piecesOf(flat, placeAlong(*manifest_, rank_, flat.shardAxes));
    for (const OptimizerState &state : flat.states) {
      int64_t size = dtypeSize(state.dtype);
      const char *values = arena + state.offset;
      for (size_t m = 0; state.scalar && rank_ == 0 && m < flat.members.size();
           ++m)
        if (Status s =
                file.writeAt(optimizer_.offsetOf(first + m), values, size))
          return s;
      for (const Piece &piece : pieces)
        if (isWriter && !state.scalar)
          if (Status s = file.writeAt(
                  optimizer_.offsetOf(first + piece.member) +
                      piece.memberBegin * size,
                  values + piece.shardBegin * size, piece.count * size))
            return s;
      first += flat.members.size();
    }
  }
  return Status::ok();
}

Status CheckpointWriter::writeOwn(const File &file, const char *arena) const {
  size_t index = 0;
  for (const OwnTensor &tensor : ownTensors(*manifest_))
    if (Status s = file.writeAt(own_.offsetOf(index++) + rank_ * tensor.bytes(),
                                arena + tensor.offset, tensor.bytes()))
      return s;
  return Status::ok();
}

Status CheckpointWriter::commit(const std::string &name, int64_t step) const {
  const std::string &directory = options_.directory;
  std::string path = directory + "/" + name;
  std::string temporary = path + temporarySuffix;
  nlohmann::json sizes = nlohmann::json::object();
  for (auto [file, layout] : files())
    sizes[file] = layout->fileBytes();
  nlohmann::json meta = {
      {"format", checkpointFormat},
      {"step", step},
      {"program", manifest_->name},
      {"shapes", shapesFingerprint(*manifest_)},
      {"ranks", manifest_->worldSize()},
      {"files", std::move(sizes)},
  };
  if (Status s =
          replaceFile(temporary + "/" + metaFile, dumpJson(meta, 2) + "\n"))
    return s;
  if (Status s = syncDirectory(temporary))
    return s;
  bool isSpare = readLatest(directory) != name;
  if (Status s = replaceDirectory(temporary, path, isSpare))
    return s;
  if (Status s = replaceFile(directory + "/" + latestFile, name + "\n"))
    return s;
  return removeOldOnes(step);
}

Status CheckpointWriter::removeOldOnes(int64_t step) const {
  if (options_.keep == 0)
    return Status::ok();
  Result<std::vector<std::string>> names = listDirectory(options_.directory);
  if (!names.isOk())
    return names.status();
  // Later ones, of a run that this one has gone back behind, are left alone.
  std::vector<int64_t> steps;
  for (const std::string &name : *names)
    if (std::optional<int64_t> other = stepOfName(name))
      if (*other <= step)
        steps.push_back(*other);
  std::sort(steps.begin(), steps.end(), std::greater<int64_t>());
  for (size_t i = options_.keep; i < steps.size(); ++i) {
    std::string path = options_.directory + "/" + checkpointName(steps[i]);
    // Renamed first: half of a checkpoint must not bear a checkpoint's name.
    std::string temporary = path + temporarySuffix;
    if (std::rename(path.c_str(), temporary.c_str()) != 0)
      return systemError("cannot rename", path);
    if (Status s = removeTree(temporary))
      return s;
  }
  return Status::ok();
}

} // namespace fsdp::rt::data
