//===- Initialize.h - A rank's state before the first step -------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_INITIALIZE_H
#define FSDP_RT_DATA_INITIALIZE_H

#include "core/Status.h"
#include "data/Manifest.h"
#include "data/StateMemory.h"

#include <cstdint>
#include <functional>
#include <set>
#include <string>

namespace fsdp::rt::data {

/// Elements [begin, begin + count) of a parameter or buffer, drawn from `seed`
/// and `fqn`; depends on neither world size nor layout. Not for Kind::None.
void fillInitial(const Initializer &init, const std::string &fqn, uint64_t seed,
                 Dtype dtype, int64_t begin, int64_t count, char *dst);

/// Writes what `rank` holds: its shards of all parameters, padding zero, and
/// all buffers, by their initialisers; optimizer states by theirs. Computes on
/// `threads` threads. Parameters and buffers named in `others` are left as they
/// are. Fails, listing names, where a tensor has no initialiser; then nothing
/// was written.
Status initializeFromSeed(const Manifest &manifest, int rank, uint64_t seed,
                          int threads, const StateMemory &memory,
                          const std::set<std::string> &others = {});

/// The same of the parameters and buffers alone for whose names `isWanted`; the
/// others, padding and states are left as they are.
Status drawTensors(const Manifest &manifest, int rank, uint64_t seed,
                   int threads, const StateMemory &memory,
                   const std::function<bool(const std::string &)> &isWanted);

/// Sets the optimizer's states alone to their initial values.
Status initializeStates(const Manifest &manifest, const StateMemory &memory);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_INITIALIZE_H
