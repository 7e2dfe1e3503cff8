//===- LibraryVersions.h - Libraries of all ranks ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks on several hosts may find different versions of a library. Those of
// NCCL may wait for each other without end, and an algorithm of one cuBLASLt is
// another in the next. Ranks compare versions before they use the library.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_LIBRARYVERSIONS_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_LIBRARYVERSIONS_H

#include "core/Host.h"
#include "core/Status.h"
#include "hal/World.h"

#include <string>
#include <vector>

namespace fsdp::rt {

/// The version of a library that one rank has, and its host.
struct RankVersion {
  char version[64] = {};
  HostId host;
};

/// Of all ranks, by rank; this one has `version`, "NCCL 2.28.9". Collective.
Result<std::vector<RankVersion>> gatherVersions(World &world,
                                                const std::string &version);

/// "NCCL 2.27.3 on rank 1 (host b)": the first rank that has another version
/// than rank 0; empty where there is none.
std::string describeOther(const std::vector<RankVersion> &versions);

/// Refuses, on all ranks, versions that differ. Collective.
Status agreeOnVersion(World &world, const std::string &version);

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_LIBRARYVERSIONS_H
