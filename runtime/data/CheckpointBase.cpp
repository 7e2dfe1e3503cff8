//===- CheckpointBase.cpp - What steps do not change ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/CheckpointBase.h"

#include "core/StableHash.h"
#include "data/Sharding.h"
#include "data/Staging.h"

#include <cstdio>
#include <cstring>

namespace fsdp::rt::data {

namespace {

/// The finaliser of splitmix64: every bit of `x` changes every bit of the
/// result with probability near a half.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Elements [first, first + count) of a tensor with the hash `tensor`.
template <typename Bits>
uint64_t sumOf(uint64_t tensor, int64_t first, const char *elements,
               int64_t count) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, elements + i * sizeof bits, sizeof bits);
    uint64_t place = tensor + uint64_t(first + i) * 0x9e3779b97f4a7c15;
    sum += mix(place ^ (uint64_t(bits) * 0xd6e8feb86659fd93));
  }
  return sum;
}

uint64_t sumOf(Dtype dtype, uint64_t tensor, int64_t first,
               const char *elements, int64_t count) {
  switch (dtypeSize(dtype)) {
  case 1:
    return sumOf<uint8_t>(tensor, first, elements, count);
  case 2:
    return sumOf<uint16_t>(tensor, first, elements, count);
  case 4:
    return sumOf<uint32_t>(tensor, first, elements, count);
  default:
    return sumOf<uint64_t>(tensor, first, elements, count);
  }
}

uint64_t hashOf(const std::string &name, Dtype dtype, const Shape &shape) {
  return stableHash(name + '\0' + dtypeName(dtype) + toString(shape));
}

/// Adds elements of a tensor in a rank's memory.
Status addElements(uint64_t tensor, Dtype dtype, int64_t first, int64_t count,
                   hal::Location values, uint64_t &sum) {
  return downloadElements(
      values, count, dtypeSize(dtype),
      [&](int64_t begin, int64_t now, const char *elements) {
        sum += sumOf(dtype, tensor, first + begin, elements, now);
        return Status::ok();
      });
}

} // namespace

std::set<std::string> namesOfBase(const Manifest &manifest) {
  std::set<std::string> names;
  for (const FlatParam &flat : manifest.flatParams)
    for (const Member &member : flat.members)
      if (!isChanged(flat))
        names.insert(member.fqn);
  for (const Buffer &buffer : manifest.buffers)
    if (!isChanged(buffer))
      names.insert(buffer.fqn);
  return names;
}

Result<uint64_t> sumOfBase(const Manifest &manifest, int rank,
                           const StateMemory &memory,
                           const std::set<std::string> &names) {
  uint64_t sum = 0;
  for (const FlatParam &flat : manifest.flatParams) {
    if (!isFirstReplica(manifest, rank, flat.shardAxes))
      continue;
    for (const Piece &piece :
         piecesOf(flat, placeAlong(manifest, rank, flat.shardAxes))) {
      const Member &member = flat.members[piece.member];
      if (!names.count(member.fqn))
        continue;
      if (Status s = addElements(
              hashOf(member.fqn, flat.dtype, member.shape), flat.dtype,
              piece.memberBegin, piece.count,
              memory.at(flat) + piece.shardBegin * dtypeSize(flat.dtype), sum))
        return s;
    }
  }
  for (const Buffer &buffer : manifest.buffers)
    if (rank == 0 && names.count(buffer.fqn))
      if (Status s = addElements(hashOf(buffer.fqn, buffer.dtype, buffer.shape),
                                 buffer.dtype, 0, buffer.numel,
                                 memory.at(buffer), sum))
        return s;
  return sum;
}

Result<std::string> digestOfBase(Consensus &ranks,
                                 const Result<uint64_t> &part) {
  if (Status s = ranks.agree(part.status()))
    return s;
  std::string mine(sizeof(uint64_t), '\0');
  std::memcpy(mine.data(), &*part, sizeof(uint64_t));
  Result<std::vector<std::string>> parts = ranks.gather(mine);
  if (!parts.isOk())
    return parts.status();
  uint64_t sum = 0;
  for (const std::string &bytes : *parts) {
    uint64_t each;
    std::memcpy(&each, bytes.data(), sizeof each);
    sum += each;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(sum));
  return ranks.share(text);
}

} // namespace fsdp::rt::data
