//===- LateDevice.cpp - Processors whose queues run late ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LateDevice.h"

#include "core/Clock.h"
#include "core/Dtype.h"
#include "hal/CallWork.h"
#include "hal/Transfers.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

namespace fsdp::rt {

namespace {

/// What a transfer writes holds nothing until it has been written. One in place
/// keeps what it reads.
void poisonResults(const fsdp_rt_start_desc &desc, const RankMemory &memory,
                   const hal::Layout &layout) {
  if (isHostCopy(desc.kind)) {
    auto parts = static_cast<const fsdp_rt_host_copy_desc *const *>(desc.parts);
    for (int64_t i = 0; i < desc.part_count; ++i)
      std::memset(memory.base(sidesOf(desc.kind).to) + parts[i]->dst, 0xff,
                  static_cast<size_t>(parts[i]->bytes));
    return;
  }
  auto parts = static_cast<const fsdp_rt_collective_desc *const *>(desc.parts);
  auto ranks = static_cast<int64_t>(layout.groups[parts[0]->group].size());
  for (int64_t i = 0; i < desc.part_count; ++i) {
    const fsdp_rt_collective_desc &part = *parts[i];
    CollectiveShape shape = shapeOf(desc.kind);
    int64_t bytes = part.count * dtypeSize(static_cast<Dtype>(part.dtype));
    int64_t srcBytes = bytes * shape.srcParts(ranks);
    int64_t dstBytes = bytes * shape.dstParts(ranks);
    bool isApart =
        part.src + srcBytes <= part.dst || part.dst + dstBytes <= part.src;
    if (isApart)
      std::memset(memory.device + part.dst, 0xff,
                  static_cast<size_t>(dstBytes));
  }
}

} // namespace

LateDevice::LateDevice(World &world, const hal::Layout &layout,
                       std::unique_ptr<CpuRank> rank, uint64_t seed,
                       Fault fault)
    : world_(world), layout_(layout), rank_(std::move(rank)),
      fault_(std::move(fault)),
      device_(rank_->memory(FSDP_RT_DEVICE), rank_->memory().device,
              layout.state.device, fault_),
      host_(rank_->memory(FSDP_RT_HOST), rank_->memory().host,
            layout.state.host, fault_),
      random_(seed * 1000003 + static_cast<uint64_t>(world.rank())),
      lanes_(numQueues), events_(layout.events) {}

Result<std::unique_ptr<LateDevice>>
LateDevice::create(World &world, const hal::Layout &layout,
                   const CpuOptions &options, uint64_t seed, Fault fault) {
  if (Status s = fault.pass(Fault::Place::Create))
    return s;
  Result<std::unique_ptr<CpuRank>> rank =
      CpuRank::create(world.localSize(), layout, options);
  if (!rank.isOk())
    return rank.status();
  std::unique_ptr<LateDevice> device(
      new LateDevice(world, layout, std::move(*rank), seed, std::move(fault)));
  device->startThreads();
  return device;
}

void LateDevice::startThreads() {
  for (int32_t queue : layout_.queues) {
    lanes_[queue] = std::make_unique<Lane>();
    Lane &lane = *lanes_[queue];
    lane.thread = std::thread([this, &lane] { serve(lane); });
  }
}

LateDevice::~LateDevice() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    isEnding_ = true;
    changed_.notify_all();
  }
  for (std::unique_ptr<Lane> &lane : lanes_)
    if (lane)
      lane->thread.join();
}

Result<std::unique_ptr<hal::Executable>>
LateDevice::load(hal::Recording recording) {
  Result<std::unique_ptr<CpuExecutable>> made =
      rank_->load(std::move(recording));
  if (!made.isOk())
    return made.status();
  for (const CpuCall &call : (*made)->calls()) {
    if (call.call.function != hal::Function::start)
      continue;
    auto &desc = call.call.as<fsdp_rt_start_desc>();
    HostChannels &channels = desc.queue == FSDP_RT_QUEUE_COMPUTE
                                 ? channels_
                                 : lanes_[desc.queue]->channels;
    if (Status s = openChannelFor(desc, world_, layout_.groups,
                                  /*pool=*/nullptr, channels))
      return s;
  }
  return std::unique_ptr<hal::Executable>(std::move(*made));
}

Status LateDevice::execute(hal::Executable &executable,
                           hal::RunRequest &request) {
  device_.setPending(true);
  host_.setPending(true);
  pending_.push_back({static_cast<CpuExecutable *>(&executable), &request});
  return Status::ok();
}

Status LateDevice::synchronize(hal::RunTimes &times) {
  device_.open();
  host_.open();
  for (const Run &run : pending_) {
    if (!failure_.isOk())
      break;
    device_.poison();
    host_.poison();
    hal::Memory &memory = rank_->memory(FSDP_RT_DEVICE);
    failure_ = hal::placeScalars(*run.request, memory);
    if (failure_.isOk())
      failure_ = play(*run.executable, *run.request);
    if (failure_.isOk())
      failure_ = hal::fetchResults(*run.request, memory);
    if (failure_)
      world_.abort(failure_);
  }
  pending_.clear();
  device_.close();
  host_.close();
  device_.setPending(false);
  host_.setPending(false);
  times += times_;
  times_ = {};
  return failure_;
}

Status LateDevice::play(const CpuExecutable &executable,
                        const hal::RunRequest &request) {
  return layout_.hasQueues() ? playQueues(executable, request)
                             : playInOrder(executable, request);
}

Status LateDevice::compute(const CpuCall &call,
                           const hal::RunRequest &request) {
  if (Status s = fault_.pass(Fault::Place::Call))
    return s;
  return rank_->run(call, request, times_);
}

Status LateDevice::runTransfer(const hal::Call &call,
                               const HostChannels &channels, ThreadPool *pool,
                               TransferRecord &record) {
  record.desc = &call.as<fsdp_rt_start_desc>();
  record.bytes = call.bytes;
  record.begin = nowNanoseconds();
  // A guard wants to see what was there.
  if (!record.desc->guard)
    poisonResults(*record.desc, rank_->memory(), layout_);
  Status status = runTransfers(*record.desc, world_, channels, rank_->memory(),
                               pool, record);
  record.end = nowNanoseconds();
  return status;
}

Status LateDevice::playInOrder(const CpuExecutable &executable,
                               const hal::RunRequest &request) {
  for (const CpuCall &call : executable.calls()) {
    if (call.call.function != hal::Function::start) {
      if (Status s = compute(call, request))
        return s;
      continue;
    }
    TransferRecord record;
    record.given = nowNanoseconds();
    if (Status s = runTransfer(call.call, channels_, /*pool=*/nullptr, record))
      return s;
    times_.waiting += record.waiting;
    times_.communication += record.end - record.begin - record.waiting;
    if (request.log)
      request.log->record(record.toCall());
  }
  return Status::ok();
}

void LateDevice::serve(Lane &lane) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return isEnding_ || lane.isBusy; });
    if (isEnding_)
      return;
    const hal::Call &call = *lane.given.front();
    auto &desc = call.as<fsdp_rt_start_desc>();
    Event &event = events_[desc.event];
    bool isSlow = below(0.2);
    lock.unlock();
    if (isSlow)
      usleep(100);
    Status status =
        runTransfer(call, lane.channels, /*pool=*/nullptr, event.record);
    lock.lock();
    if (status && failure_.isOk())
      failure_ = status;
    event.isComplete = true;
    lane.given.pop_front();
    lane.isBusy = false;
    changed_.notify_all();
  }
}

/// Queues whose next transfer may begin.
std::vector<LateDevice::Lane *> LateDevice::readyLanes() {
  std::vector<Lane *> ready;
  for (std::unique_ptr<Lane> &lane : lanes_) {
    if (!lane || lane->isBusy || lane->given.empty())
      continue;
    auto &desc = lane->given.front()->as<fsdp_rt_start_desc>();
    auto after = static_cast<const int64_t *>(desc.after);
    bool isReady = true;
    for (int64_t i = 0; i < desc.after_count; ++i)
      isReady &= events_[after[i]].isComplete;
    if (isReady)
      ready.push_back(lane.get());
  }
  return ready;
}

/// Whether queue 0 goes on behind a wait.
bool LateDevice::passWait(const hal::Call &call,
                          const hal::RunRequest &request) {
  Event &event = events_[call.as<fsdp_rt_wait_desc>().event];
  if (!event.isComplete)
    return false;
  int64_t now = nowNanoseconds();
  if (!event.isAwaited) {
    times_.transfers += event.record.end - event.record.begin;
    if (request.log)
      request.log->record(event.record.toCall());
  }
  event.isAwaited = true;
  report(call, now, now, times_, request.log);
  return true;
}

Status LateDevice::playQueues(const CpuExecutable &executable,
                              const hal::RunRequest &request) {
  const std::vector<CpuCall> &calls = executable.calls();
  constexpr double preferences[] = {0, 0.05, 0.5, 0.95};
  std::unique_lock<std::mutex> lock(mutex_);
  events_.assign(events_.size(), Event());
  double ofTransfers = preferences[random_() % 4];
  auto isBusy = [&] {
    for (std::unique_ptr<Lane> &lane : lanes_)
      if (lane && lane->isBusy)
        return true;
    return false;
  };
  auto hasGiven = [&] {
    for (std::unique_ptr<Lane> &lane : lanes_)
      if (lane && !lane->given.empty())
        return true;
    return false;
  };
  size_t next = 0;
  while (failure_.isOk() && (next < calls.size() || hasGiven())) {
    std::vector<Lane *> ready = readyLanes();
    if (next < calls.size() && (ready.empty() || !below(ofTransfers))) {
      const CpuCall &call = calls[next];
      if (call.call.function == hal::Function::start) {
        auto &desc = call.call.as<fsdp_rt_start_desc>();
        events_[desc.event].record.given = nowNanoseconds();
        lanes_[desc.queue]->given.push_back(&call.call);
        ++next;
        continue;
      }
      if (call.call.function != hal::Function::wait) {
        lock.unlock();
        Status status = compute(call, request);
        lock.lock();
        if (status && failure_.isOk())
          failure_ = status;
        ++next;
        continue;
      }
      if (passWait(call.call, request)) {
        ++next;
        continue;
      }
    }
    if (!ready.empty()) {
      ready[random_() % ready.size()]->isBusy = true;
      changed_.notify_all();
      continue;
    }
    int64_t begin = nowNanoseconds();
    if (isBusy())
      changed_.wait_for(lock, std::chrono::milliseconds(1));
    times_.waiting += nowNanoseconds() - begin;
  }
  if (failure_) {
    lock.unlock();
    world_.abort(failure_);
    lock.lock();
  }
  changed_.wait(lock, [&] { return !isBusy(); });
  for (std::unique_ptr<Lane> &lane : lanes_)
    if (lane)
      lane->given.clear();
  return failure_;
}

//===----------------------------------------------------------------------===//
// In the registry
//===----------------------------------------------------------------------===//

static Result<std::unique_ptr<hal::Device>>
create(World &world, const hal::DeviceOptions &options) {
  Result<CpuOptions> wanted = parseCpuOptions(options);
  if (!wanted.isOk())
    return wanted.status();
  const char *seed = std::getenv("FSDP_LATE_SEED");
  Result<std::unique_ptr<LateDevice>> device =
      LateDevice::create(world, options.layout, *wanted,
                         seed ? std::strtoull(seed, nullptr, 10) : 1,
                         Fault::ofEnvironment(world.rank()));
  if (!device.isOk())
    return device.status();
  return std::unique_ptr<hal::Device>(std::move(*device));
}

const hal::DeviceKind cpuLateDevice = {"cpu-late",
                                       "cpu",
                                       checkCpuHost,
                                       cpuSettings,
                                       countBusyCpuThreads,
                                       /*computesOnHost=*/true,
                                       create};

} // namespace fsdp::rt
