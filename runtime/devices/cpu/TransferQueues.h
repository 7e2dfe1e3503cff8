//===- TransferQueues.h - Collectives beside computation --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A queue is an order in which transfers run, and a thread that runs them. One
// thread, the rank's, gives out transfers and waits for their events; an event
// holds the number of the run that completed it, so that nothing is reset
// between runs. Everything is reserved at the start.
//
// Where every core computes and transfers only copy memory, threads of queues
// gain nothing and take cores from the computation. There the rank's thread
// runs each transfer in its start, which is the earliest of the moments at
// which a queue may run it. All transfers of a rank are then in the order of
// the program, as on every other rank, so that none waits for one behind it.
//
// A transfer that fails completes its event all the same, and so does each that
// is given out afterwards, without being run: whoever waits for an event comes
// back and then asks failure(). A transfer that waits for other ranks ends
// because a failure is reported to World::abort at once.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CPU_TRANSFERQUEUES_H
#define FSDP_RT_DEVICES_CPU_TRANSFERQUEUES_H

#include "core/Status.h"
#include "devices/cpu/RunTransfers.h"
#include "fsdp-rt/abi.h"
#include "hal/Layout.h"
#include "hal/World.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fsdp::rt {

/// Whether queues have threads, in the order of the setting's values. Auto:
/// where that can gain something.
enum class QueueThreads { Auto, Off, On };

/// What Auto stands for with so many ranks on this host, of so many threads of
/// their own. Off where they need all cores and so would the transfers.
QueueThreads decideQueueThreads(QueueThreads wish, bool hasLink,
                                int ranksOnHost, int threads);

class TransferQueues {
public:
  /// Starts a thread for each of the layout's queues, unless transfers run in
  /// start(), on the threads of `pool`. `spin`: waits burn a few tens of
  /// microseconds before they sleep. World, memory, layout and pool must
  /// outlive the queues.
  static Result<std::unique_ptr<TransferQueues>>
  create(World &world, const RankMemory &memory, const hal::Layout &layout,
         ThreadPool *pool, bool spin);
  /// Ends the threads. No transfer may be under way.
  ~TransferQueues();
  TransferQueues(const TransferQueues &) = delete;
  TransferQueues &operator=(const TransferQueues &) = delete;

  /// All of the following: on the rank's thread, of starts and waits that were
  /// recorded for this layout.

  /// Opens the channel that `desc` needs. Collective over its group.
  Status open(const fsdp_rt_start_desc &desc);
  /// From here on events are those of run `number`, above the one before.
  void beginRun(uint32_t number);
  /// Hands over transfers that move `bytes`. `desc` must live until its event
  /// is complete. Without threads it is complete on return.
  void start(const fsdp_rt_start_desc &desc, int64_t bytes);
  bool hasThreads() const { return !pool_; }
  /// Of a transfer that is complete.
  const TransferRecord &record(int64_t event) const {
    return events_[event].record;
  }
  /// Waits for an event that this run has started. `isFirst`: no call of this
  /// run has waited for it before.
  const TransferRecord &wait(int64_t event, bool &isFirst);
  /// Runs no more transfers, because of `why`, and returns when none is under
  /// way. World::abort must have been called.
  void cancel(const Status &why);

  /// Whether a transfer failed.
  bool hasFailed() const { return hasFailed_.load(std::memory_order_acquire); }
  /// The first failure.
  Status failure() const;

private:
  struct alignas(64) Event {
    /// The run that completed it.
    std::atomic<uint32_t> run{0};
    std::atomic<uint32_t> sleepers{0};
    /// Of the rank's thread: the runs that started and awaited it last.
    uint32_t started = 0, awaited = 0;
    /// Its times are written before `run`, and read after it.
    TransferRecord record;
  };

  /// A thread and what was given to it.
  struct alignas(64) Lane {
    HostChannels channels;
    /// As many as there can be in a run, rounded up to a power of two. Not
    /// used without a thread.
    std::vector<const fsdp_rt_start_desc *> ring;
    std::thread thread;
    /// Transfers given out so far; the thread sleeps on it.
    alignas(64) std::atomic<uint32_t> given{0};
    std::atomic<bool> isAsleep{false};
  };

  TransferQueues(World &world, const RankMemory &memory,
                 const hal::Layout &layout, ThreadPool *pool, bool spin);
  void openLanes();
  Status startThreads();
  void serve(Lane &lane);
  void perform(Lane &lane, const fsdp_rt_start_desc &desc);
  void waitFor(Event &event, uint32_t run);
  void fail(const Status &status);

  World &world_;
  RankMemory memory_;
  const hal::Layout &layout_;
  ThreadPool *pool_;
  bool spin_;
  std::unique_ptr<Event[]> events_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  /// By fsdp_rt_queue; null where the layout has none.
  std::vector<Lane *> laneOf_;
  std::atomic<bool> isEnding_{false};

  /// Written by the rank's thread before it gives out transfers.
  uint32_t run_ = 0;

  std::atomic<bool> hasFailed_{false};
  mutable std::mutex mutex_;
  Status failure_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CPU_TRANSFERQUEUES_H
