//===- StableHash.h - A hash that is the same everywhere --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_STABLEHASH_H
#define FSDP_RT_CORE_STABLEHASH_H

#include <cstdint>
#include <string_view>

namespace fsdp::rt {

/// FNV-1a of 64 bits, over bytes: equal on every machine and in every build.
/// `hash` is what came before them.
inline uint64_t stableHash(std::string_view bytes,
                           uint64_t hash = 0xcbf29ce484222325) {
  for (char byte : bytes)
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_STABLEHASH_H
