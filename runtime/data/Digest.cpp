//===- Digest.cpp - Digests of what is stored -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Digest.h"

#include <cstdio>

// The library becomes part of this file, so that programs need none.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fsdp::rt::data {

struct Digest::State {
  XXH3_state_t xxh;
};

static DigestValue toValue(const XXH128_hash_t &hash) {
  return {hash.high64, hash.low64};
}

Digest::Digest() : state_(new State) { XXH3_128bits_reset(&state_->xxh); }

Digest::~Digest() = default;

void Digest::add(const void *bytes, int64_t count) {
  XXH3_128bits_update(&state_->xxh, bytes, static_cast<size_t>(count));
}

DigestValue Digest::value() const {
  return toValue(XXH3_128bits_digest(&state_->xxh));
}

DigestValue digestOf(std::string_view bytes) {
  return toValue(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string toHex(const DigestValue &digest) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx",
                static_cast<unsigned long long>(digest.high),
                static_cast<unsigned long long>(digest.low));
  return text;
}

} // namespace fsdp::rt::data
