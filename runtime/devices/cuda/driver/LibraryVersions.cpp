//===- LibraryVersions.cpp - Libraries of all ranks -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/LibraryVersions.h"

#include <cstring>

namespace fsdp::rt {

Result<std::vector<RankVersion>> gatherVersions(World &world,
                                                const std::string &version) {
  Result<std::unique_ptr<hal::HostChannel>> channel = world.openChannelOfAll();
  if (!channel.isOk())
    return channel.status();
  RankVersion mine;
  version.copy(mine.version, sizeof(mine.version) - 1);
  mine.host = thisHost();
  std::vector<RankVersion> all(static_cast<size_t>(world.size()));
  if (Status s = (*channel)->allGather(&mine, all.data(), sizeof(mine)))
    return s;
  return all;
}

std::string describeOther(const std::vector<RankVersion> &versions) {
  for (size_t rank = 0; rank < versions.size(); ++rank)
    if (std::strcmp(versions[rank].version, versions[0].version) != 0)
      return std::string(versions[rank].version) + " on rank " +
             std::to_string(rank) + " (host " + versions[rank].host.name + ")";
  return "";
}

Status agreeOnVersion(World &world, const std::string &version) {
  if (world.size() == 1)
    return Status::ok();
  Result<std::vector<RankVersion>> versions = gatherVersions(world, version);
  if (!versions.isOk())
    return versions.status();
  std::string other = describeOther(*versions);
  if (other.empty())
    return Status::ok();
  return Status::failed(std::string("expected ") + (*versions)[0].version +
                        " on all ranks, as on rank 0 (host " +
                        (*versions)[0].host.name + "), got " + other);
}

} // namespace fsdp::rt
