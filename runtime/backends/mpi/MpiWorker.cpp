//===- MpiWorker.cpp - The thread that calls MPI --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiWorker.h"

#include "core/Futex.h"

#include <pthread.h>

#include <system_error>

namespace fsdp::rt {

Status MpiWorker::start() {
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error &error) {
    return Status::failed(std::string("cannot start the communication "
                                      "thread: ") +
                          error.what());
  }
  pthread_setname_np(thread_.native_handle(), "fsdp-comm");
  return Status::ok();
}

MpiWorker::~MpiWorker() {
  if (!thread_.joinable())
    return;
  stop_.store(true);
  ++word_;
  futexWakeAll(word_);
  thread_.join();
}

void MpiWorker::execute(Job &job) {
  std::lock_guard<std::mutex> lock(mutex_);
  uint32_t before = done_.load();
  job_.store(&job);
  ++word_;
  futexWakeAll(word_);
  // No spinning: the communication thread may need this very core.
  while (done_.load() == before)
    futexWait(done_, before);
}

void MpiWorker::requestAbort(const Status &why) {
  engine_.requestAbort(why);
  // A wait that is going on sees it; an idle thread has to be told.
  auto look = [](MpiEngine &engine) { (void)engine.hasFailed(); };
  run(look);
}

void MpiWorker::work() {
  while (true) {
    uint32_t word = word_.load();
    Job *job = job_.exchange(nullptr);
    if (!job) {
      if (stop_.load())
        return;
      futexWait(word_, word);
      continue;
    }
    job->function(job->data, engine_);
    ++done_;
    futexWakeAll(done_);
  }
}

} // namespace fsdp::rt
