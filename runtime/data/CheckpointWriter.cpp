//===- CheckpointWriter.cpp - Saving the state ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Checkpoint.h"
#include "data/CheckpointBase.h"
#include "data/CheckpointFiles.h"
#include "data/Digest.h"
#include "data/FiniteState.h"
#include "data/Json.h"
#include "data/OwnTensors.h"
#include "data/Parameters.h"
#include "data/Philox.h"
#include "data/Sharding.h"

#include <algorithm>
#include <cstdio>
#include <functional>

namespace fsdp::rt::data {

namespace {

/// All but those of `leftOut`.
std::vector<TensorSpec>
parameterTensors(const Manifest &manifest,
                 const std::set<std::string> &leftOut = {}) {
  std::vector<TensorSpec> specs;
  for (WantedTensor &want : wantedParameters(manifest))
    if (!leftOut.count(want.name))
      specs.push_back(
          {std::move(want.name), want.dtype, std::move(want.shape)});
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

bool startsWith(const std::string &text, std::string_view start) {
  return text.compare(0, start.size(), start) == 0;
}

/// What a save that was killed may have left: a checkpoint's temporary
/// directory, or the temporary file of `latest`.
bool isLeftover(const std::string &name) {
  size_t suffix = std::string_view(temporarySuffix).size();
  if (name.size() < suffix ||
      name.substr(name.size() - suffix) != temporarySuffix)
    return false;
  return stepOfName(name.substr(0, name.find('.'))) ||
         startsWith(name, std::string(latestFile) + ".");
}

/// The name in DIR/latest; empty where there is none.
Result<std::string> readLatest(const Directory &directory) {
  if (!directory.has(latestFile))
    return std::string();
  Result<std::string> text = directory.readFile(latestFile, /*maxBytes=*/256);
  if (!text.isOk())
    return text.status();
  return text->substr(0, text->find('\n'));
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

Result<CheckpointWriter>
CheckpointWriter::create(const Manifest &manifest, int rank, Consensus &ranks,
                         const Options &options,
                         std::vector<std::string> &notes) {
  Result<SafetensorsLayout> params = SafetensorsLayout::create(parameterTensors(
      manifest,
      options.trainedOnly ? namesOfBase(manifest) : std::set<std::string>()));
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
  Status claimed = rank == 0 ? writer.claimDirectory(notes) : Status::ok();
  if (Status s = ranks.announce(claimed.withContext("--save")))
    return s;
  Result<std::string> token = ranks.share(writer.lock_.token());
  if (!token.isOk())
    return token.status();
  writer.token_ = *token;
  if (Status s = ranks.agree(writer.checkIsShared()))
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

Status CheckpointWriter::claimDirectory(std::vector<std::string> &notes) {
  const std::string &path = options_.directory;
  if (Status s = claim_.create(path))
    return s;
  Result<Directory> directory = Directory::open(path);
  if (!directory.isOk())
    return directory.status();
  directory_ = std::move(*directory);
  // Writing the lock also finds out that the directory can be written to: after
  // hours of training that would be late.
  Result<RunLock> lock = RunLock::acquire(directory_);
  if (!lock.isOk())
    return lock.status();
  lock_ = std::move(*lock);
  if (!lock_.isExclusive())
    notes.push_back("--save: the file system of '" + path +
                    "' has no locks: nothing keeps a run on another host from "
                    "saving there, too");
  Result<std::string> latest = readLatest(directory_);
  if (!latest.isOk())
    return latest.status();
  // Two runs in one directory would take each other's checkpoints for theirs.
  if (!latest->empty() && !isSameFile(options_.resumedFrom + "/..", path))
    return Status::failed("'" + path + "' holds checkpoint " + *latest +
                          " already: expected --resume of it, or another "
                          "directory");
  return removeLeftovers();
}

/// Without a lock they may be another run's, at work.
Status CheckpointWriter::removeLeftovers() const {
  if (!lock_.isExclusive())
    return Status::ok();
  Result<std::vector<std::string>> names = directory_.list();
  if (!names.isOk())
    return names.status();
  for (const std::string &name : *names)
    if (isLeftover(name))
      if (Status s = directory_.remove(name))
        return s;
  return Status::ok();
}

/// Every rank writes into files that rank 0 creates.
Status CheckpointWriter::checkIsShared() const {
  if (rank_ == 0)
    return Status::ok();
  const std::string &path = options_.directory;
  Result<Directory> directory = Directory::open(path);
  if (!directory.isOk() || RunLock::readToken(*directory) != token_)
    return Status::failed("--save: expected '" + path +
                          "' to be one directory of all ranks, got one "
                          "without what rank 0 has just written there");
  Result<File> file = directory->openForWriting(RunLock::fileName);
  return file.status().withContext("--save");
}

Status CheckpointWriter::save(int64_t step, const StateMemory &memory) {
  std::string name = checkpointName(step);
  std::string temporary = name + "." + token_ + temporarySuffix;
  std::string context = "cannot save step " + std::to_string(step);
  std::vector<SavedRange> ranges;
  if (Status s = ranks_->agree(
          checkFinite(*manifest_, rank_, memory).withContext(context)))
    return s;
  // Steps leave it as it is: once is enough.
  if (options_.trainedOnly && base_.empty()) {
    Result<std::string> digest = digestOfBase(
        *ranks_, sumOfBase(*manifest_, rank_, memory, namesOfBase(*manifest_)));
    if (!digest.isOk())
      return digest.status().withContext(context);
    base_ = *digest;
  }
  Status status = ranks_->announce(
      (rank_ == 0 ? prepare(temporary) : Status::ok()).withContext(context));
  if (!status)
    status = ranks_->agree(
        writeOwnRanges(temporary, memory, ranges).withContext(context));
  if (!status) {
    Result<std::vector<SavedRange>> all = gatherRanges(ranges);
    if (!all.isOk())
      return all.status();
    status = ranks_->announce(
        (rank_ == 0 ? commit(name, temporary, step, std::move(*all))
                    : Status::ok())
            .withContext(context));
  }
  if (status && rank_ == 0)
    // The failure that counts is the one before.
    (void)directory_.remove(temporary);
  if (!status)
    savedStep_ = step;
  return status;
}

Status CheckpointWriter::prepare(const std::string &temporary) const {
  // Also what an earlier save of this run could not take away.
  if (Status s = removeLeftovers())
    return s;
  if (Status s = directory_.remove(temporary))
    return s;
  Result<Directory> made = directory_.makeDirectory(temporary);
  if (!made.isOk())
    return made.status();
  for (auto [name, layout] : files()) {
    Result<File> file = made->create(name);
    if (!file.isOk())
      return file.status();
    if (Status s = layout->begin(*file))
      return s;
    if (Status s = file->close())
      return s;
  }
  return Status::ok();
}

Status CheckpointWriter::writeOwnRanges(const std::string &temporary,
                                        const StateMemory &memory,
                                        std::vector<SavedRange> &ranges) const {
  // On other hosts than rank 0's the directory is opened anew.
  Result<Directory> directory = Directory::open(options_.directory);
  if (!directory.isOk())
    return directory.status();
  Result<Directory> into = directory->openDirectory(temporary);
  if (!into.isOk())
    return into.status();
  auto write = [&](const char *name, int64_t index, auto body) -> Status {
    Result<File> file = into->openForWriting(name);
    if (!file.isOk())
      return file.status();
    RangeWriter writer(*file, index, ranges);
    if (Status s = (this->*body)(writer, memory))
      return s;
    if (Status s = file->sync())
      return s;
    return file->close();
  };
  if (Status s = write(paramsFile, 0, &CheckpointWriter::writeParameters))
    return s;
  if (Status s = write(optimizerFile, 1, &CheckpointWriter::writeStates))
    return s;
  return own_.specs().empty()
             ? Status::ok()
             : write(ranksFile, 2, &CheckpointWriter::writeOwn);
}

Status CheckpointWriter::writeParameters(RangeWriter &file,
                                         const StateMemory &memory) const {
  size_t first = 0;
  for (const FlatParam &flat : manifest_->flatParams) {
    if (!isSaved(isChanged(flat)))
      continue;
    int64_t size = dtypeSize(flat.dtype);
    if (isFirstReplica(*manifest_, rank_, flat.shardAxes))
      for (const Piece &piece :
           piecesOf(flat, placeAlong(*manifest_, rank_, flat.shardAxes)))
        if (Status s = file.writeAt(params_.offsetOf(first + piece.member) +
                                        piece.memberBegin * size,
                                    memory.at(flat) + piece.shardBegin * size,
                                    piece.count * size))
          return s;
    first += flat.members.size();
  }
  for (const Buffer &buffer : manifest_->buffers) {
    if (!isSaved(isChanged(buffer)))
      continue;
    int64_t offset = params_.offsetOf(first++);
    if (rank_ == 0)
      if (Status s = file.writeAt(offset, memory.at(buffer),
                                  buffer.numel * dtypeSize(buffer.dtype)))
        return s;
  }
  return Status::ok();
}

Status CheckpointWriter::writeStates(RangeWriter &file,
                                     const StateMemory &memory) const {
  size_t first = 0;
  for (const FlatParam &flat : manifest_->flatParams) {
    bool isWriter = isFirstReplica(*manifest_, rank_, flat.shardAxes);
    std::vector<Piece> pieces =
        piecesOf(flat, placeAlong(*manifest_, rank_, flat.shardAxes));
    for (const OptimizerState &state : flat.states) {
      int64_t size = dtypeSize(state.dtype);
      hal::Location values = memory.at(state);
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

Status CheckpointWriter::writeOwn(RangeWriter &file,
                                  const StateMemory &memory) const {
  size_t index = 0;
  for (const OwnTensor &tensor : ownTensors(*manifest_))
    if (Status s = file.writeAt(own_.offsetOf(index++) + rank_ * tensor.bytes(),
                                memory.at(tensor.memory, tensor.offset),
                                tensor.bytes()))
      return s;
  return Status::ok();
}

/// On rank 0: of all ranks, and of the files' headers.
Result<std::vector<SavedRange>>
CheckpointWriter::gatherRanges(const std::vector<SavedRange> &mine) const {
  Result<std::vector<std::string>> packed = ranks_->gather(packRanges(mine));
  if (!packed.isOk())
    return packed.status();
  std::vector<SavedRange> ranges;
  for (const std::string &each : *packed)
    unpackRanges(each, ranges);
  int64_t index = 0;
  for (auto [name, layout] : files()) {
    const std::string &header = layout->header();
    ranges.push_back(
        {index++, 0, static_cast<int64_t>(header.size()), digestOf(header)});
  }
  return ranges;
}

std::string CheckpointWriter::metaText(int64_t step,
                                       const std::string &digests) const {
  nlohmann::json sizes = nlohmann::json::object();
  for (auto [file, layout] : files())
    sizes[file] = layout->fileBytes();
  sizes[digestsFile] = digests.size();
  nlohmann::json meta = {
      {"format", checkpointFormat},
      {"step", step},
      {"program", manifest_->name},
      {"shapes", shapesFingerprint(*manifest_)},
      {"ranks", manifest_->worldSize()},
      {"files", std::move(sizes)},
      {"digests", toHex(digestOf(digests))},
  };
  writeOrigin({options_.scalars, manifest_->traced, options_.data,
               options_.device, options_.rateSchedule},
              meta);
  if (options_.trainedOnly)
    meta["base"] = {{"tensors", namesOfBase(*manifest_).size()},
                    {"digest", base_}};
  meta["digest"] = toHex(digestOf(dumpJson(meta)));
  return dumpJson(meta, 2) + "\n";
}

Status CheckpointWriter::commit(const std::string &name,
                                const std::string &temporary, int64_t step,
                                std::vector<SavedRange> ranges) const {
  std::vector<std::string> names;
  for (auto [file, layout] : files())
    names.push_back(file);
  std::string digests = digestsText(names, std::move(ranges));
  Result<Directory> made = directory_.openDirectory(temporary);
  if (!made.isOk())
    return made.status();
  if (Status s = made->replaceFile(digestsFile, digests))
    return s;
  if (Status s = made->replaceFile(metaFile, metaText(step, digests)))
    return s;
  Result<std::string> latest = readLatest(directory_);
  bool isSpare = !latest.isOk() || *latest != name;
  if (Status s = directory_.replaceDirectory(temporary, name, isSpare))
    return s;
  if (Status s = directory_.replaceFile(latestFile, name + "\n"))
    return s;
  // An older one of this step, which the new one took the place of.
  return directory_.remove(temporary);
}

Status CheckpointWriter::removeOldOnes() const {
  if (options_.keep == 0 || savedStep_ < 0)
    return Status::ok();
  Result<std::vector<std::string>> names = directory_.list();
  if (!names.isOk())
    return names.status();
  // Later ones, of a run that this one has gone back behind, are left alone.
  std::vector<int64_t> steps;
  for (const std::string &name : *names)
    if (std::optional<int64_t> other = stepOfName(name))
      if (*other <= savedStep_)
        steps.push_back(*other);
  std::sort(steps.begin(), steps.end(), std::greater<int64_t>());
  for (size_t i = options_.keep; i < steps.size(); ++i) {
    std::string name = checkpointName(steps[i]);
    // Renamed first: half of a checkpoint must not bear a checkpoint's name.
    std::string temporary = name + "." + token_ + temporarySuffix;
    if (Status s = directory_.rename(name, temporary))
      return s;
    if (Status s = directory_.remove(temporary))
      return s;
  }
  return Status::ok();
}

} // namespace fsdp::rt::data
