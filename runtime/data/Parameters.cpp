//===- Parameters.cpp - A rank's parameters from a file -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Parameters.h"

#include "data/Initialize.h"
#include "data/ModelConfig.h"
#include "data/Names.h"
#include "data/Sharding.h"

#include <algorithm>

namespace fsdp::rt::data {

std::vector<WantedTensor> wantedParameters(const Manifest &manifest) {
  std::vector<WantedTensor> wanted;
  for (const FlatParam &flat : manifest.flatParams)
    for (const Member &member : flat.members)
      wanted.push_back(
          {member.fqn, member.tied, flat.dtype, member.shape, false});
  for (const Buffer &buffer : manifest.buffers)
    wanted.push_back({buffer.fqn, {}, buffer.dtype, buffer.shape, false});
  return wanted;
}

Status readParameters(const Manifest &manifest, int rank,
                      const std::vector<MatchedTensor> &matched,
                      const StateMemory &memory) {
  size_t first = 0;
  for (const FlatParam &flat : manifest.flatParams) {
    hal::Location shard = memory.at(flat);
    std::vector<Piece> pieces =
        piecesOf(flat, placeAlong(manifest, rank, flat.shardAxes));
    if (Status s = clearPadding(flat, pieces, shard))
      return s;
    for (const Piece &piece : pieces) {
      const MatchedTensor &tensor = matched[first + piece.member];
      if (!tensor.stored)
        continue;
      if (Status s =
              uploadTensor(tensor, flat.dtype, piece.memberBegin, piece.count,
                           shard + piece.shardBegin * dtypeSize(flat.dtype)))
        return s;
    }
    first += flat.members.size();
  }
  for (const Buffer &buffer : manifest.buffers) {
    const MatchedTensor &tensor = matched[first++];
    if (!tensor.stored)
      continue;
    if (Status s = uploadTensor(tensor, buffer.dtype, 0, buffer.numel,
                                memory.at(buffer)))
      return s;
  }
  return Status::ok();
}

/// A text that no name has would be taken away from nothing.
static Status checkOmitted(const TensorFiles &files,
                           const std::vector<std::string> &omit,
                           const std::vector<WantedTensor> &wanted) {
  for (const std::string &text : omit) {
    auto has = [&](const std::string &name) {
      return name.find(text) != std::string::npos;
    };
    if (std::none_of(
            wanted.begin(), wanted.end(), [&](const WantedTensor &want) {
              return has(want.name) ||
                     std::any_of(want.aliases.begin(), want.aliases.end(), has);
            }))
      return Status::failed(files.path() +
                            ": expected names of the program that have '" +
                            text + "' (--omit-text), got none");
  }
  return Status::ok();
}

/// What of `wanted` may be missing in files.
static void setOptional(const Manifest &manifest, const ParameterSource &source,
                        const std::set<std::string> &others,
                        std::vector<WantedTensor> &wanted) {
  size_t next = 0;
  auto set = [&](const Initializer &init, bool isBuffer) {
    WantedTensor &want = wanted[next++];
    bool canBeDrawn = init.kind != Initializer::Kind::None;
    want.canBeDrawn = canBeDrawn && !source.seed;
    want.isOptional = others.count(want.name) != 0 ||
                      (canBeDrawn && (isBuffer || source.seed));
  };
  for (const FlatParam &flat : manifest.flatParams)
    for (const Member &member : flat.members)
      set(member.init, /*isBuffer=*/false);
  for (const Buffer &buffer : manifest.buffers)
    set(buffer.init, /*isBuffer=*/true);
}

/// Tells what the files lack and is drawn, which is asked for, and which
/// buffers are set to their initial values, which nobody asked for.
static std::set<std::string>
findDrawn(const TensorFiles &files, const ParameterSource &source,
          const std::vector<WantedTensor> &wanted,
          const std::vector<MatchedTensor> &matched, size_t firstBuffer,
          const std::set<std::string> &others, LoadNotes &notes) {
  std::vector<std::string> params, buffers;
  int64_t elements = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (matched[i].stored || others.count(wanted[i].name))
      continue;
    (i < firstBuffer ? params : buffers).push_back(wanted[i].name);
    elements += i < firstBuffer ? numelOf(wanted[i].shape) : 0;
  }
  if (!buffers.empty())
    notes.warnings.push_back(files.path() + ": no buffer " +
                             listNames(buffers) +
                             ": set to the initial value instead");
  if (!params.empty())
    notes.remarks.push_back(
        "--init: drew " + std::to_string(params.size()) +
        (params.size() == 1 ? " parameter of " : " parameters of ") +
        std::to_string(elements) +
        " elements that --params lacks: " + listNames(params));
  else if (source.seed && others.empty())
    notes.remarks.push_back("--init: drew nothing, since --params has every "
                            "parameter");
  std::set<std::string> drawn(params.begin(), params.end());
  drawn.insert(buffers.begin(), buffers.end());
  return drawn;
}

Status loadParameters(const Manifest &manifest, int rank,
                      const ParameterSource &source, const StateMemory &memory,
                      LoadNotes &notes, const std::set<std::string> &others) {
  const uint64_t seed = source.seed.value_or(0);
  if (source.files.empty())
    return initializeFromSeed(manifest, rank, seed, source.threads, memory,
                              others);
  Result<TensorFiles> files = TensorFiles::open(source.files, source.renaming);
  if (!files.isOk())
    return files.status();
  for (const std::string &folder : files->folders())
    if (Status s = checkModelConfig(manifest, folder, notes.warnings))
      return s;
  std::vector<WantedTensor> wanted = wantedParameters(manifest);
  setOptional(manifest, source, others, wanted);
  if (Status s = checkOmitted(*files, source.renaming.omit, wanted))
    return s;
  Result<std::vector<MatchedTensor>> matched =
      matchTensors(*files, wanted, source.cast);
  if (!matched.isOk())
    return matched.status();
  const std::set<std::string> drawn =
      findDrawn(*files, source, wanted, *matched,
                wanted.size() - manifest.buffers.size(), others, notes);
  if (Status s = initializeStates(manifest, memory))
    return s;
  if (Status s = readParameters(manifest, rank, *matched, memory))
    return s;
  return drawTensors(
      manifest, rank, seed, source.threads, memory,
      [&](const std::string &name) { return drawn.count(name) != 0; });
}

} // namespace fsdp::rt::data
