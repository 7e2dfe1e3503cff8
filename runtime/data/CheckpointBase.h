//===- CheckpointBase.h - What steps do not change --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Steps change trained parameters, their states, and buffers that have an
// update. The rest, frozen parameters and constant buffers, is the base: a
// checkpoint of --save-trained leaves it out, and a run that goes on from one
// takes it from where the first run took it. A digest of its values tells
// whether it is the same: a sum over all elements of a hash of tensor, place
// and value, so that ranks of any mesh add up what each of them holds.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_CHECKPOINTBASE_H
#define FSDP_RT_DATA_CHECKPOINTBASE_H

#include "control/Consensus.h"
#include "core/Status.h"
#include "data/Manifest.h"
#include "data/StateMemory.h"

#include <cstdint>
#include <functional>
#include <set>
#include <string>

namespace fsdp::rt::data {

/// Whether steps change it.
inline bool isChanged(const FlatParam &flat) { return flat.trainable; }
inline bool isChanged(const Buffer &buffer) { return buffer.perRank; }

/// Names of the parameters and buffers that no step of the program changes.
std::set<std::string> namesOfBase(const Manifest &manifest);

/// This rank's part of the digest of the tensors `names`: of its shards, of
/// each replica once, and of buffers on rank 0. Reads each element once.
Result<uint64_t> sumOfBase(const Manifest &manifest, int rank,
                           const StateMemory &memory,
                           const std::set<std::string> &names);

/// The digest whose parts the ranks have: 16 hexadecimal digits, on all of
/// them. Collective; fails alike where one rank's part failed.
Result<std::string> digestOfBase(Consensus &ranks,
                                 const Result<uint64_t> &part);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_CHECKPOINTBASE_H
