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
#include "data/Staging.h"

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
    for (const Piece &piece : pieces)
      if (Status s = uploadTensor(
              matched[first + piece.member], flat.dtype, piece.memberBegin,
              piece.count, shard + piece.shardBegin * dtypeSize(flat.dtype)))
        return s;
    first += flat.members.size();
  }
  for (const Buffer &buffer : manifest.buffers) {
    const MatchedTensor &tensor = matched[first++];
    hal::Location dst = memory.at(buffer);
    auto fill = [&](int64_t begin, int64_t count, char *to) {
      fillInitial(buffer.init, buffer.fqn, /*seed=*/0, buffer.dtype, begin,
                  count, to);
      return Status::ok();
    };
    if (Status s =
            tensor.stored
                ? uploadTensor(tensor, buffer.dtype, 0, buffer.numel, dst)
                : uploadElements(dst, buffer.numel, dtypeSize(buffer.dtype),
                                 fill))
      return s;
  }
  return Status::ok();
}

Status loadParameters(const Manifest &manifest, int rank,
                      const std::string &path, const Renaming &renaming,
                      bool cast, const StateMemory &memory,
                      std::vector<std::string> &notes) {
  Result<TensorFiles> file = TensorFiles::open(path, renaming);
  if (!file.isOk())
    return file.status();
  if (Status s = checkModelConfig(manifest, file->folder(), notes))
    return s;
  std::vector<WantedTensor> wanted = wantedParameters(manifest);
  size_t firstBuffer = wanted.size() - manifest.buffers.size();
  for (size_t i = 0; i < manifest.buffers.size(); ++i)
    wanted[firstBuffer + i].isOptional =
        manifest.buffers[i].init.kind != Initializer::Kind::None;
  Result<std::vector<MatchedTensor>> matched =
      matchTensors(*file, wanted, cast);
  if (!matched.isOk())
    return matched.status();

  std::vector<std::string> absent;
  for (size_t i = firstBuffer; i < wanted.size(); ++i)
    if (!(*matched)[i].stored)
      absent.push_back(wanted[i].name);
  if (!absent.empty())
    notes.push_back(path + ": no buffer " + listNames(absent) +
                    ": set to the initial value instead");
  if (Status s = initializeStates(manifest, memory))
    return s;
  return readParameters(manifest, rank, *matched, memory);
}

} // namespace fsdp::rt::data
