//===- MpiWorker.cpp - The thread that calls MPI --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiWorker.h"

#include "core/Clock.h"
#include "core/Futex.h"
#include "core/WaitLimit.h"

#include <pthread.h>

#include <string>
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

void MpiWorker::execute(MpiJob &job) {
  job.next_ = given_.load();
  while (!given_.compare_exchange_weak(job.next_, &job)) {
  }
  ++word_;
  futexWakeAll(word_);
  // No spinning: the communication thread may need this very core.
  for (uint32_t seen = done_.load(); !job.isDone_.load(); seen = done_.load())
    futexWait(done_, seen);
}

void MpiWorker::requestAbort(const Status &why) {
  engine_.requestAbort(why);
  // A wait that is going on sees it; an idle thread has to be told.
  auto look = [](MpiEngine &engine) { (void)engine.hasFailed(); };
  run(look);
}

/// Appends what has been given to `jobs`; whether there was any.
bool MpiWorker::takeJobs(MpiJob *&jobs) {
  MpiJob *given = given_.exchange(nullptr), *inOrder = nullptr;
  if (!given)
    return false;
  while (given) {
    MpiJob *next = given->next_;
    given->next_ = inOrder;
    inOrder = given;
    given = next;
  }
  MpiJob **end = &jobs;
  while (*end)
    end = &(*end)->next_;
  *end = inOrder;
  return true;
}

/// Gives each job its turn; whether one of them moved.
bool MpiWorker::advance(MpiJob *&jobs) {
  bool hasMoved = false;
  for (MpiJob **at = &jobs; *at;) {
    MpiJob &job = **at;
    MpiJob::Progress progress = job.advance(engine_);
    hasMoved |= progress != MpiJob::Progress::Waiting;
    if (progress != MpiJob::Progress::Done) {
      at = &job.next_;
      continue;
    }
    *at = job.next_;
    // The job goes away as soon as its caller sees this.
    job.isDone_.store(true);
    ++done_;
    futexWakeAll(done_);
  }
  return hasMoved;
}

void MpiWorker::work() {
  constexpr int turnsPerListen = 16;
  MpiJob *jobs = nullptr;
  int64_t turns = 0, start = 0; // since a job was new or moved
  WaitLimit limit(waitLimit_);
  bool hasMoved = true;
  while (true) {
    uint32_t word = word_.load();
    if (takeJobs(jobs) || hasMoved) {
      turns = 0;
      start = nowNanoseconds();
      limit.restart();
    }
    if (!jobs) {
      if (stop_.load())
        return;
      futexWait(word_, word);
      continue;
    }
    if (limit.isExceeded())
      engine_.requestAbort(
          limit.failure("other ranks to go on in a collective in which rank " +
                            std::to_string(engine_.rank()) + " waits",
                        "no message of them"));
    if (turns % turnsPerListen == 0 && engine_.isUp())
      (void)engine_.hasFailed();
    hasMoved = advance(jobs);
    if (!hasMoved)
      engine_.pause(turns, start);
  }
}

} // namespace fsdp::rt
