//===- CudaDeviceLoad.cpp - From recordings to programs -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program's calls become work (CudaLoader), its exchanges connect ranks, and
// all of it becomes one graph.
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/run/CudaDevice.h"
#include "hal/Transfers.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace fsdp::rt {

namespace {

/// How long a rank that is no graph waits for the captures of others.
constexpr int64_t meetingNanoseconds = 5'000'000'000;
/// How long NCCL may take to end a call, in a capture that has failed.
constexpr int64_t settleNanoseconds = 1'000'000'000;
/// Of a device's memory, free beside that of first exchanges: NCCL allocates
/// buffers when it connects.
constexpr int64_t connectBytes = int64_t(1) << 30;

/// Fails all ranks with `why`, unless it ends within `nanoseconds`.
class AbortLater {
public:
  AbortLater(World &world, int64_t nanoseconds, const Status &why)
      : thread_([this, &world, nanoseconds, why] {
          std::unique_lock<std::mutex> lock(mutex_);
          if (!ended_.wait_for(lock, std::chrono::nanoseconds(nanoseconds),
                               [this] { return hasEnded_; }))
            world.abort(why);
        }) {}
  ~AbortLater() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      hasEnded_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }
  AbortLater(const AbortLater &) = delete;

private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool hasEnded_ = false;
  std::thread thread_;
};

} // namespace

Result<std::unique_ptr<hal::Executable>>
CudaDevice::load(hal::Recording recording) {
  if (Status s = rank_->context().makeCurrent())
    return s;
  Result<int64_t> before = rank_->context().takenBytes();
  if (!before.isOk())
    return before.status();
  // Of what is taken now, three parts have accounts of their own.
  auto mappedBytes = [&] {
    return rank_->transfers().mappedBytes() + rank_->products().pointerBytes() +
           rank_->attentions().mappedBytes();
  };
  int64_t mapped = mappedBytes();
  // What fails leaves it as it is until other ranks have heard of it.
  auto made = std::make_unique<CudaExecutable>(std::move(recording));
  if (Status s = rank_->load(*made))
    return giveUp(s);
  made->setMaxPending(settings_.hostWaits() ? 1 : hal::mostPendingRuns);
  if (settings_.usesGraphs)
    if (Status s = connect(*made))
      return giveUp(s);
  Result<int64_t> loaded = rank_->context().takenBytes();
  if (!loaded.isOk())
    return giveUp(loaded.status());
  mapped = mappedBytes() - mapped;
  codeBytes_ += std::max<int64_t>(0, *loaded - *before - mapped);
  if (settings_.usesGraphs) {
    if (Status s = makeGraph(*made))
      return giveUp(s);
    Result<int64_t> captured = rank_->context().takenBytes();
    if (!captured.isOk())
      return giveUp(captured.status());
    graphBytes_ += std::max<int64_t>(0, *captured - *loaded);
  }
  return std::unique_ptr<hal::Executable>(std::move(made));
}

Status CudaDevice::makeGraph(CudaExecutable &executable) {
  Status status = capture(executable);
  if (status && (settings_.requiresGraphs || checkAfterCapture()))
    return status.withContext(
        "as one CUDA graph, which --graph off does without");
  // NCCL registers buffers of captured calls, for which the ranks of a host
  // meet (NCCL_GRAPH_REGISTER): all ranks do the same. One that meets nobody
  // any more does not come to findRankWithout().
  std::optional<AbortLater> abortLater;
  if (status && rank_->transfers().hasChannels())
    abortLater.emplace(
        world_, meetingNanoseconds,
        status.withContext("program '" + executable.recording().name() +
                           "' is no CUDA graph on this rank, and others wait "
                           "for it in their captures; run with --graph off, or "
                           "NCCL_GRAPH_REGISTER=0"));
  Result<int> without = findRankWithout(status.isOk());
  abortLater.reset();
  if (!without.isOk())
    return without.status();
  if (*without < 0)
    return Status::ok();
  executable.dropGraph();
  notes_.push_back(
      "program '" + executable.recording().name() +
      "' is no CUDA graph, so that the host issues each of its "
      "calls: " +
      (status ? status.message()
              : "rank " + std::to_string(*without) + " cannot make one"));
  return Status::ok();
}

/// Of each kind and size one, with the number of its call. The program is the
/// same on all ranks, and so is what is left out.
static std::vector<std::pair<size_t, const NcclExchange *>>
chooseRehearsals(const CudaExecutable &executable, const hal::Layout &layout) {
  std::set<std::vector<int64_t>> known;
  std::vector<std::pair<size_t, const NcclExchange *>> chosen;
  for (size_t number = 0; number < executable.calls().size(); ++number) {
    const CudaCall &call = executable.calls()[number];
    const fsdp_rt_start_desc *start = hal::getExchange(call.call, layout);
    if (!start)
      continue;
    std::vector<int64_t> kind = {start->kind, start->queue,
                                 collectivesOf(*start)[0]->group};
    for (int64_t i = 0; i < start->part_count; ++i) {
      const fsdp_rt_collective_desc &part = *collectivesOf(*start)[i];
      kind.insert(kind.end(), {part.count, part.dtype});
    }
    if (!known.insert(std::move(kind)).second)
      continue;
    for (const CudaExecutable::Exchange &exchange : executable.exchanges())
      if (exchange.call == number && !exchange.work->isEmpty())
        chosen.push_back({number, exchange.work});
  }
  return chosen;
}

Status CudaDevice::connect(const CudaExecutable &executable) {
  if (!rank_->transfers().hasChannels())
    return Status::ok();
  const auto exchanges = chooseRehearsals(executable, layout_);
  int64_t bytes = 0;
  for (const auto &[call, exchange] : exchanges)
    bytes = std::max(bytes, exchange->rehearsalBytes());
  Status status = mapFirstExchanges(bytes);
  Result<int> without = findRankWithout(status.isOk());
  if (!without.isOk())
    return without.status();
  if (*without >= 0) {
    firstExchanges_.reset();
    notes_.push_back("NCCL connects with other ranks while program '" +
                     executable.recording().name() +
                     "' is made a CUDA graph, since " +
                     (status.isOk() ? "rank " + std::to_string(*without) +
                                          " has no memory for first exchanges"
                                    : status.message()));
    return Status::ok();
  }
  for (const auto &[call, exchange] : exchanges) {
    status = exchange->rehearse(stream(FSDP_RT_QUEUE_COMPUTE),
                                firstExchanges_->base());
    if (status.isOk())
      status = waitForStreams();
    if (status)
      return status.withContext(executable.recording().describeCall(call));
  }
  firstExchanges_.reset();
  return Status::ok();
}

Status CudaDevice::mapFirstExchanges(int64_t bytes) {
  size_t free = 0, total = 0;
  if (Status s = check(api().memGetInfo(&free, &total), "cuMemGetInfo"))
    return s;
  if (static_cast<int64_t>(free) < bytes + connectBytes)
    return Status::failed(
        "expected " + std::to_string(bytes + connectBytes) +
        " free bytes for first exchanges and what NCCL allocates, got " +
        std::to_string(free) + " on " + rank_->context().describe());
  Result<std::unique_ptr<DeviceArena>> memory =
      rank_->mapMore(bytes, "memory for first exchanges");
  if (memory.isOk())
    firstExchanges_ = std::move(*memory);
  return memory.status();
}

Result<int> CudaDevice::findRankWithout(bool isMine) {
  std::vector<int32_t> mine = {isMine}, all;
  if (Status s = rankZero_.gather(mine, all))
    return s;
  auto found = std::find(all.begin(), all.end(), 0);
  return found == all.end() ? -1 : static_cast<int>(found - all.begin());
}

Status CudaDevice::checkAfterCapture() {
  if (Status s = world_.failure())
    return s;
  if (Status s = rank_->transfers().poll())
    return s;
  return checkStreams();
}

Status CudaDevice::capture(CudaExecutable &executable) {
  Result<CudaGraph> graph =
      CudaGraph::capture(rank_->context(), stream(FSDP_RT_QUEUE_COMPUTE), [&] {
        NvtxRange range("capture");
        Status status = issue(executable, nullptr);
        // NCCL's threads may still give the streams work.
        if (status && !rank_->transfers().settle(settleNanoseconds))
          endProcess(status, "NCCL does not end a call that is captured");
        return status;
      });
  if (!graph.isOk())
    return graph.status();
  executable.setGraph(std::move(*graph));
  graphs_.push_back(executable.graph());
  return Status::ok();
}

} // namespace fsdp::rt
