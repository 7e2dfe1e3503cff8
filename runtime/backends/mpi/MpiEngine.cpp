//===- MpiEngine.cpp - Messages between ranks -----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiEngine.h"

#include "core/Clock.h"
#include "core/Futex.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <thread>

namespace fsdp::rt {

namespace {

constexpr int tag = 1;
constexpr int64_t microsecond = 1000, millisecond = 1000 * microsecond;

std::string prefixed(int origin, const std::string &text) {
  return "rank " + std::to_string(origin) + ": " + text;
}

Status statusOf(int32_t code, std::string text) {
  return code == static_cast<int32_t>(Code::Internal)
             ? Status::internal(std::move(text))
             : Status::failed(std::move(text));
}

} // namespace

Status MpiEngine::init(bool spin, int64_t grace, bool launcherEndsJob) {
  launcherEndsJob_ = launcherEndsJob;
  spin_ = spin;
  grace_ = grace;
  // Sleeping for microseconds needs a timer that is not rounded up to fifty.
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  int provided = 0;
  if (int error =
          mpi_.Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided))
    return mpi_.failure("MPI_Init_thread", error);
  if (provided < MPI_THREAD_FUNNELED)
    return Status::failed("expected an MPI that allows threads, got level " +
                          std::to_string(provided));
  for (MPI_Comm *comm : {&data_, &packets_, &notices_}) {
    if (int error = mpi_.Comm_dup(mpi_.world, comm))
      return mpi_.failure("MPI_Comm_dup", error);
    if (int error = mpi_.Comm_set_errhandler(*comm, mpi_.errorsReturn))
      return mpi_.failure("MPI_Comm_set_errhandler", error);
  }
  if (int error = mpi_.Comm_rank(data_, &rank_))
    return mpi_.failure("MPI_Comm_rank", error);
  if (int error = mpi_.Comm_size(data_, &size_))
    return mpi_.failure("MPI_Comm_size", error);
  announcements_.reserve(size_);
  ends_.resize(size_);
  startListening();
  return Status::ok();
}

void MpiEngine::finalize() {
  // After a failure MPI_Finalize may wait for what never comes. The reason has
  // been told by then, so that ending the process loses nothing.
  std::mutex mutex;
  std::condition_variable isOver;
  bool hasEnded = false;
  std::thread watchdog;
  if (!failure_.isOk())
    watchdog = std::thread([&] {
      std::unique_lock<std::mutex> lock(mutex);
      if (!isOver.wait_for(lock, std::chrono::nanoseconds(grace_),
                           [&] { return hasEnded; }))
        _exit(static_cast<int>(failure_.code()));
    });
  RequestSet listening;
  listening.reserve(1);
  listening.handles[0] = listening_;
  listening.isReceive[0] = true;
  listening.count = 1;
  abandon(listening, 0);
  for (MPI_Comm *comm : {&data_, &packets_, &notices_})
    mpi_.Comm_free(comm);
  mpi_.Finalize();
  if (!watchdog.joinable())
    return;
  {
    std::lock_guard<std::mutex> lock(mutex);
    hasEnded = true;
  }
  isOver.notify_one();
  watchdog.join();
}

void MpiEngine::abortJob() {
  std::fflush(stderr);
  // mpirun ends a job of which a rank ends badly, after it has shown what that
  // rank said. MPI_Abort overtakes the text, and mpirun does not survive two
  // ranks that call it at once.
  if (!launcherEndsJob_)
    mpi_.Abort(data_, static_cast<int>(failure_.code()));
  _exit(static_cast<int>(failure_.code()));
}

void MpiEngine::startListening() {
  mpi_.Irecv(&incoming_, sizeof incoming_, mpi_.byte, MPI_ANY_SOURCE, tag,
             notices_, &listening_);
}

void MpiEngine::fail(int origin, Status status) {
  if (!failure_.isOk())
    return;
  origin_ = origin;
  failure_ = std::move(status);
}

void MpiEngine::announce() {
  outgoing_.origin = origin_;
  outgoing_.code = static_cast<int32_t>(failure_.code());
  std::snprintf(outgoing_.text, sizeof outgoing_.text, "%s",
                failure_.message().c_str());
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_)
      post(announcements_, false, "MPI_Isend",
           mpi_.Isend(&outgoing_, sizeof outgoing_, mpi_.byte, peer, tag,
                      notices_, &announcements_.handles[announcements_.count]));
}

void MpiEngine::listen() {
  if (failure_.isOk() && isAbortRequested_.load()) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      fail(rank_, requested_);
    }
    announce();
  }
  int done = 0;
  if (mpi_.Test(&listening_, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done)
    return;
  incoming_.text[sizeof incoming_.text - 1] = '\0';
  fail(incoming_.origin, statusOf(incoming_.code, incoming_.text));
  startListening();
}

void MpiEngine::requestAbort(const Status &why) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (isAbortRequested_.load())
    return;
  requested_ = why.isOk() ? Status::internal("aborted without a reason") : why;
  isAbortRequested_.store(true);
}

bool MpiEngine::hasFailed() {
  listen();
  return !failure_.isOk();
}

Status MpiEngine::failure() const {
  if (failure_.isOk() || size_ == 1)
    return failure_;
  return statusOf(static_cast<int32_t>(failure_.code()),
                  prefixed(origin_, failure_.message()));
}

void MpiEngine::post(RequestSet &set, bool isReceive, const char *call,
                     int error) {
  if (error == MPI_SUCCESS) {
    set.isReceive[set.count++] = isReceive;
    return;
  }
  bool isFirst = failure_.isOk();
  fail(rank_, mpi_.failure(call, error));
  if (isFirst)
    announce();
}

void MpiEngine::send(RequestSet &set, int peer, const void *data,
                     int64_t bytes) {
  post(set, false, "MPI_Isend",
       mpi_.Isend(data, static_cast<int>(bytes), mpi_.byte, peer, tag, data_,
                  &set.handles[set.count]));
}

void MpiEngine::receive(RequestSet &set, int peer, void *data, int64_t bytes) {
  post(set, true, "MPI_Irecv",
       mpi_.Irecv(data, static_cast<int>(bytes), mpi_.byte, peer, tag, data_,
                  &set.handles[set.count]));
}

void MpiEngine::sendPacket(RequestSet &set, int peer, const Packet &packet) {
  int bytes = static_cast<int>(sizeof packet.header) + packet.header.payload;
  post(set, false, "MPI_Isend",
       mpi_.Isend(&packet, bytes, mpi_.byte, peer, tag, packets_,
                  &set.handles[set.count]));
}

void MpiEngine::receivePacket(RequestSet &set, int peer, Packet &packet) {
  post(set, true, "MPI_Irecv",
       mpi_.Irecv(&packet, sizeof packet, mpi_.byte, peer, tag, packets_,
                  &set.handles[set.count]));
}

Status MpiEngine::keepEnd(int peer, const Packet &packet) {
  ends_[peer] = packet;
  const PacketHeader &end = packet.header;
  if (end.code != 0)
    fail(end.root,
         statusOf(end.code, std::string(packet.payload, end.payload)));
  return failure();
}

bool MpiEngine::test(RequestSet &set) {
  int done = 0;
  int error =
      mpi_.Testall(set.count, set.handles.data(), &done, MPI_STATUSES_IGNORE);
  if (error != MPI_SUCCESS) {
    bool isFirst = failure_.isOk();
    fail(rank_, mpi_.failure("MPI_Testall", error));
    if (isFirst)
      announce();
    return false;
  }
  return done != 0;
}

/// MPI moves bytes only while it is called, so a wait cannot simply sleep. It
/// polls, then lets others run between polls, then naps.
void MpiEngine::pause(int64_t &turns, int64_t start) const {
  constexpr int turnsPerLook = 16;
  if (++turns % turnsPerLook != 0) {
    if (spin_)
      spinPause();
    else
      sched_yield();
    return;
  }
  int64_t waited = nowNanoseconds() - start;
  if (waited < (spin_ ? millisecond : 0))
    return;
  if (waited < (spin_ ? 20 : 2) * millisecond) {
    sched_yield();
    return;
  }
  timespec nap = {0, 50 * microsecond};
  nanosleep(&nap, nullptr);
}

bool MpiEngine::wait(RequestSet &set) {
  constexpr int turnsPerListen = 16;
  int64_t start = nowNanoseconds();
  for (int64_t turns = 0; !test(set); pause(turns, start)) {
    if (turns % turnsPerListen == 0)
      listen();
    if (!failure_.isOk())
      return false;
  }
  set.count = 0;
  return true;
}

void MpiEngine::abandon(RequestSet &set, int64_t patience) {
  int64_t start = nowNanoseconds();
  auto linger = [&] {
    for (int64_t turns = 0;; pause(turns, start)) {
      if (test(set))
        return true;
      if (nowNanoseconds() - start > patience)
        return false;
    }
  };
  if (!linger()) {
    // What a peer has begun to send cannot be cancelled and is about to end;
    // what nobody answers is cancelled at once. Sends cannot be taken back,
    // and nobody asks for them any more.
    for (int i = 0; i < set.count; ++i)
      if (set.isReceive[i] && set.handles[i] != mpi_.requestNull)
        mpi_.Cancel(&set.handles[i]);
    linger();
  }
  set.count = 0;
}

/// False: the program has failed and some rank does not end.
bool MpiEngine::exchangeEnds(const Packet &own) {
  RequestSet sends;
  std::vector<RequestSet> receives(size_);
  sends.reserve(size_);
  int missing = 0;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_)
      continue;
    sendPacket(sends, peer, own);
    receives[peer].reserve(1);
    if (ends_[peer].header.kind == PacketHeader::End)
      continue;
    receivePacket(receives[peer], peer, ends_[peer]);
    ++missing;
  }
  int64_t failedAt = 0;
  for (int64_t turns = 0, start = nowNanoseconds(); missing > 0;
       pause(turns, start)) {
    for (int peer = 0; peer < size_; ++peer) {
      if (receives[peer].count == 0 || !test(receives[peer]))
        continue;
      receives[peer].count = 0;
      // A peer that was ahead had announced a collective before.
      if (ends_[peer].header.kind == PacketHeader::End)
        --missing;
      else
        receivePacket(receives[peer], peer, ends_[peer]);
    }
    listen();
    if (failure_.isOk())
      continue;
    int64_t now = nowNanoseconds();
    if (failedAt == 0)
      failedAt = now;
    // The rank that failed first speaks first.
    if (now - failedAt > (origin_ == rank_ ? grace_ : 2 * grace_))
      return false;
  }
  abandon(sends, grace_);
  abandon(announcements_, 0);
  return true;
}

Status MpiEngine::endRun(const Status &status, bool &isOurs) {
  listen();
  if (status && failure_.isOk()) {
    fail(rank_, status);
    announce();
  }
  Packet own;
  own.header = PacketHeader();
  own.header.kind = PacketHeader::End;
  own.header.code = static_cast<int32_t>(failure_.code());
  own.header.root = origin_;
  own.header.payload = static_cast<int32_t>(std::min<size_t>(
      failure_.message().size(), static_cast<size_t>(Packet::maxPayload)));
  std::memcpy(own.payload, failure_.message().data(), own.header.payload);

  if (!exchangeEnds(own)) {
    std::fprintf(stderr, "error: %s\n", failure().message().c_str());
    abortJob();
  }
  // All ranks see the same packets and so agree on the failure.
  for (int peer = 0; peer < size_; ++peer) {
    Packet &end = ends_[peer];
    bool isFirst = failure_.isOk() || end.header.root < origin_;
    if (peer != rank_ && end.header.code != 0 && isFirst) {
      origin_ = end.header.root;
      failure_ = statusOf(end.header.code,
                          std::string(end.payload, end.header.payload));
    }
    end.header.kind = PacketHeader::None;
  }
  isOurs = !failure_.isOk() && origin_ == rank_;
  return failure();
}

} // namespace fsdp::rt
