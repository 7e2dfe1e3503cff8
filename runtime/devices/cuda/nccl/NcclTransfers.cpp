//===- NcclTransfers.cpp - Transfers among devices ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/nccl/NcclTransfers.h"

#include "core/WaitLimit.h"
#include "devices/cuda/driver/LibraryVersions.h"
#include "devices/cuda/driver/RankZero.h"
#include "hal/Transfers.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace fsdp::rt {

namespace {

const void *asHost(cu::Pointer pointer) {
  return reinterpret_cast<const void *>(pointer);
}
void *asWritable(cu::Pointer pointer) {
  return reinterpret_cast<void *>(pointer);
}

std::string nameOfQueue(int32_t queue) {
  return queue == FSDP_RT_QUEUE_COMPUTE ? "compute" : queueName(queue);
}

} // namespace

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

nccl::Error NcclExchange::issueCall(const NcclCall &call,
                                    cu::Stream stream) const {
  const NcclApi &api = channel_.api();
  const void *src = asHost(call.src);
  void *dst = asWritable(call.dst);
  nccl::Comm comm = channel_.get();
  switch (call.kind) {
  case NcclCall::Kind::AllGather:
    return api.allGather(src, dst, call.count, call.type, comm, stream);
  case NcclCall::Kind::ReduceScatter:
    return api.reduceScatter(src, dst, call.count, call.type, call.operation,
                             comm, stream);
  case NcclCall::Kind::AllReduce:
    return api.allReduce(src, dst, call.count, call.type, call.operation, comm,
                         stream);
  case NcclCall::Kind::Send:
    return api.send(src, call.count, call.type, call.peer, comm, stream);
  case NcclCall::Kind::Receive:
    return api.receive(dst, call.count, call.type, call.peer, comm, stream);
  }
  return nccl::success;
}

Status NcclExchange::issue(const std::vector<NcclCall> &calls,
                           cu::Stream stream) const {
  const NcclApi &api = channel_.api();
  nccl::Comm comm = channel_.get();
  if (Status s = api.check(api.groupStart(), "ncclGroupStart", comm))
    return s;
  Status status;
  for (const NcclCall &call : calls)
    if (status.isOk())
      status = api.check(issueCall(call, stream), "a call of NCCL", comm);
  // The thread's group ends in any case.
  Status ended = api.check(api.groupEnd(), "ncclGroupEnd", comm);
  if (status || ended)
    return status ? status : ended;
  return channel_.settle();
}

Status NcclExchange::enqueue(cu::Stream stream) const {
  const DriverApi &api = context_.api();
  if (!channel_.get())
    return Status::failed("expected a communicator, got one that was aborted");
  if (waits_)
    if (Status s = context_.check(api.streamWaitEvent(stream, order_, 0),
                                  "cuStreamWaitEvent"))
      return s;
  if (Status s = issue(calls_, stream))
    return s;
  if (!records_)
    return Status::ok();
  return context_.check(api.eventRecord(order_, stream), "cuEventRecord");
}

/// Parts of all ranks lie in one buffer.
static int64_t copiesIn(NcclCall::Kind kind, int ranks) {
  return kind == NcclCall::Kind::AllGather ||
                 kind == NcclCall::Kind::ReduceScatter
             ? ranks
             : 1;
}

static bool isBetweenTwo(NcclCall::Kind kind) {
  return kind == NcclCall::Kind::Send || kind == NcclCall::Kind::Receive;
}

NcclCall NcclExchange::rehearsalOf(const NcclCall &call) const {
  NcclCall made = call;
  int64_t most = mostRehearsedBytes / static_cast<int64_t>(calls_.size()) /
                 nccl::sizeOf(call.type) / copiesIn(call.kind, channel_.size());
  made.count = isBetweenTwo(call.kind)
                   ? 1
                   : std::min(call.count, static_cast<size_t>(most));
  return made;
}

int64_t NcclExchange::rehearsalBytesOf(const NcclCall &call) const {
  int64_t bytes = static_cast<int64_t>(call.count) * nccl::sizeOf(call.type) *
                  copiesIn(call.kind, channel_.size());
  return alignPart(bytes);
}

int64_t NcclExchange::rehearsalBytes() const {
  int64_t bytes = 0;
  for (const NcclCall &call : calls_)
    bytes += rehearsalBytesOf(rehearsalOf(call));
  return bytes;
}

Status NcclExchange::rehearse(cu::Stream stream, cu::Pointer memory) const {
  // Calls of a group run in no order: each has memory of its own.
  std::vector<NcclCall> calls;
  for (const NcclCall &call : calls_) {
    NcclCall mine = rehearsalOf(call);
    mine.src = mine.dst = memory;
    // In place: a rank's part lies where all of them are.
    cu::Pointer part =
        memory + static_cast<cu::Pointer>(channel_.rank()) * mine.count *
                     static_cast<cu::Pointer>(nccl::sizeOf(mine.type));
    if (mine.kind == NcclCall::Kind::AllGather)
      mine.src = part;
    if (mine.kind == NcclCall::Kind::ReduceScatter)
      mine.dst = part;
    memory += static_cast<cu::Pointer>(rehearsalBytesOf(mine));
    calls.push_back(mine);
  }
  return issue(calls, stream);
}

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

SumPlacement NcclTransfers::placeSums(const std::vector<int> &ranks) const {
  return rt::placeSums(static_cast<int64_t>(ranks.size()), [&](int64_t i) {
    return cards_.nodeOf(ranks[static_cast<size_t>(i)]);
  });
}

SumPlacement NcclTransfers::planSums(const std::vector<int> &ranks) const {
  auto size = static_cast<int64_t>(ranks.size());
  int64_t perNode = layout_.sums.ranksPerNode;
  if (perNode == 0)
    return {size, 1};
  return rt::placeSums(
      size, [&](int64_t i) { return ranks[static_cast<size_t>(i)] / perNode; });
}

SumPlan NcclTransfers::planSum(int32_t kind,
                               const fsdp_rt_collective_desc &desc,
                               SumPlacement placement) {
  auto dtype = static_cast<Dtype>(desc.dtype);
  return rt::planSum(kind == FSDP_RT_ALL_REDUCE, desc.count,
                     {dtypeSize(dtype), dtypeSize(partialTypeOf(dtype))},
                     placement);
}

int64_t NcclTransfers::getSumMemory(const fsdp_rt_start_desc &start,
                                    SumPlacement placement) const {
  if (reduction() != Reduction::Exact || !shapeOf(start.kind).isSum)
    return 0;
  int64_t bytes = 0;
  for (int64_t i = 0; i < start.part_count; ++i)
    bytes +=
        planSum(start.kind, *collectivesOf(start)[i], placement).memoryBytes();
  return bytes;
}

void NcclTransfers::noteNodes(const std::vector<int> &ranks) {
  if (!noted_.insert(ranks).second)
    return;
  SumPlacement here = placeSums(ranks), planned = planSums(ranks);
  int64_t perNode = layout_.sums.ranksPerNode;
  auto size = static_cast<int64_t>(ranks.size());
  double ratio = here.nodes > 1 ? 0 : getRingRatio(size, [&](int64_t i) {
    return cards_.nodeOf(ranks[static_cast<size_t>(i)]);
  });
  bool isCostly = ratio >= 1.05, isOther = here.nodes != planned.nodes;
  if (!isCostly && (!isOther || perNode == 0))
    return;
  std::set<int> nodes;
  for (int rank : ranks)
    nodes.insert(cards_.nodeOf(rank));
  std::string note = "sums over " + std::to_string(size) + " ranks on " +
                     std::to_string(nodes.size()) +
                     " nodes (--reduction exact) ";
  if (isCostly) {
    char times[32];
    std::snprintf(times, sizeof(times), "%.1f", ratio);
    note += std::string("send ") + times +
            " times a ring's bytes between nodes: expected 2, 4, 8, .. nodes "
            "with as many consecutive ranks each; --reduction nccl adds up as "
            "NCCL does";
  } else {
    note += here.nodes > 1 ? "have two levels" : "have one level";
  }
  if (isOther && perNode > 0)
    note += "; the program was compiled for nodes of " +
            std::to_string(perNode) + " ranks (--cluster), with sums of " +
            (planned.nodes > 1 ? "two levels" : "one level");
  notes_.push_back(note);
}

/// Whether a queue's sums receive no more than the manifest says, if it does.
Status NcclTransfers::checkReceived(int32_t queue, int64_t bytes) const {
  if (!layout_.reductionBytes)
    return Status::ok();
  auto stated = layout_.reductionBytes->find(queue);
  int64_t most = stated == layout_.reductionBytes->end() ? 0 : stated->second;
  if (bytes <= most)
    return Status::ok();
  return Status::failed(
      "expected sums over ranks of queue " + nameOfQueue(queue) +
      " to receive at most " + std::to_string(most) +
      " bytes, as the manifest says, got " + std::to_string(bytes));
}

Status NcclTransfers::prepare(const hal::Recording &recording) {
  // By queue: here, and where the program was compiled for.
  std::map<int32_t, int64_t> needed, planned;
  for (const hal::Call &call : recording.calls()) {
    const fsdp_rt_start_desc *found = hal::getExchange(call, layout_);
    if (!found)
      continue;
    const fsdp_rt_start_desc &start = *found;
    int32_t group = collectivesOf(start)[0]->group;
    if (Status s = open(group, start.queue))
      return s.withContext(hal::nameOf(call));
    const std::vector<int> &ranks = layout_.groups[group];
    auto raise = [&](int64_t &bytes, SumPlacement placement) {
      bytes = std::max(bytes, getSumMemory(start, placement));
    };
    raise(needed[start.queue], placeSums(ranks));
    raise(planned[start.queue], planSums(ranks));
    if (reduction() == Reduction::Exact && shapeOf(start.kind).isSum)
      noteNodes(ranks);
  }
  for (const auto &[queue, bytes] : needed) {
    if (Status s = checkReceived(queue, planned[queue]))
      return s;
    if (layout_.reductionBytes && bytes > planned[queue])
      notes_.push_back("sums over ranks of queue " + nameOfQueue(queue) +
                       " take " + std::to_string(bytes) +
                       " bytes beside the arena, and " +
                       std::to_string(planned[queue]) +
                       " on the nodes that the program was compiled for");
    std::shared_ptr<DeviceArena> &scratch = scratch_[queue];
    if (scratch && scratch->size() >= bytes)
      continue;
    Result<std::unique_ptr<DeviceArena>> made =
        DeviceArena::map(context_, copies_, bytes,
                         "memory for sums over ranks (--reduction exact)");
    if (!made.isOk())
      return made.status();
    scratch = std::move(*made);
  }
  return Status::ok();
}

Status NcclTransfers::openLibrary() {
  Result<const NcclApi *> api = NcclApi::ofProcess();
  if (!api.isOk())
    return api.status();
  // Before anything is NCCL's: ranks of other versions may never meet there.
  if (Status s = agreeOnVersion(world_, (*api)->describe()))
    return s;
  if (Status s = compareDrivers())
    return s;
  NcclVariables variables = layout_.channelVariables;
  if (Status s = cards_.permit(world_, **api, variables, notes_))
    return s;
  if (!layout_.channelVariables.empty() || cards_.mostSharers() > 1)
    if (Status s = cards_.setVariables(world_, variables, notes_))
      return s;
  if (Status s = compareCtas())
    return s;
  Result<CudaEvent> order = CudaEvent::create(context_, cu::eventDisableTiming);
  if (!order.isOk())
    return order.status();
  api_ = *api;
  order_.emplace(std::move(*order));
  return Status::ok();
}

/// NCCL itself ignores what is not positive.
Status NcclTransfers::compareCtas() {
  const char *value = std::getenv("NCCL_MAX_CTAS");
  std::vector<int32_t> ctas, multiprocessors;
  RankZero ranks(world_);
  if (Status s = ranks.gather<int32_t>({value ? std::atoi(value) : 0}, ctas))
    return s;
  if (Status s =
          ranks.gather<int32_t>({context_.multiprocessors()}, multiprocessors))
    return s;
  int most = *std::max_element(ctas.begin(), ctas.end());
  bool areBounded =
      *std::min_element(ctas.begin(), ctas.end()) > 0 &&
      most < *std::min_element(multiprocessors.begin(), multiprocessors.end());
  maxCtas_ = areBounded ? most : 0;
  return Status::ok();
}

/// Drivers may differ, but then so may the code that each makes of PTX.
Status NcclTransfers::compareDrivers() {
  Result<std::vector<RankVersion>> drivers =
      gatherVersions(world_, context_.api().describe());
  if (!drivers.isOk())
    return drivers.status();
  if (std::string other = describeOther(*drivers); !other.empty())
    notes_.push_back("ranks have " + std::string((*drivers)[0].version) +
                     " on rank 0 (host " + (*drivers)[0].host.name + ") and " +
                     other + ": what these make of kernels may differ");
  return Status::ok();
}

Status NcclTransfers::open(int32_t group, int32_t queue) {
  const std::vector<int> &ranks = layout_.groups[group];
  std::unique_ptr<NcclChannel> &channel = channels_[{ranks, queue}];
  if (channel)
    return Status::ok();
  if (!api_)
    if (Status s = openLibrary())
      return s;
  std::unique_ptr<hal::HostChannel> &host = hosts_[ranks];
  if (!host) {
    Result<std::unique_ptr<hal::HostChannel>> made = world_.openChannel(ranks);
    if (!made.isOk())
      return made.status();
    host = std::move(*made);
  }
  Result<std::unique_ptr<NcclChannel>> made = NcclChannel::open(
      *api_, world_, *host, ranks, queue, reduction(), cards_.maxCtas());
  if (!made.isOk() && cards_.isShared() && world_.failure().isOk())
    return Status::failed(made.status().message() + ": " + cards_.describe() +
                          ", which NCCL may refuse: " + RankCards::remedy());
  if (!made.isOk())
    return made.status();
  channel = std::move(*made);
  return Status::ok();
}

NcclChannel &NcclTransfers::channel(int32_t group, int32_t queue) const {
  return *channels_.at({layout_.groups[group], queue});
}

std::unique_ptr<NcclExchange>
NcclTransfers::makeExchange(const NcclChannel &channel) const {
  return std::make_unique<NcclExchange>(channel, context_, order_->get());
}

bool NcclTransfers::ordersThemselves() const {
  const char *value = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  // In a graph, calls of two communicators would have no order among them.
  return !settings_.usesGraphs && api_ &&
         api_->version >= NcclApi::leastOrderingVersion && value && *value &&
         std::strcmp(value, "0") != 0;
}

Status NcclTransfers::poll() const {
  for (const auto &[key, channel] : channels_)
    if (channel)
      if (Status s = channel->poll())
        return s;
  return Status::ok();
}

int64_t NcclTransfers::mappedBytes() const {
  int64_t bytes = 0;
  for (const auto &[queue, scratch] : scratch_)
    bytes += scratch ? scratch->mappedBytes() : 0;
  return bytes;
}

NcclTransfers::~NcclTransfers() {
  bool isBegun = false, areFinal = true;
  for (auto &[key, channel] : channels_) {
    if (!channel || !channel->get())
      continue;
    // A graph that the driver did not destroy keeps all of them from ending.
    areFinal = areFinal && channel->finalize();
    isBegun |= ends_.begin(areFinal ? api_->commDestroy : api_->commAbort,
                           channel->release());
  }
  if (isBegun &&
      ends_.wait(NcclChannel::endLimit) == NcclEnds::Outcome::TimedOut)
    std::fprintf(stderr,
                 "warning: rank %d: NCCL does not end its communicators within "
                 "%lld s; the end of the process frees them\n",
                 world_.rank(),
                 static_cast<long long>(NcclChannel::endLimit / 1'000'000'000));
}

bool NcclTransfers::settle(int64_t nanoseconds) const {
  WaitLimit limit(nanoseconds);
  for (const auto &[key, channel] : channels_)
    while (channel && channel->isInProgress()) {
      constexpr std::chrono::microseconds pause(50);
      std::this_thread::sleep_for(pause);
      if (limit.isExceeded())
        return false;
    }
  return true;
}

bool NcclTransfers::abort() {
  bool areBegun = true;
  for (auto &[key, channel] : channels_)
    if (nccl::Comm comm = channel ? channel->release() : nullptr)
      areBegun &= ends_.begin(api_->commAbort, comm);
  return areBegun;
}

} // namespace fsdp::rt
