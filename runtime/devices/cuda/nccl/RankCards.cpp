//===- RankCards.cpp - Which GPU each rank has ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/nccl/RankCards.h"

#include "core/Host.h"
#include "devices/cuda/driver/Library.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <type_traits>

namespace fsdp::rt {

namespace {

constexpr const char *multiRankVariable = "NCCL_MULTI_RANK_GPU_ENABLE";
constexpr const char *hostVariable = "NCCL_HOSTID";
constexpr const char *nodeVariable = "FSDP_NODE_RANKS";

/// What ranks tell each other; all of it bytes. Containers of one machine
/// differ in the host's name alone, as NCCL has it.
struct Place {
  HostId host;
  cu::Uuid card = {};
  int64_t process = 0;
  /// What FSDP_NODE_RANKS makes of the rank; -1: its host is its node.
  int64_t node = -1;
  int32_t graph = 0, ordinal = 0;
};
static_assert(std::has_unique_object_representations_v<Place>);

bool isSameCard(const Place &a, const Place &b) {
  return a.host == b.host &&
         std::memcmp(a.card.bytes, b.card.bytes, sizeof(a.card.bytes)) == 0;
}

bool isSameNode(const Place &a, const Place &b) {
  return a.node == b.node && (a.node >= 0 || a.host == b.host);
}

/// Of which node `rank` is by the environment; -1 where that does not say.
Result<int64_t> readNode(int rank) {
  const char *text = std::getenv(nodeVariable);
  if (!text || !*text)
    return int64_t(-1);
  char *end = nullptr;
  long long ranks = std::strtoll(text, &end, 10);
  if (*end || ranks < 1)
    return Status::failed(std::string("expected a number of ranks for ") +
                          nodeVariable + ", got '" + text + "'");
  return int64_t(rank / ranks);
}

Place thisPlace(const cu::Uuid &card, const CudaSettings &settings) {
  Place place;
  place.host = thisHost();
  place.card = card;
  place.process = getpid();
  place.graph =
      settings.isBlocking ? 3 : settings.usesGraphs + settings.requiresGraphs;
  return place;
}

const char *nameOfGraph(int32_t graph) {
  constexpr const char *names[] = {"off", "auto", "on",
                                   "off (CUDA_LAUNCH_BLOCKING=1)"};
  return names[graph];
}

/// "0 and 1", "0, 1 and 2".
std::string listRanks(const std::vector<int> &ranks) {
  std::vector<std::string> numbers;
  for (int rank : ranks)
    numbers.push_back(std::to_string(rank));
  return listWords(numbers, "and");
}

} // namespace

Status RankCards::readName(const DriverApi &api) {
  cu::Device device = 0;
  char name[256] = "";
  if (Status s = api.check(api.deviceGet(&device, ordinal_), "cuDeviceGet"))
    return s;
  if (Status s = api.check(api.deviceGetName(name, sizeof(name) - 1, device),
                           "cuDeviceGetName"))
    return s;
  name_ = name;
  return Status::ok();
}

Result<RankCards> RankCards::find(World &world, const DriverApi &api,
                                  const CudaSettings &settings) {
  RankCards made;
  made.ordinal_ = world.localRank() % api.deviceCount;
  made.sharers_ = {world.rank()};
  if (Status s = made.readName(api))
    return s;
  if (world.size() == 1)
    return made;
  cu::Uuid card = {};
  if (Status s =
          api.check(api.deviceGetUuid(&card, made.ordinal_), "cuDeviceGetUuid"))
    return s;
  Result<std::unique_ptr<hal::HostChannel>> channel = world.openChannelOfAll();
  if (!channel.isOk())
    return channel.status();
  Place mine = thisPlace(card, settings);
  mine.ordinal = made.ordinal_;
  Result<int64_t> node = readNode(world.rank());
  if (!node.isOk())
    return node.status();
  mine.node = *node;
  std::vector<Place> places(static_cast<size_t>(world.size()));
  if (Status s = (*channel)->allGather(&mine, places.data(), sizeof(Place)))
    return s;
  made.sharers_.clear();
  made.nodes_.clear();
  for (int rank = 0; rank < world.size(); ++rank) {
    const Place &one = places[static_cast<size_t>(rank)];
    if (one.graph != places[0].graph)
      return Status::failed(std::string("expected --graph ") +
                            nameOfGraph(places[0].graph) +
                            ", as on rank 0, got " + nameOfGraph(one.graph) +
                            " on rank " + std::to_string(rank));
    auto first =
        std::find_if(places.begin(), places.end(), [&](const Place &other) {
          return isSameNode(one, other);
        });
    made.nodes_.push_back(static_cast<int>(first - places.begin()));
    int sharers = 0;
    for (const Place &other : places) {
      if (!isSameCard(one, other))
        continue;
      ++sharers;
      made.hasSharingThreads_ |= &one != &other && one.process == other.process;
    }
    made.mostSharers_ = std::max(made.mostSharers_, sharers);
    if (isSameCard(one, mine))
      made.sharers_.push_back(rank);
    else if (one.host == mine.host && one.process == mine.process &&
             std::count(made.peers_.begin(), made.peers_.end(), one.ordinal) ==
                 0)
      made.peers_.push_back(one.ordinal);
  }
  return made;
}

std::string RankCards::describe() const {
  return "ranks " + listRanks(sharers_) + " share device " +
         std::to_string(ordinal_) + " (" + name_ + ")";
}

const char *RankCards::remedy() {
  return "give each rank a GPU of its own, or run with --channel host, which "
         "exchanges through the host's memory";
}

int RankCards::maxCtas() const {
  // By NCCL's documentation its default launches at most so many CTAs that the
  // kernels of two ranks fit on one GPU together.
  constexpr int ctasOfDevice = 32, fits = 2;
  return mostSharers_ > fits ? std::max(1, ctasOfDevice / mostSharers_)
                             : nccl::Config::undefined;
}

Status RankCards::permit(const World &world, const NcclApi &api,
                         NcclVariables &variables,
                         std::vector<std::string> &notes) const {
  if (mostSharers_ == 1)
    return Status::ok();
  bool isNew = api.version >= NcclApi::leastSharingVersion;
  if (!isNew && hasSharingThreads_ && isShared())
    return Status::failed(
        "expected NCCL " + describeVersion(NcclApi::leastSharingVersion) +
        " or later, which takes threads that share a GPU, got " +
        api.describe() + " and " + describe() +
        ": start each rank as a process (--backend tcp), " + remedy());
  std::string variable = isNew ? std::string(multiRankVariable) + "=1"
                               : std::string(hostVariable) + " for each rank";
  if (isNew)
    variables[multiRankVariable] = "1";
  else if (isShared())
    variables[hostVariable] = "fsdp-rank-" + std::to_string(world.rank());
  if (isShared())
    notes.push_back(describe() + ", which " + api.describe() + " takes with " +
                    variable + "; this is for tests and small machines");
  return Status::ok();
}

Status RankCards::setVariables(World &world, const NcclVariables &variables,
                               std::vector<std::string> &notes) const {
  Result<std::unique_ptr<hal::HostChannel>> channel = world.openChannelOfAll();
  if (!channel.isOk())
    return channel.status();
  for (const auto &[name, value] : variables)
    if (name.empty() || name.find('=') != std::string::npos)
      return Status::failed("expected the name of a variable of NCCL, got '" +
                            name + "'");
  // Threads of this process may be ranks, too: none of them reads the
  // environment elsewhere while all are here, between two barriers, and here
  // one at a time does.
  if (Status s = (*channel)->barrier())
    return s;
  {
    static std::mutex mutex;
    std::lock_guard<std::mutex> lock(mutex);
    for (const auto &[name, value] : variables) {
      if (setenv(name.c_str(), value.c_str(), /*overwrite=*/0) != 0)
        return Status::failed("cannot set " + name +
                              " in the environment: " + std::strerror(errno));
      const char *is = std::getenv(name.c_str());
      if (is && value != is)
        notes.push_back("the environment says " + name + "=" + is +
                        " to NCCL, where " + value + " is wanted");
    }
  }
  return (*channel)->barrier();
}

} // namespace fsdp::rt
