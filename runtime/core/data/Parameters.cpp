//===- Parameters.cpp - A rank's parameters from a file -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/data/Parameters.h"

#include "core/data/Initialize.h"
#include "core/data/Names.h"
#include "core/data/Sharding.h"

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
                      const std::vector<MatchedTensor> &matched, char *arena) {
  size_t first = 0;
  for (const FlatParam &flat : manifest.flatParams) {
    char *shard = arena + flat.offset;
    std::vector<Piece> pieces =
        piecesOf(flat, placeAlong(manifest, rank, flat.shardAxes));
    clearPadding(flat, pieces, shard);
    for (const Piece &piece : pieces)
      if (Status s = readElements(
              matched[first + piece.member], flat.dtype, piece.memberBegin,
              piece.count, shard + piece.shardBegin * dtypeSize(flat.dtype)))
        return s;
    first += flat.members.size();
  }
  for (const Buffer &buffer : manifest.buffers) {
    const MatchedTensor &tensor = matched[first++];
    char *dst = arena + buffer.offset;
    if (!tensor.stored)
      fillInitial(buffer.init, buffer.fqn, /*seed=*/0, buffer.dtype, 0,
                  buffer.numel, dst);
    else if (Status s =
                 readElements(tensor, buffer.dtype, 0, buffer.numel, dst))
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
  initializeStates(manifest, memory);
  return readParameters(manifest, rank, *matched, memory.device);
}

} // namespace fsdp::rt::data
