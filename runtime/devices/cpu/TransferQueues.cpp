//===- TransferQueues.cpp - Collectives beside computation ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cpu/TransferQueues.h"

#include "core/Clock.h"
#include "core/Futex.h"
#include "core/Host.h"
#include "hal/Transfers.h"

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

} // namespace

QueueThreads decideQueueThreads(QueueThreads wish, bool hasLink,
                                int ranksOnHost, int threads) {
  if (wish != QueueThreads::Auto)
    return wish;
  bool hasIdleCores = int64_t(ranksOnHost) * threads < availableCores();
  return hasLink || hasIdleCores ? QueueThreads::On : QueueThreads::Off;
}

TransferQueues::TransferQueues(World &world, const RankMemory &memory,
                               const hal::Layout &layout, ThreadPool *pool,
                               bool spin)
    : world_(world), memory_(memory), layout_(layout), pool_(pool), spin_(spin),
      events_(std::make_unique<Event[]>(layout.events)), laneOf_(numQueues) {}

Result<std::unique_ptr<TransferQueues>>
TransferQueues::create(World &world, const RankMemory &memory,
                       const hal::Layout &layout, ThreadPool *pool, bool spin) {
  std::unique_ptr<TransferQueues> made;
  try {
    made.reset(new TransferQueues(world, memory, layout, pool, spin));
    made->openLanes();
    if (made->hasThreads())
      if (Status s = made->startThreads())
        return s;
  } catch (const std::bad_alloc &) {
    return Status::failed("cannot reserve memory for " +
                          std::to_string(layout.events) + " events of queues");
  }
  return made;
}

void TransferQueues::openLanes() {
  for (int32_t queue : layout_.queues) {
    if (!hasThreads() && !lanes_.empty()) {
      laneOf_[queue] = lanes_[0].get();
      continue;
    }
    auto lane = std::make_unique<Lane>();
    if (hasThreads())
      lane->ring.resize(powerOfTwo(layout_.events));
    laneOf_[queue] = lane.get();
    lanes_.push_back(std::move(lane));
  }
}

Status TransferQueues::open(const fsdp_rt_start_desc &desc) {
  // A queue's thread does without those of the computation, which uses them
  // meanwhile.
  return openChannelFor(desc, world_, layout_.groups, pool_,
                        laneOf_[desc.queue]->channels);
}

Status TransferQueues::startThreads() {
  try {
    for (int32_t queue : layout_.queues) {
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
// The rank's thread
//===----------------------------------------------------------------------===//

void TransferQueues::beginRun(uint32_t number) { run_ = number; }

void TransferQueues::start(const fsdp_rt_start_desc &desc, int64_t bytes) {
  Lane &lane = *laneOf_[desc.queue];
  Event &event = events_[desc.event];
  event.started = run_;
  event.record.desc = &desc;
  event.record.bytes = bytes;
  event.record.given = nowNanoseconds();
  if (!hasThreads()) {
    perform(lane, desc);
    return;
  }
  // No more than there are events can be under way, so that there is room.
  uint32_t given = lane.given.load(std::memory_order_relaxed);
  lane.ring[given & (lane.ring.size() - 1)] = &desc;
  // Sequentially consistent, as is `isAsleep`: a thread that goes to sleep
  // either sees the transfer or is seen asleep.
  lane.given.store(given + 1);
  if (lane.isAsleep.load())
    futexWakeAll(lane.given);
}

const TransferRecord &TransferQueues::wait(int64_t number, bool &isFirst) {
  Event &event = events_[number];
  waitFor(event, run_);
  isFirst = event.awaited != run_;
  event.awaited = run_;
  return event.record;
}

void TransferQueues::cancel(const Status &why) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.isOk())
      failure_ = why;
  }
  hasFailed_.store(true, std::memory_order_release);
  for (int64_t i = 0; i < layout_.events; ++i)
    if (events_[i].started == run_)
      waitFor(events_[i], run_);
}

Status TransferQueues::failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

//===----------------------------------------------------------------------===//
// All threads
//===----------------------------------------------------------------------===//

void TransferQueues::waitFor(Event &event, uint32_t run) {
  if (waitBriefly(spin_, [&] {
        return event.run.load(std::memory_order_acquire) == run;
      }))
    return;
  ++event.sleepers;
  for (uint32_t now = event.run.load(); now != run; now = event.run.load())
    futexWait(event.run, now);
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
  uint32_t run = run_;
  auto after = static_cast<const int64_t *>(desc.after);
  for (int64_t i = 0; i < desc.after_count; ++i)
    waitFor(events_[after[i]], run);
  Event &event = events_[desc.event];
  event.record.begin = nowNanoseconds();
  event.record.waiting = 0;
  if (!hasFailed())
    if (Status status = runTransfers(desc, world_, lane.channels, memory_,
                                     pool_, event.record))
      fail(status);
  event.record.end = nowNanoseconds();
  event.run.store(run);
  if (event.sleepers.load() > 0)
    futexWakeAll(event.run);
}

} // namespace fsdp::rt
