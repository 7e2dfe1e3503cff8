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
#include <system_error>
#include <thread>
#include <utility>

namespace fsdp::rt {

namespace {

/// Of the third stream.
constexpr int noticeTag = 0;
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
  // No rank duplicates a communicator before all have come to it.
  segment_.remove(rank_);
  int *bound = nullptr, isSet = 0;
  if (int error = mpi_.Comm_get_attr(data_, MPI_TAG_UB, &bound, &isSet))
    return mpi_.failure("MPI_Comm_get_attr", error);
  constexpr int leastThatMpiHas = 32767;
  maxTag_ = isSet ? *bound : leastThatMpiHas;
  announcements_.reserve(size_);
  routes_.resize(size_);
  firstTags_.resize(size_);
  ends_.resize(size_);
  nextEnds_.resize(size_);
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
  if (!failure_.isOk()) {
    auto watch = [&] {
      std::unique_lock<std::mutex> lock(mutex);
      if (!isOver.wait_for(lock, std::chrono::nanoseconds(grace_),
                           [&] { return hasEnded; }))
        _exit(static_cast<int>(failure_.code()));
    };
    try {
      watchdog = std::thread(watch);
    } catch (const std::system_error &) {
      _exit(static_cast<int>(failure_.code()));
    }
  }
  RequestSet listening;
  listening.reserve(1);
  listening.handles[0] = listening_;
  listening.isReceive[0] = true;
  listening.count = 1;
  abandon(&listening, 1, 0);
  listening_ = nullptr;
  for (MPI_Comm *comm : {&data_, &packets_, &notices_})
    mpi_.Comm_free(comm);
  segment_.restore();
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
  mpi_.Irecv(&incoming_, sizeof incoming_, mpi_.byte, MPI_ANY_SOURCE, noticeTag,
             notices_, &listening_);
}

void MpiEngine::fail(int origin, Status status) {
  if (!failure_.isOk())
    return;
  origin_ = origin;
  failure_ = std::move(status);
}

MpiEngine::Notice MpiEngine::notice(Notice::Kind kind) const {
  Notice notice = {};
  notice.kind = kind;
  notice.origin = origin_;
  notice.code = static_cast<int32_t>(failure_.code());
  std::snprintf(notice.text, sizeof notice.text, "%s",
                failure_.message().c_str());
  return notice;
}

void MpiEngine::announce() {
  outgoing_ = notice(Notice::Failure);
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_)
      post(announcements_, false, "MPI_Isend",
           mpi_.Isend(&outgoing_, sizeof outgoing_, mpi_.byte, peer, noticeTag,
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
  while (true) {
    int done = 0;
    MPI_Status status;
    if (mpi_.Test(&listening_, &done, &status) != MPI_SUCCESS || !done)
      return;
    incoming_.text[sizeof incoming_.text - 1] = '\0';
    if (incoming_.kind == Notice::End)
      takeEnd(status.MPI_SOURCE);
    else
      fail(incoming_.origin, statusOf(incoming_.code, incoming_.text));
    startListening();
  }
}

void MpiEngine::takeEnd(int source) {
  // A rank that has heard the ends of all may be through its next run before
  // another one's end comes here.
  bool isNext = ends_[source].hasCome;
  End &end = isNext ? nextEnds_[source] : ends_[source];
  end.packets.insert(end.packets.end(), incoming_.packets,
                     incoming_.packets + incoming_.told);
  if (static_cast<int32_t>(end.packets.size()) < incoming_.routes)
    return;
  end.hasCome = true;
  end.origin = incoming_.origin;
  if (incoming_.code != 0)
    end.status = statusOf(incoming_.code, incoming_.text);
  if (isNext)
    return;
  ++ended_;
  // It may overtake the failure's own notice.
  if (!end.status.isOk())
    fail(end.origin, end.status);
}

Result<Route> MpiEngine::openRoute(int rank) {
  Route route;
  route.rank = rank;
  if (static_cast<int64_t>(routes_[rank].size()) >
      int64_t(maxTag_) - firstTags_[rank])
    return Status::failed("expected at most " + std::to_string(maxTag_) +
                          " channels with rank " + std::to_string(rank) +
                          ", got one more");
  route.tag = firstTags_[rank] + static_cast<int>(routes_[rank].size());
  routes_[rank].emplace_back();
  return route;
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

void MpiEngine::send(RequestSet &set, Route to, const void *data,
                     int64_t bytes) {
  post(set, false, "MPI_Isend",
       mpi_.Isend(data, static_cast<int>(bytes), mpi_.byte, to.rank, to.tag,
                  data_, &set.handles[set.count]));
}

void MpiEngine::receive(RequestSet &set, Route from, void *data,
                        int64_t bytes) {
  post(set, true, "MPI_Irecv",
       mpi_.Irecv(data, static_cast<int>(bytes), mpi_.byte, from.rank, from.tag,
                  data_, &set.handles[set.count]));
}

void MpiEngine::sendPacket(RequestSet &set, Route to, const Packet &packet) {
  int64_t bytes = offsetof(Packet, payload) + packet.header.payload;
  ++routes_[to.rank][to.tag - firstTags_[to.rank]].sent;
  post(set, false, "MPI_Isend",
       mpi_.Isend(&packet, static_cast<int>(bytes), mpi_.byte, to.rank, to.tag,
                  packets_, &set.handles[set.count]));
}

int64_t MpiEngine::receivePacket(RequestSet &set, Route from, Packet &packet) {
  post(set, true, "MPI_Irecv",
       mpi_.Irecv(&packet, sizeof packet, mpi_.byte, from.rank, from.tag,
                  packets_, &set.handles[set.count]));
  return routes_[from.rank][from.tag - firstTags_[from.rank]].awaited++;
}

bool MpiEngine::willCome(Route from, int64_t number) const {
  const End &end = ends_[from.rank];
  size_t index = static_cast<size_t>(from.tag - firstTags_[from.rank]);
  return ended_ == 0 || !end.hasCome ||
         (index < end.packets.size() && number < end.packets[index]);
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
  if (done)
    set.count = 0;
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

void MpiEngine::abandon(RequestSet *sets, int count, int64_t patience) {
  auto linger = [&] {
    int64_t start = nowNanoseconds();
    for (int64_t turns = 0;; pause(turns, start)) {
      bool isDone = true;
      for (int i = 0; i < count; ++i)
        isDone &= sets[i].count == 0 || test(sets[i]);
      if (isDone)
        return true;
      if (nowNanoseconds() - start > patience)
        return false;
    }
  };
  if (!linger()) {
    // What a peer has begun to send cannot be cancelled and is about to end;
    // what nobody answers is cancelled at once. Sends cannot be taken back,
    // and nobody asks for them any more.
    for (RequestSet *set = sets; set != sets + count; ++set)
      for (int i = 0; i < set->count; ++i)
        if (set->isReceive[i] && set->handles[i] != mpi_.requestNull)
          mpi_.Cancel(&set->handles[i]);
    linger();
  }
  for (RequestSet *set = sets; set != sets + count; ++set)
    set->count = 0;
}

/// What `peer` is to know of this rank's end, in as many notices as it takes.
std::vector<MpiEngine::Notice> MpiEngine::endsFor(int peer) const {
  const std::vector<Traffic> &routes = routes_[peer];
  std::vector<Notice> ends;
  size_t told = 0;
  do {
    Notice end = notice(Notice::End);
    end.routes = static_cast<int32_t>(routes.size());
    while (told < routes.size() && end.told < Notice::maxRoutes)
      end.packets[end.told++] = routes[told++].sent;
    ends.push_back(end);
  } while (told < routes.size());
  return ends;
}

/// False: the program has failed and some rank does not end.
bool MpiEngine::exchangeEnds() {
  std::vector<std::vector<Notice>> ends(size_);
  RequestSet sends;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_)
      continue;
    ends[peer] = endsFor(peer);
    sends.reserve(sends.count + static_cast<int64_t>(ends[peer].size()));
    for (const Notice &end : ends[peer])
      post(sends, false, "MPI_Isend",
           mpi_.Isend(&end, sizeof end, mpi_.byte, peer, noticeTag, notices_,
                      &sends.handles[sends.count]));
  }
  int64_t failedAt = 0;
  for (int64_t turns = 0, start = nowNanoseconds(); ended_ < size_ - 1;
       pause(turns, start)) {
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
  abandon(&sends, 1, grace_);
  abandon(&announcements_, 1, 0);
  return true;
}

void MpiEngine::beginNextRun() {
  ended_ = 0;
  for (int peer = 0; peer < size_; ++peer) {
    // No tag twice, and the same one next on both sides, even where one did
    // not come to open a channel.
    firstTags_[peer] += static_cast<int>(
        std::max(routes_[peer].size(), ends_[peer].packets.size()));
    routes_[peer].clear();
    ends_[peer] = std::exchange(nextEnds_[peer], End());
    ended_ += ends_[peer].hasCome;
    if (ends_[peer].hasCome && !ends_[peer].status.isOk())
      fail(ends_[peer].origin, ends_[peer].status);
  }
}

Status MpiEngine::endRun(const Status &status, bool &isOurs) {
  listen();
  if (status && failure_.isOk()) {
    fail(rank_, status);
    announce();
  }
  if (!exchangeEnds()) {
    std::fprintf(stderr, "error: %s\n", failure().message().c_str());
    abortJob();
  }
  // All ranks hear the same and so agree on the failure.
  for (const End &end : ends_)
    if (!end.status.isOk() && (failure_.isOk() || end.origin < origin_)) {
      origin_ = end.origin;
      failure_ = end.status;
    }
  isOurs = !failure_.isOk() && origin_ == rank_;
  Status outcome = failure();
  beginNextRun();
  return outcome;
}

} // namespace fsdp::rt
