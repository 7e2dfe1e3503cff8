//===- MpiWorker.h - The thread that calls MPI ------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_BACKENDS_MPI_MPIWORKER_H
#define FSDP_RT_BACKENDS_MPI_MPIWORKER_H

#include "MpiEngine.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

namespace fsdp::rt {

/// Runs calls on the communication thread, one after the other.
class MpiWorker {
public:
  explicit MpiWorker(const MpiLibrary &library) : engine_(library) {}
  ~MpiWorker();
  MpiWorker(const MpiWorker &) = delete;
  MpiWorker &operator=(const MpiWorker &) = delete;

  /// Starts the thread. Fails where the system has none left.
  Status start();

  /// Runs `work(engine)` on the thread and returns when it is done. From any
  /// thread; allocates nothing itself.
  template <typename Work>
  void run(Work &work) {
    Job job;
    job.function = [](void *data, MpiEngine &engine) {
      (*static_cast<Work *>(data))(engine);
    };
    job.data = &work;
    execute(job);
  }

  /// Makes the program fail. From any thread, whatever runs meanwhile.
  void requestAbort(const Status &why);

private:
  struct Job {
    void (*function)(void *data, MpiEngine &engine) = nullptr;
    void *data = nullptr;
  };

  void execute(Job &job);
  void work();

  MpiEngine engine_;
  std::thread thread_;
  /// One job at a time.
  std::mutex mutex_;
  std::atomic<Job *> job_{nullptr};
  std::atomic<bool> stop_{false};
  /// Changes with every job; the thread sleeps on it.
  std::atomic<uint32_t> word_{0};
  /// Jobs done; the caller sleeps on it.
  std::atomic<uint32_t> done_{0};
};

} // namespace fsdp::rt

#endif // FSDP_RT_BACKENDS_MPI_MPIWORKER_H
