//===- Device.cpp - A device: its memory, its streams, its error ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "driver/Device.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace fsdp::emulator {

using Clock = std::chrono::steady_clock;

Device::Device(int ordinal, const Settings &settings)
    : ordinal(ordinal), settings(settings),
      addresses(operationOrder, settings.checks),
      random(settings.seed + static_cast<uint32_t>(ordinal)) {
  legacy = createStream(true, 0);
}

Device::~Device() { dropWork(); }

void Device::dropWork() {
  for (const StreamPtr &stream : streams)
    stream->queue.clear();
  streams.clear();
}

void Device::reset() {
  dropWork();
  addresses.clear();
  operationOrder = OperationOrder();
  lastOfTurn.clear();
  usedBytes = 0;
  sticky = cuda::Success;
  hostClock = destroyedClock = VectorClock();
  legacy = createStream(true, 0);
}

void Device::checkTurn(uint64_t turn, OperationId id) {
  if (turn == 0 || !settings.checks.races)
    return;
  OperationId last = std::exchange(lastOfTurn[turn], id);
  if (last != 0 && !operationOrder.isBefore(last, id))
    throw DeviceFault(
        FaultCode::LaunchFailed,
        "expected an order between operations that other ranks take part in, "
        "got none between " +
            operationOrder.describe(last) + " and " +
            operationOrder.describe(id));
}

void Device::takeBytes(uint64_t bytes) {
  if (bytes > freeBytes())
    throw Refusal(cuda::OutOfMemory,
                  "expected at most " + std::to_string(freeBytes()) +
                      " bytes, which are free, got " + std::to_string(bytes));
  usedBytes += bytes;
}

StreamPtr Device::createStream(bool isBlocking, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->device = this;
  stream->index = nextStream++;
  stream->isBlocking = isBlocking;
  stream->priority = priority;
  streams.push_back(stream);
  return stream;
}

void Device::destroyStream(const StreamPtr &stream) {
  // With work left, step() forgets it.
  if (stream->queue.empty())
    forget(stream);
}

void Device::forget(const StreamPtr &stream) {
  destroyedClock.join(stream->clock);
  std::erase(streams, stream);
}

CompletionPtr Device::issue(Stream &stream, Work work,
                            std::vector<CompletionPtr> after, bool isOrdering) {
  stream.isBehindKernel = false;
  if (&stream == legacy.get()) {
    for (const StreamPtr &other : streams)
      if (other->isBlocking && other->last && other != legacy)
        after.push_back(other->last);
  } else if (stream.isBlocking && legacy->last) {
    after.push_back(legacy->last);
  }
  Operation operation;
  for (const CompletionPtr &completion : after)
    stream.clock.join(completion->clock);
  stream.clock.join(hostClock);
  if (!isOrdering) {
    reportImpliedWaits(stream);
    ++stream.issued;
    stream.clock.set(stream.index, stream.issued);
    operation.id = operationOrder.add(work.name, stream.index, stream.issued,
                                      stream.clock);
  }
  if (const HeldCall *held = currentHeldCall())
    work.run = [this, held, run = std::move(work.run)](OperationId id) {
      return arrivals[held->bytes] >= held->copies && run(id);
    };
  operation.work = std::move(work);
  lastProgress = Clock::now();
  operation.after = std::move(after);
  operation.completion = std::make_shared<Completion>();
  operation.completion->clock = stream.clock;
  stream.last = operation.completion;
  stream.queue.push_back(std::move(operation));
  return stream.last;
}

void Device::reportImpliedWaits(Stream &stream) const {
  for (const CompletionPtr &skipped : stream.skippedWaits)
    if (stream.clock.contains(skipped->clock))
      reportImpliedWait();
  stream.skippedWaits.clear();
}

CompletionPtr Device::record(Stream &stream) {
  reportImpliedWaits(stream);
  return issue(stream, {"an event", [](OperationId) { return true; }}, {},
               true);
}

void Device::wait(Stream &stream, const CompletionPtr &completion) {
  issue(stream, {"a wait for an event", [](OperationId) { return true; }},
        {completion}, true);
}

bool Device::isReady(const Stream &stream) const {
  if (stream.queue.empty())
    return false;
  for (const CompletionPtr &completion : stream.queue.front().after)
    if (!completion->isDone)
      return false;
  return true;
}

bool Device::runFirst(Stream &stream) {
  Operation &operation = stream.queue.front();
  try {
    if (!operation.work.run(operation.id))
      return false;
  } catch (const DeviceFault &fault) {
    report(fault.what());
    sticky = static_cast<cuda::Result>(fault.code);
    throw Refusal(sticky, "");
  }
  operation.completion->isDone = true;
  operation.completion->when = Clock::now();
  stream.queue.pop_front();
  return true;
}

bool Device::step() {
  std::vector<StreamPtr> ready;
  bool hasWork = false;
  for (const StreamPtr &stream : streams) {
    hasWork |= !stream->queue.empty();
    if (isReady(*stream))
      ready.push_back(stream);
  }
  if (ready.empty() && hasWork) {
    report("expected operations that can run, got streams that wait for each "
           "other: " +
           describeWaiting());
    sticky = cuda::LaunchTimeout;
    throw Refusal(sticky, "");
  }
  std::shuffle(ready.begin(), ready.end(), random);
  for (const StreamPtr &stream : ready) {
    if (!runFirst(*stream))
      continue;
    lastProgress = Clock::now();
    // Nobody but this list knows a stream that was destroyed.
    if (stream->queue.empty() && stream.use_count() == 2)
      forget(stream);
    return true;
  }
  return false;
}

void Device::runUntil(const std::function<bool()> &isDone) {
  lastProgress = Clock::now();
  for (;;) {
    // Another thread may have run its work, and failed.
    if (sticky)
      throw Refusal(sticky, "");
    if (isDone())
      return;
    if (step())
      continue;
    // An operation waits for another process, thread or device.
    mutex.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    mutex.lock();
    checkProgress();
  }
}

void Device::checkProgress() {
  std::chrono::duration<double> idle = Clock::now() - lastProgress;
  if (idle.count() <= settings.timeout)
    return;
  report("expected operations to go on, got none for " +
         std::to_string(idle.count()) + " s: " + describeWaiting());
  sticky = cuda::LaunchTimeout;
}

std::string Device::describeWaiting() const {
  std::string text;
  for (const StreamPtr &stream : streams)
    if (!stream->queue.empty())
      text += (text.empty() ? "" : ", ") + std::string("stream ") +
              std::to_string(stream->index) + " is at " +
              stream->queue.front().work.name;
  return text;
}

void Device::synchronize(const CompletionPtr &completion) {
  if (!completion) {
    if (sticky)
      throw Refusal(sticky, "");
    return;
  }
  runUntil([&] { return completion->isDone; });
  hostClock.join(completion->clock);
}

void Device::synchronizeAll() {
  runUntil([&] {
    return std::all_of(streams.begin(), streams.end(), [](const auto &stream) {
      return stream->queue.empty();
    });
  });
  for (const StreamPtr &stream : streams)
    hostClock.join(stream->clock);
  hostClock.join(destroyedClock);
}

void Device::makeProgress() {
  if (sticky)
    throw Refusal(sticky, "");
  bool hasWork = std::any_of(streams.begin(), streams.end(), [](auto &stream) {
    return !stream->queue.empty();
  });
  if (hasWork && !step())
    checkProgress();
  if (sticky)
    throw Refusal(sticky, "");
}

void Device::removeModule(LoadedModule *module) {
  for (const auto &[name, kernel] : module->kernels())
    if (kernel->statistics.launches > 0)
      unloadedStatistics[name].add(kernel->statistics);
  modules.erase(module);
}

std::map<std::string, Statistics> Device::collectStatistics() const {
  std::map<std::string, Statistics> all = unloadedStatistics;
  for (const LoadedModule *module : modules)
    for (const auto &[name, kernel] : module->kernels())
      if (kernel->statistics.launches > 0)
        all[name].add(kernel->statistics);
  return all;
}

} // namespace fsdp::emulator
