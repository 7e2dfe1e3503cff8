//===- MpiWorker.h - The thread that calls MPI ------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_MPI_MPIWORKER_H
#define FSDP_RT_CHANNELS_MPI_MPIWORKER_H

#include "MpiEngine.h"

#include <atomic>
#include <cstdint>
#include <thread>

namespace fsdp::rt {

/// What the communication thread does for another one, piece by piece.
class MpiJob {
public:
  /// Waiting: nothing could be done. Moved: something was, and more can be.
  enum class Progress { Waiting, Moved, Done };

  virtual ~MpiJob() = default;
  /// Does what can be done without waiting for other ranks.
  virtual Progress advance(MpiEngine &engine) = 0;

private:
  friend class MpiWorker;
  MpiJob *next_ = nullptr;
  std::atomic<bool> isDone_{false};
};

/// The communication thread. Jobs of several threads take turns on it: one that
/// waits for other ranks keeps none of the others, so that ranks may come to
/// jobs in different orders.
class MpiWorker {
public:
  /// `waitLimit`: World::waitLimit.
  MpiWorker(const MpiLibrary &library, int64_t waitLimit)
      : engine_(library), waitLimit_(waitLimit) {}
  ~MpiWorker();
  MpiWorker(const MpiWorker &) = delete;
  MpiWorker &operator=(const MpiWorker &) = delete;

  /// Starts the thread. Fails where the system has none left.
  Status start();

  /// Returns when the job is done. From any thread; allocates nothing.
  void execute(MpiJob &job);

  /// Runs `work(engine)` at once, the other jobs waiting.
  template <typename Work>
  void run(Work &work) {
    struct Call final : MpiJob {
      explicit Call(Work &work) : work(work) {}
      Progress advance(MpiEngine &engine) override {
        work(engine);
        return Progress::Done;
      }
      Work &work;
    } call(work);
    execute(call);
  }

  /// Makes the program fail. From any thread, whatever runs meanwhile.
  void requestAbort(const Status &why);

private:
  void work();
  bool takeJobs(MpiJob *&jobs);
  bool advance(MpiJob *&jobs);

  MpiEngine engine_;
  int64_t waitLimit_;
  std::thread thread_;
  /// Handed over and not yet taken, the last one first.
  std::atomic<MpiJob *> given_{nullptr};
  std::atomic<bool> stop_{false};
  /// Changes with every job; the thread sleeps on it when it has none.
  std::atomic<uint32_t> word_{0};
  /// Jobs done; callers sleep on it.
  std::atomic<uint32_t> done_{0};
};

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_MPI_MPIWORKER_H
