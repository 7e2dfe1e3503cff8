//===- ThreadPool.cpp - A rank's own threads ------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/ThreadPool.h"

#include "core/Futex.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>

namespace fsdp::rt {

Status ThreadPool::start(int threads, bool spin) {
  if (threads < 1)
    return Status::failed("expected at least 1 thread, got " +
                          std::to_string(threads));
  spin_ = spin;
  for (int i = 1; i < threads; ++i)
    workers_.push_back(std::make_unique<Worker>());
  try {
    for (int i = 1; i < threads; ++i) {
      std::thread &thread = workers_[i - 1]->thread;
      thread = std::thread([this, i] { work(i); });
      pthread_setname_np(thread.native_handle(), "fsdp-worker");
    }
  } catch (const std::system_error &error) {
    return Status::failed("cannot start " + std::to_string(threads) +
                          " threads: " + error.what());
  }
  return Status::ok();
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  ++run_;
  for (std::unique_ptr<Worker> &worker : workers_) {
    worker->ticket.store(run_);
    futexWakeAll(worker->ticket);
  }
  for (std::unique_ptr<Worker> &worker : workers_)
    if (worker->thread.joinable())
      worker->thread.join();
}

void ThreadPool::runPart(int thread) const {
  int64_t quotient = size_ / parts_, remainder = size_ % parts_;
  int64_t begin = quotient * thread + std::min<int64_t>(thread, remainder);
  body_(data_, thread, begin, begin + quotient + (thread < remainder));
}

void ThreadPool::run(int64_t size, int64_t grain, Body body, void *data) {
  if (size <= 0)
    return;
  int64_t parts = size / std::max<int64_t>(grain, 1);
  parts = std::min<int64_t>(parts, threads());
  if (parts <= 1) {
    body(data, 0, 0, size);
    return;
  }
  size_ = size;
  parts_ = static_cast<int>(parts);
  body_ = body;
  data_ = data;
  pending_.store(parts_ - 1, std::memory_order_relaxed);
  ++run_;
  // The stores and loads of `ticket` and `asleep` are sequentially consistent:
  // a worker that goes to sleep either sees the ticket or is seen asleep.
  for (int i = 0; i < parts_ - 1; ++i) {
    Worker &worker = *workers_[i];
    worker.ticket.store(run_);
    if (worker.asleep.load())
      futexWakeAll(worker.ticket);
  }
  runPart(0);

  auto isDone = [&] { return pending_.load(std::memory_order_acquire) == 0; };
  if (spin_ ? waitBriefly(spin_, isDone) : isDone())
    return;
  callerAsleep_.store(true);
  for (uint32_t left = pending_.load(); left != 0; left = pending_.load())
    futexWait(pending_, left);
  callerAsleep_.store(false);
}

void ThreadPool::work(int index) {
  Worker &self = *workers_[index - 1];
  uint32_t seen = 0;
  while (true) {
    auto hasWork = [&] {
      return self.ticket.load(std::memory_order_acquire) != seen;
    };
    if (!(spin_ ? waitBriefly(spin_, hasWork) : hasWork())) {
      self.asleep.store(true);
      while (self.ticket.load() == seen)
        futexWait(self.ticket, seen);
      self.asleep.store(false);
    }
    seen = self.ticket.load(std::memory_order_acquire);
    if (stop_)
      return;
    runPart(index);
    if (pending_.fetch_sub(1) == 1 && callerAsleep_.load())
      futexWakeAll(pending_);
  }
}

} // namespace fsdp::rt
