//===- CpuDevice.cpp - Programs on the processors of this host ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cpu/CpuDevice.h"

#include "core/Clock.h"
#include "core/Host.h"
#include "hal/CallWork.h"

namespace fsdp::rt {

/// Whether queues have threads follows from facts of the host, which may be
/// others on each rank: one processor mask does not fit all. They have threads
/// if one rank gains by them.
static Result<bool> agreeOnThreads(World &world, const CpuOptions &options) {
  Result<std::unique_ptr<hal::HostChannel>> ranks = world.openChannelOfAll();
  if (!ranks.isOk())
    return ranks.status();
  int32_t votes = decideQueueThreads(options.queueThreads, world.hasLink(),
                                     world.localSize(),
                                     options.threads) == QueueThreads::On;
  if (Status s = (*ranks)->allReduce(&votes, &votes, 1, FSDP_RT_I32, 1))
    return s;
  return votes > 0;
}

Result<std::unique_ptr<CpuDevice>>
CpuDevice::create(World &world, const hal::Layout &layout,
                  const CpuOptions &options) {
  Result<std::unique_ptr<CpuRank>> rank =
      CpuRank::create(world.localSize(), layout, options);
  if (!rank.isOk())
    return rank.status();
  std::unique_ptr<CpuDevice> device(
      new CpuDevice(world, layout, std::move(*rank)));
  if (layout.hasQueues())
    if (Status s = device->openQueues(options))
      return s;
  return device;
}

Status CpuDevice::openQueues(const CpuOptions &options) {
  Result<bool> hasThreads = agreeOnThreads(world_, options);
  if (!hasThreads.isOk())
    return hasThreads.status();
  auto threads = options.threads + static_cast<int64_t>(layout_.queues.size());
  bool spin = int64_t(world_.localSize()) * threads <= availableCores();
  Result<std::unique_ptr<TransferQueues>> queues =
      TransferQueues::create(world_, rank_->memory(), layout_,
                             *hasThreads ? nullptr : &rank_->pool(), spin);
  if (!queues.isOk())
    return queues.status();
  queues_ = std::move(*queues);
  return Status::ok();
}

Result<std::unique_ptr<hal::Executable>>
CpuDevice::load(hal::Recording recording) {
  Result<std::unique_ptr<CpuExecutable>> made =
      rank_->load(std::move(recording));
  if (!made.isOk())
    return made.status();
  for (const CpuCall &call : (*made)->calls()) {
    if (call.call.function != hal::Function::start)
      continue;
    auto &desc = call.call.as<fsdp_rt_start_desc>();
    Status status = queues_ ? queues_->open(desc)
                            : openChannelFor(desc, world_, layout_.groups,
                                             &rank_->pool(), channels_);
    if (status)
      return status;
  }
  return std::unique_ptr<hal::Executable>(std::move(*made));
}

Status CpuDevice::execute(hal::Executable &executable,
                          hal::RunRequest &request) {
  if (!failure_.isOk())
    return failure_;
  if (queues_)
    queues_->beginRun(++runs_);
  hal::Memory &memory = rank_->memory(FSDP_RT_DEVICE);
  failure_ = hal::placeScalars(request, memory);
  if (failure_.isOk())
    failure_ = play(static_cast<CpuExecutable &>(executable), request);
  if (failure_.isOk())
    failure_ = hal::fetchResults(request, memory);
  if (failure_.isOk())
    return failure_;
  world_.abort(failure_);
  if (queues_)
    queues_->cancel(failure_);
  return failure_;
}

Status CpuDevice::synchronize(hal::RunTimes &times) {
  times += times_;
  times_ = {};
  return failure_;
}

Status CpuDevice::play(const CpuExecutable &executable,
                       const hal::RunRequest &request) {
  for (const CpuCall &call : executable.calls()) {
    Status status = play(call, request);
    // A transfer's failure comes first: it is why later calls fail.
    if (queues_ && queues_->hasFailed())
      return queues_->failure();
    if (status)
      return status;
  }
  return Status::ok();
}

Status CpuDevice::play(const CpuCall &call, const hal::RunRequest &request) {
  if (call.call.function == hal::Function::start)
    return start(call.call, request);
  if (call.call.function == hal::Function::wait) {
    wait(call.call, request);
    return Status::ok();
  }
  return rank_->run(call, request, times_);
}

void CpuDevice::addTransfer(const TransferRecord &done) {
  times_.waiting += done.waiting;
  times_.communication += done.end - done.begin - done.waiting;
}

Status CpuDevice::startInOrder(const hal::Call &call,
                               const hal::RunRequest &request) {
  TransferRecord done;
  done.desc = &call.as<fsdp_rt_start_desc>();
  done.bytes = call.bytes;
  done.given = done.begin = nowNanoseconds();
  if (Status s = runTransfers(*done.desc, world_, channels_, rank_->memory(),
                              &rank_->pool(), done))
    return s;
  done.end = nowNanoseconds();
  addTransfer(done);
  if (request.log)
    request.log->record(done.toCall());
  return Status::ok();
}

Status CpuDevice::start(const hal::Call &call, const hal::RunRequest &request) {
  if (!queues_)
    return startInOrder(call, request);
  auto &desc = call.as<fsdp_rt_start_desc>();
  queues_->start(desc, call.bytes);
  if (!queues_->hasThreads())
    addTransfer(queues_->record(desc.event));
  return Status::ok();
}

void CpuDevice::wait(const hal::Call &call, const hal::RunRequest &request) {
  int64_t begin = nowNanoseconds();
  bool isFirst = false;
  const TransferRecord &done =
      queues_->wait(call.as<fsdp_rt_wait_desc>().event, isFirst);
  int64_t end = nowNanoseconds();
  if (isFirst)
    times_.transfers += done.end - done.begin;
  if (isFirst && request.log)
    request.log->record(done.toCall());
  report(call, begin, end, times_, request.log);
}

//===----------------------------------------------------------------------===//
// In the registry
//===----------------------------------------------------------------------===//

static Result<std::unique_ptr<hal::Device>>
create(World &world, const hal::DeviceOptions &options) {
  Result<CpuOptions> wanted = parseCpuOptions(options);
  if (!wanted.isOk())
    return wanted.status();
  Result<std::unique_ptr<CpuDevice>> device =
      CpuDevice::create(world, options.layout, *wanted);
  if (!device.isOk())
    return device.status();
  return std::unique_ptr<hal::Device>(std::move(*device));
}

const hal::DeviceKind cpuDevice = {"cpu",
                                   "cpu",
                                   checkCpuHost,
                                   cpuSettings,
                                   countBusyCpuThreads,
                                   /*computesOnHost=*/true,
                                   create};

} // namespace fsdp::rt
