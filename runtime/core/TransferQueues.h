//===- TransferQueues.h - Collectives beside computation --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A queue is an order in which transfers run, and a thread that runs them. One
// thread, that of the step, gives out transfers and waits for their events; an
// event holds the number of the step that completed it, so that nothing is
// reset between steps. Everything is reserved at the start.
//
// Where every core computes and transfers only copy memory, threads of queues
// gain nothing and take cores from the computation. There the step's thread
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

#ifndef FSDP_RT_CORE_TRANSFERQUEUES_H
#define FSDP_RT_CORE_TRANSFERQUEUES_H

#include "core/Backend.h"
#include "core/HostCopy.h"
#include "core/Status.h"
#include "fsdp-rt/abi.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace fsdp::rt {

/// Events of a program, at most.
constexpr int64_t maxEvents = 1 << 20;

/// Whether queues have threads. Auto: where that can gain something.
enum class QueueThreads { Auto, Off, On };

/// "auto", "off" and "on".
Result<QueueThreads> parseQueueThreads(const std::string &text);

/// What Auto stands for with so many ranks on this host, of so many threads of
/// their own. Off where they need all cores and so would the transfers.
QueueThreads decideQueueThreads(QueueThreads wish, bool hasLink,
                                int ranksOnHost, int threads);

struct QueueOptions {
  int64_t events = 0;
  /// fsdp_rt_queue, increasing.
  std::vector<int32_t> queues;
  /// By ranks of the world.
  std::vector<std::vector<int>> groups;
  /// Where given, transfers run in start(), and copy and add on these threads.
  /// Otherwise each queue has a thread.
  ThreadPool *stepPool = nullptr;
  /// Waits burn a few tens of microseconds before they sleep.
  bool spin = false;
};

/// What became of one transfer.
struct TransferRecord {
  const fsdp_rt_start_desc *desc = nullptr;
  /// All its parts: TransferCounter's bytes.
  int64_t bytes = 0;
  /// When the step gave it out and when it ran, in nowNanoseconds(), and how
  /// much of that was waiting for other ranks.
  int64_t given = 0, begin = 0, end = 0, waiting = 0;
};

/// Runs the transfers of `desc`, which Context has checked, inside the start's
/// guard, if it has one. Collectives use `communicators`, by group; copies take
/// as long as a link of World::crossHostLink() for record.bytes from
/// record.begin on. Both copy and add on `pool`, where given. Sets
/// record.waiting.
Status
runTransfers(const fsdp_rt_start_desc &desc, World &world,
             const std::vector<std::unique_ptr<Communicator>> &communicators,
             const RankMemory &memory, ThreadPool *pool,
             TransferRecord &record);

class TransferQueues {
public:
  /// Starts a thread for each of the queues, those of collectives with a
  /// communicator for each of the groups. Collective, as createCommunicator()
  /// is. `world`, the memory and the pool must outlive the queues.
  static Result<std::unique_ptr<TransferQueues>>
  create(World &world, const RankMemory &memory, const QueueOptions &options);
  /// Ends the threads. No transfer may be under way.
  ~TransferQueues();
  TransferQueues(const TransferQueues &) = delete;
  TransferQueues &operator=(const TransferQueues &) = delete;

  /// The collectives of the world's group with this index; only to ask for its
  /// size and this rank's place in it. Null where no queue runs collectives.
  const Communicator *group(int index) const {
    return collectives_ ? collectives_->communicators[index].get() : nullptr;
  }

  /// All of the following: on the thread of the step.

  /// From here on events are those of step `number`, above the one before.
  void beginStep(uint32_t number);
  /// Hands over a transfer whose parts can be run (checkCollective,
  /// checkHostCopy) and move `bytes`; refuses wrong queues and events. `desc`
  /// must live until its event is complete. Without threads it is complete on
  /// return.
  Status start(const fsdp_rt_start_desc &desc, int64_t bytes);
  bool hasThreads() const { return !stepPool_; }
  /// Of a transfer that is complete.
  const TransferRecord &record(int64_t event) const {
    return events_[event].record;
  }
  /// Waits for an event that this step has started. `isFirst`: no call of this
  /// step has waited for it before.
  Result<TransferRecord> wait(int64_t event, bool &isFirst);
  /// That all events that were started were waited for. Where they were not,
  /// this fails once they are complete.
  Status endStep();
  /// Runs no more transfers, because of `why`, and returns when none is under
  /// way. World::abort must have been called.
  void cancel(const Status &why);

  /// Whether a transfer failed.
  bool hasFailed() const { return hasFailed_.load(std::memory_order_acquire); }
  /// The first failure.
  Status failure() const;

private:
  struct alignas(64) Event {
    /// The step that completed it.
    std::atomic<uint32_t> step{0};
    std::atomic<uint32_t> sleepers{0};
    /// Of the step's thread: when it was started and waited for last.
    uint32_t started = 0, waited = 0;
    /// Its times are written before `step`, and read after it.
    TransferRecord record;
  };

  /// A thread and what was given to it.
  struct alignas(64) Lane {
    std::vector<std::unique_ptr<Communicator>> communicators;
    /// As many as there can be in a step, rounded up to a power of two. Not
    /// used without a thread.
    std::vector<const fsdp_rt_start_desc *> ring;
    std::thread thread;
    /// Transfers given out so far; the thread sleeps on it.
    alignas(64) std::atomic<uint32_t> given{0};
    std::atomic<bool> isAsleep{false};
  };

  TransferQueues(World &world, const RankMemory &memory,
                 const QueueOptions &options);
  Status openLanes(const QueueOptions &options);
  Result<Lane *> openLane(const QueueOptions &options, bool communicates);
  Status startThreads(const std::vector<int32_t> &queues);
  void serve(Lane &lane);
  void perform(Lane &lane, const fsdp_rt_start_desc &desc);
  void waitFor(Event &event, uint32_t step);
  void fail(const Status &status);

  World &world_;
  RankMemory memory_;
  ThreadPool *stepPool_;
  bool spin_;
  int64_t eventCount_;
  std::unique_ptr<Event[]> events_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  /// By fsdp_rt_queue; null where the program has none.
  std::vector<Lane *> laneOf_;
  /// One of those that have communicators; null where none has.
  Lane *collectives_ = nullptr;
  std::atomic<bool> isEnding_{false};

  /// Written by the step's thread before it gives out transfers.
  uint32_t step_ = 0;
  int64_t started_ = 0, waited_ = 0; // in this step

  std::atomic<bool> hasFailed_{false};
  mutable std::mutex mutex_;
  Status failure_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_TRANSFERQUEUES_H
