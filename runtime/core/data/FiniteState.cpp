//===- FiniteState.cpp - Whether state is worth keeping -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/data/FiniteState.h"

#include "core/data/Sharding.h"

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

Status checkFinite(const Manifest &manifest, int rank,
                   const StateMemory &memory) {
  for (const FlatParam &flat : manifest.flatParams) {
    if (!flat.trainable)
      continue;
    std::vector<Piece> pieces =
        piecesOf(flat, placeAlong(manifest, rank, flat.shardAxes));
    auto check = [&](const Piece &piece, Dtype dtype, const char *shard,
                     const std::string &suffix) -> Status {
      const char *values = shard + piece.shardBegin * dtypeSize(dtype);
      int64_t at = findNonfinite(dtype, values, piece.count);
      if (at < 0)
        return Status::ok();
      return refuse(flat.members[piece.member].fqn + suffix,
                    loadFloat(dtype, values + at * dtypeSize(dtype)),
                    piece.memberBegin + at);
    };
    for (const Piece &piece : pieces) {
      if (Status s = check(piece, flat.dtype, memory.device + flat.offset, ""))
        return s;
      for (const OptimizerState &state : flat.states)
        if (!state.scalar)
          if (Status s =
                  check(piece, state.dtype, memory.at(state), "." + state.name))
            return s;
    }
    for (const OptimizerState &state : flat.states)
      if (state.scalar && findNonfinite(state.dtype, memory.at(state), 1) == 0)
        return refuse(flat.name + "." + state.name,
                      loadFloat(state.dtype, memory.at(state)), 0);
  }
  return Status::ok();
}

} // namespace fsdp::rt::data
