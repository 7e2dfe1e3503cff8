//===- ThreadPool.h - A rank's own threads ----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fork and join over a range, cut into contiguous parts of equal size that
// depend on nothing but the range, the grain and the number of threads.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_THREADPOOL_H
#define FSDP_RT_CORE_THREADPOOL_H

#include "core/Status.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace fsdp::rt {

class ThreadPool {
public:
  /// Handles [begin, end) as thread `thread`, 0 <= thread < threads().
  using Body = void (*)(void *data, int thread, int64_t begin, int64_t end);

  ThreadPool() = default;
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  /// Starts `threads - 1` workers; the caller of run() is thread 0. With
  /// `spin`, idle threads burn a few tens of microseconds before they sleep:
  /// wanted only where every thread of every rank has a core of its own.
  /// Fails where the system has no more threads. Call once.
  Status start(int threads, bool spin);

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body on at most threads() threads with disjoint parts of
  /// [0, size), each of at least `grain` items (all of them where there are
  /// fewer), and returns when all are done. Never allocates. One run at a
  /// time, from one thread at a time; not from within a body.
  void run(int64_t size, int64_t grain, Body body, void *data);

  /// The same for a callable (thread, begin, end).
  template <typename Fn>
  void parallelFor(int64_t size, int64_t grain, Fn &fn) {
    run(
        size, grain,
        [](void *data, int thread, int64_t begin, int64_t end) {
          (*static_cast<Fn *>(data))(thread, begin, end);
        },
        &fn);
  }

private:
  struct alignas(64) Worker {
    /// Number of the run to take part in; the worker sleeps on it.
    std::atomic<uint32_t> ticket{0};
    std::atomic<bool> asleep{false};
    std::thread thread;
  };

  void work(int index);
  void runPart(int thread) const;

  std::vector<std::unique_ptr<Worker>> workers_;
  bool spin_ = false;
  bool stop_ = false;
  uint32_t run_ = 0;
  Body body_ = nullptr;
  void *data_ = nullptr;
  int64_t size_ = 0;
  int parts_ = 1;
  alignas(64) std::atomic<uint32_t> pending_{0};
  std::atomic<bool> callerAsleep_{false};
};

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_THREADPOOL_H
