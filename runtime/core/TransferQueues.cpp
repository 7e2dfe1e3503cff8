//===- TransferQueues.cpp - Collectives beside computation ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/TransferQueues.h"

#include "core/Clock.h"
#include "core/Collective.h"
#include "core/Futex.h"
#include "core/Guard.h"
#include "core/Host.h"

#include <pthread.h>

#include <new>
#include <system_error>

namespace fsdp::rt {

namespace {

int64_t powerOfTwo(int64_t atLeast) {
  int64_t power = 1;
  while (power < atLeast)
    power *= 2;
  return power;
}

Status checkArguments(int64_t events, const std::vector<int32_t> &queues) {
  if (events < 1 || events > maxEvents)
    return Status::failed("expected 1 to " + std::to_string(maxEvents) +
                          " events of queues, got " + std::to_string(events));
  if (queues.empty())
    return Status::failed("expected a queue for " + std::to_string(events) +
                          " events, got none");
  for (size_t i = 0; i < queues.size(); ++i)
    if (!queueName(queues[i]) || (i > 0 && queues[i] <= queues[i - 1]))
      return Status::failed("expected increasing numbers of queues from 1 to " +
                            std::to_string(numQueues - 1) + ", got " +
                            std::to_string(queues[i]));
  return Status::ok();
}

} // namespace

Result<QueueThreads> parseQueueThreads(const std::string &text) {
  if (text == "auto")
    return QueueThreads::Auto;
  if (text == "off")
    return QueueThreads::Off;
  if (text == "on")
    return QueueThreads::On;
  return Status::failed("expected auto, off or on, got '" + text + "'");
}

QueueThreads decideQueueThreads(QueueThreads wish, bool hasLink,
                                int ranksOnHost, int threads) {
  if (wish != QueueThreads::Auto)
    return wish;
  bool hasIdleCores = int64_t(ranksOnHost) * threads < availableCores();
  return hasLink || hasIdleCores ? QueueThreads::On : QueueThreads::Off;
}

static Status
runParts(const fsdp_rt_start_desc &desc, World &world,
         const std::vector<std::unique_ptr<Communicator>> &communicators,
         const RankMemory &memory, ThreadPool *pool, TransferRecord &record) {
  if (isHostCopy(desc.kind)) {
    auto parts = static_cast<const fsdp_rt_host_copy_desc *const *>(desc.parts);
    for (int64_t i = 0; i < desc.part_count; ++i)
      runHostCopy(desc.kind, *parts[i], memory, pool);
    world.crossHostLink(desc.kind, record.bytes, record.begin);
    return Status::ok();
  }
  auto parts = static_cast<const fsdp_rt_collective_desc *const *>(desc.parts);
  Communicator &group = *communicators[parts[0]->group];
  int64_t waited = group.waitNanoseconds();
  Status status;
  group.beginTogether();
  for (int64_t i = 0; i < desc.part_count && status.isOk(); ++i)
    status = runCollective(desc.kind, *parts[i], group, memory.device);
  group.endTogether();
  record.waiting = group.waitNanoseconds() - waited;
  return status;
}

Status
runTransfers(const fsdp_rt_start_desc &desc, World &world,
             const std::vector<std::unique_ptr<Communicator>> &communicators,
             const RankMemory &memory, ThreadPool *pool,
             TransferRecord &record) {
  auto guard = static_cast<const fsdp_rt_guard_desc *>(desc.guard);
  if (guard)
    if (Status s = runGuardBefore(*guard, memory))
      return s;
  if (Status s = runParts(desc, world, communicators, memory, pool, record))
    return s;
  return guard ? runGuardBehind(*guard, memory) : Status::ok();
}

TransferQueues::TransferQueues(World &world, const RankMemory &memory,
                               const QueueOptions &options)
    : world_(world), memory_(memory), stepPool_(options.stepPool),
      spin_(options.spin), eventCount_(options.events),
      events_(std::make_unique<Event[]>(options.events)), laneOf_(numQueues) {}

Result<std::unique_ptr<TransferQueues>>
TransferQueues::create(World &world, const RankMemory &memory,
                       const QueueOptions &options) {
  if (Status s = checkArguments(options.events, options.queues))
    return s;
  std::unique_ptr<TransferQueues> made;
  try {
    made.reset(new TransferQueues(world, memory, options));
    if (Status s = made->openLanes(options))
      return s;
  } catch (const std::bad_alloc &) {
    return Status::failed("cannot reserve memory for " +
                          std::to_string(options.events) + " events of queues");
  }
  return made;
}

Result<TransferQueues::Lane *>
TransferQueues::openLane(const QueueOptions &options, bool communicates) {
  auto lane = std::make_unique<Lane>();
  if (hasThreads())
    lane->ring.resize(powerOfTwo(options.events));
  for (const std::vector<int> &ranks : options.groups) {
    if (!communicates)
      break;
    // A queue's thread does without those of the computation, which uses them
    // meanwhile.
    Result<std::unique_ptr<Communicator>> communicator =
        world_.createCommunicator(ranks, stepPool_);
    if (!communicator.isOk())
      return communicator.status();
    lane->communicators.push_back(std::move(*communicator));
  }
  lanes_.push_back(std::move(lane));
  return lanes_.back().get();
}

/// Copies need nobody else: they have no communicators.
Status TransferQueues::openLanes(const QueueOptions &options) {
  for (int32_t queue : options.queues) {
    bool communicates = isCollectiveQueue(queue);
    if (!hasThreads() && communicates && collectives_) {
      laneOf_[queue] = collectives_;
      continue;
    }
    Result<Lane *> lane = openLane(options, communicates);
    if (!lane.isOk())
      return lane.status();
    laneOf_[queue] = *lane;
    if (communicates && !collectives_)
      collectives_ = *lane;
  }
  return hasThreads() ? startThreads(options.queues) : Status::ok();
}

Status TransferQueues::startThreads(const std::vector<int32_t> &queues) {
  try {
    for (int32_t queue : queues) {
      Lane &lane = *laneOf_[queue];
      lane.thread = std::thread([this, &lane] { serve(lane); });
      // Names have at most 15 characters.
      std::string name = std::string("fsdp-") + queueName(queue);
      pthread_setname_np(lane.thread.native_handle(), name.c_str());
    }
  } catch (const std::system_error &error) {
    return Status::failed(std::string("cannot start the thread of a queue: ") +
                          error.what());
  }
  return Status::ok();
}

TransferQueues::~TransferQueues() {
  isEnding_.store(true);
  for (std::unique_ptr<Lane> &lane : lanes_) {
    ++lane->given;
    futexWakeAll(lane->given);
  }
  for (std::unique_ptr<Lane> &lane : lanes_)
    if (lane->thread.joinable())
      lane->thread.join();
}

//===----------------------------------------------------------------------===//
// The step's thread
//===----------------------------------------------------------------------===//

void TransferQueues::beginStep(uint32_t number) {
  step_ = number;
  started_ = waited_ = 0;
}

Status TransferQueues::start(const fsdp_rt_start_desc &desc, int64_t bytes) {
  Lane *lane = queueName(desc.queue) ? laneOf_[desc.queue] : nullptr;
  if (!lane)
    return Status::internal("expected a queue that the manifest names, got " +
                            std::to_string(desc.queue));
  if (!runsOn(desc.kind, desc.queue))
    return Status::internal(std::string("expected a queue of ") +
                            transferName(desc.kind) + ", got " +
                            queueName(desc.queue));
  auto isEvent = [&](int64_t event) {
    return event >= 0 && event < eventCount_;
  };
  if (!isEvent(desc.event))
    return Status::internal("expected an event below " +
                            std::to_string(eventCount_) + ", got " +
                            std::to_string(desc.event));
  Event &event = events_[desc.event];
  if (event.started == step_)
    return Status::internal("expected event " + std::to_string(desc.event) +
                            " to be started once in a step, got it twice");
  if (desc.after_count < 0 || desc.after_count > eventCount_ ||
      (!desc.after && desc.after_count > 0))
    return Status::internal("expected 0 to " + std::to_string(eventCount_) +
                            " events to be after, got " +
                            std::to_string(desc.after_count));
  auto after = static_cast<const int64_t *>(desc.after);
  for (int64_t i = 0; i < desc.after_count; ++i)
    if (!isEvent(after[i]) || events_[after[i]].started != step_)
      return Status::internal("expected to be after an event that this step "
                              "has started, got " +
                              std::to_string(after[i]));
  event.started = step_;
  event.record.desc = &desc;
  event.record.bytes = bytes;
  event.record.given = nowNanoseconds();
  ++started_;
  if (!hasThreads()) {
    perform(*lane, desc);
    return Status::ok();
  }
  // No more than there are events can be under way, so that there is room.
  uint32_t given = lane->given.load(std::memory_order_relaxed);
  lane->ring[given & (lane->ring.size() - 1)] = &desc;
  // Sequentially consistent, as is `isAsleep`: a thread that goes to sleep
  // either sees the transfer or is seen asleep.
  lane->given.store(given + 1);
  if (lane->isAsleep.load())
    futexWakeAll(lane->given);
  return Status::ok();
}

Result<TransferRecord> TransferQueues::wait(int64_t event, bool &isFirst) {
  if (event < 0 || event >= eventCount_ || events_[event].started != step_)
    return Status::internal(
        "expected an event that this step has started, got " +
        std::to_string(event));
  Event &it = events_[event];
  waitFor(it, step_);
  isFirst = it.waited != step_;
  waited_ += isFirst;
  it.waited = step_;
  return it.record;
}

Status TransferQueues::endStep() {
  if (started_ == waited_)
    return Status::ok();
  const fsdp_rt_start_desc *missed = nullptr;
  for (int64_t i = 0; i < eventCount_; ++i) {
    Event &event = events_[i];
    if (event.started != step_ || event.waited == step_)
      continue;
    waitFor(event, step_);
    if (!missed)
      missed = event.record.desc;
  }
  return Status::internal(
      "expected the step to wait for all " + std::to_string(started_) +
      " transfers that it started, got no wait for '" +
      (missed && missed->name ? missed->name : "") + "', event " +
      std::to_string(missed ? missed->event : -1));
}

void TransferQueues::cancel(const Status &why) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.isOk())
      failure_ = why;
  }
  hasFailed_.store(true, std::memory_order_release);
  for (int64_t i = 0; i < eventCount_; ++i)
    if (events_[i].started == step_)
      waitFor(events_[i], step_);
}

Status TransferQueues::failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

//===----------------------------------------------------------------------===//
// All threads
//===----------------------------------------------------------------------===//

void TransferQueues::waitFor(Event &event, uint32_t step) {
  if (waitBriefly(spin_, [&] {
        return event.step.load(std::memory_order_acquire) == step;
      }))
    return;
  ++event.sleepers;
  for (uint32_t now = event.step.load(); now != step; now = event.step.load())
    futexWait(event.step, now);
  --event.sleepers;
}

void TransferQueues::fail(const Status &status) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.isOk())
      failure_ = status;
  }
  hasFailed_.store(true, std::memory_order_release);
  // Now: the step may be far from its next call, or wait for a transfer that
  // other ranks will not come to.
  world_.abort(status);
}

//===----------------------------------------------------------------------===//
// The queues' threads
//===----------------------------------------------------------------------===//

void TransferQueues::serve(Lane &lane) {
  for (uint32_t done = 0;; ++done) {
    auto hasWork = [&] {
      return lane.given.load(std::memory_order_acquire) != done;
    };
    // Without a core of its own it sleeps at once: most waits are long.
    if (!(spin_ ? waitBriefly(spin_, hasWork) : hasWork())) {
      lane.isAsleep.store(true);
      while (lane.given.load() == done)
        futexWait(lane.given, done);
      lane.isAsleep.store(false);
    }
    // Nothing has been given out that is not done when the end begins.
    if (isEnding_.load())
      return;
    perform(lane, *lane.ring[done & (lane.ring.size() - 1)]);
  }
}

void TransferQueues::perform(Lane &lane, const fsdp_rt_start_desc &desc) {
  uint32_t step = step_;
  auto after = static_cast<const int64_t *>(desc.after);
  for (int64_t i = 0; i < desc.after_count; ++i)
    waitFor(events_[after[i]], step);
  Event &event = events_[desc.event];
  event.record.begin = nowNanoseconds();
  event.record.waiting = 0;
  if (!hasFailed())
    if (Status status = runTransfers(desc, world_, lane.communicators, memory_,
                                     stepPool_, event.record))
      fail(status);
  event.record.end = nowNanoseconds();
  event.step.store(step);
  if (event.sleepers.load() > 0)
    futexWakeAll(event.step);
}

} // namespace fsdp::rt
