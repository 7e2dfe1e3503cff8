//===- FiniteState.cpp - Whether state is worth keeping -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/FiniteState.h"

#include "data/Sharding.h"
#include "data/Staging.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace fsdp::rt::data {

namespace {

/// What is not finite has every bit of the exponent, `mask`, set. A block is
/// looked at without branches, so that the loop becomes vector code.
template <typename Bits>
int64_t findExponent(const char *elements, int64_t count, Bits mask) {
  constexpr int64_t block = 1024;
  Bits values[block];
  for (int64_t begin = 0; begin < count; begin += block) {
    int64_t now = std::min(block, count - begin);
    std::memcpy(values, elements + begin * sizeof(Bits), now * sizeof(Bits));
    bool isFound = false;
    for (int64_t i = 0; i < now; ++i)
      isFound |= (values[i] & mask) == mask;
    for (int64_t i = 0; isFound && i < now; ++i)
      if ((values[i] & mask) == mask)
        return begin + i;
  }
  return -1;
}

Status refuse(const std::string &name, double value, int64_t element) {
  const char *text = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return Status::failed("'" + name + "': expected finite state, got " + text +
                        " at element " + std::to_string(element));
}

} // namespace

int64_t findNonfinite(Dtype dtype, const char *elements, int64_t count) {
  switch (dtype) {
  case FSDP_RT_F64:
    return findExponent<uint64_t>(elements, count, 0x7ff0000000000000);
  case FSDP_RT_F32:
    return findExponent<uint32_t>(elements, count, 0x7f800000);
  case FSDP_RT_F16:
    return findExponent<uint16_t>(elements, count, 0x7c00);
  case FSDP_RT_BF16:
    return findExponent<uint16_t>(elements, count, 0x7f80);
  default:
    return -1;
  }
}

/// Elements `first` onwards of the tensor `name`.
static Status checkFinite(const std::string &name, Dtype dtype, int64_t first,
                          int64_t count, hal::Location values) {
  return downloadElements(
      values, count, dtypeSize(dtype),
      [&](int64_t begin, int64_t now, const char *elements) -> Status {
        int64_t at = findNonfinite(dtype, elements, now);
        if (at < 0)
          return Status::ok();
        return refuse(name, loadFloat(dtype, elements + at * dtypeSize(dtype)),
                      first + begin + at);
      });
}

Status checkFinite(const Manifest &manifest, int rank,
                   const StateMemory &memory) {
  for (const FlatParam &flat : manifest.flatParams) {
    if (!flat.trainable)
      continue;
    auto check = [&](const Piece &piece, Dtype dtype, hal::Location shard,
                     const std::string &suffix) {
      return checkFinite(flat.members[piece.member].fqn + suffix, dtype,
                         piece.memberBegin, piece.count,
                         shard + piece.shardBegin * dtypeSize(dtype));
    };
    for (const Piece &piece :
         piecesOf(flat, placeAlong(manifest, rank, flat.shardAxes))) {
      if (Status s = check(piece, flat.dtype, memory.at(flat), ""))
        return s;
      for (const OptimizerState &state : flat.states)
        if (!state.scalar)
          if (Status s =
                  check(piece, state.dtype, memory.at(state), "." + state.name))
            return s;
    }
    for (const OptimizerState &state : flat.states)
      if (state.scalar)
        if (Status s = checkFinite(flat.name + "." + state.name, state.dtype, 0,
                                   1, memory.at(state)))
          return s;
  }
  return Status::ok();
}

} // namespace fsdp::rt::data
