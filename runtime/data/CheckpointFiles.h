//===- CheckpointFiles.h - Names within a checkpoint -------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_CHECKPOINTFILES_H
#define FSDP_RT_DATA_CHECKPOINTFILES_H

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace fsdp::rt::data {

constexpr const char *latestFile = "latest";
constexpr const char *paramsFile = "params.safetensors";
constexpr const char *optimizerFile = "optimizer.safetensors";
constexpr const char *ranksFile = "ranks.safetensors";
constexpr const char *metaFile = "meta.json";
constexpr const char *digestsFile = "digests.json";
constexpr const char *temporarySuffix = ".tmp";
/// 1 had no digests and is still read.
constexpr int64_t checkpointFormat = 2, formatWithoutDigests = 1;
/// Steps are counted up to here: what follows from one does not overflow.
constexpr int64_t maxStep = std::numeric_limits<int64_t>::max() / 4;
/// Longest meta.json.
constexpr int64_t maxMetaBytes = 1 << 20;

/// "step-00000050".
std::string checkpointName(int64_t step);

/// The step in such a name; none for any other text.
std::optional<int64_t> stepOfName(const std::string &name);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_CHECKPOINTFILES_H
