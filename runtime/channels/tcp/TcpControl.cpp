//===- TcpControl.cpp - One outcome for all processes ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "channels/tcp/TcpControl.h"

#include "core/Clock.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <system_error>

namespace fsdp::rt {

namespace {

/// A rank tells rank 0 that it has failed, or that its part of a run has ended,
/// well or not; rank 0 tells all that one has failed, and how the run has
/// ended.
enum Kind { kindAbort, kindDone, kindVerdict };

/// How long sending or receiving one message may take. They are sent under the
/// lock, and short enough for the system's buffers, so that nobody waits there
/// for a peer that does not read.
constexpr int64_t messageNanoseconds = 2'000'000'000;
using tcp::maxText;

Status makePair(Socket &one, Socket &other) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                 ends) != 0)
    return Status::failed("cannot make a pair of sockets: " +
                          lastSystemError());
  one = Socket(ends[0]);
  other = Socket(ends[1]);
  return Status::ok();
}

void write(const Socket &socket) {
  char byte = 0;
  (void)::send(socket.get(), &byte, 1, MSG_NOSIGNAL);
}

Status statusOf(int code, const std::string &text) {
  if (code == static_cast<int>(Code::Ok))
    return Status::ok();
  return code == static_cast<int>(Code::Internal) ? Status::internal(text)
                                                  : Status::failed(text);
}

} // namespace

struct TcpControl::Message {
  int32_t kind, code;
  uint32_t bytes;
};

TcpControl::TcpControl(TcpJob &job, double graceSeconds)
    : job_(job), graceNanoseconds_(static_cast<int64_t>(graceSeconds * 1e9)),
      links_(job.takeControl()), isDone_(static_cast<size_t>(job.size())),
      isGone_(static_cast<size_t>(job.size())) {}

Status TcpControl::start() {
  for (const Socket &link : links_)
    if (link.isOpen())
      endWhenUnacknowledged(link);
  if (Status s = makePair(wakeup_, waker_))
    return s;
  if (Status s = makePair(stop_, stopper_))
    return s;
  // Signals are for the threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    thread_ = std::thread([this] { listen(); });
    pthread_setname_np(thread_.native_handle(), "fsdp-control");
  } catch (const std::system_error &error) {
    status =
        Status::failed(std::string("cannot start a thread: ") + error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

TcpControl::~TcpControl() {
  if (!thread_.joinable())
    return;
  write(stopper_);
  thread_.join();
}

void TcpControl::listen() {
  for (;;) {
    std::vector<pollfd> polled = {{stop_.get(), POLLIN, 0}};
    std::vector<int> ranks = {-1};
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (size_t i = 0; i < links_.size(); ++i)
        if (links_[i].isOpen()) {
          polled.push_back({links_[i].get(), POLLIN, 0});
          ranks.push_back(static_cast<int>(i));
        }
    }
    if (poll(polled.data(), polled.size(), -1) < 0) {
      if (errno == EINTR)
        continue;
      return abort(Status::failed("cannot wait for news of other ranks: " +
                                  lastSystemError()));
    }
    if (polled[0].revents)
      return;
    std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 1; i < polled.size(); ++i)
      if (polled[i].revents && !receive(ranks[i]))
        lose(ranks[i]);
  }
}

/// One message of the link; false: it has ended.
bool TcpControl::receive(int from) {
  const Socket &link = links_[static_cast<size_t>(from)];
  Message message;
  int64_t deadline = nowNanoseconds() + messageNanoseconds;
  if (!receiveAll(link, &message, sizeof(message), deadline).isOk() ||
      message.bytes > maxText)
    return false;
  std::string text(message.bytes, '\0');
  if (!receiveAll(link, text.data(), text.size(), deadline).isOk())
    return false;
  handle(from, message, text);
  return true;
}

void TcpControl::handle(int from, const Message &message,
                        const std::string &text) {
  Status status = statusOf(message.code, text);
  if (status)
    fail(status);
  if (message.kind == kindDone)
    isDone_[static_cast<size_t>(from)] = true;
  if (message.kind == kindVerdict)
    hasVerdict_ = true;
  changed_.notify_all();
}

Status TcpControl::lossOf(int rank) const {
  return Status::failed("expected " + job_.describe(rank) +
                        " to come to the end of the program, got the end of "
                        "its process or of the connection with it");
}

void TcpControl::lose(int from) {
  links_[static_cast<size_t>(from)] = Socket();
  int rank = job_.rank() == 0 ? from : 0;
  isGone_[static_cast<size_t>(rank)] = true;
  hasLostRankZero_ = job_.rank() != 0 && !hasVerdict_;
  // After the end of a run processes may go.
  if (!hasVerdict_ && !isDone_[static_cast<size_t>(rank)])
    fail(lossOf(rank));
  changed_.notify_all();
}

void TcpControl::fail(const Status &why) {
  if (failure_)
    return;
  failure_ = why;
  failedAt_ = nowNanoseconds();
  write(waker_);
  if (job_.rank() == 0)
    sendAllOthers(kindAbort, why);
  changed_.notify_all();
}

void TcpControl::send(size_t link, int kind, const Status &status) {
  if (!links_[link].isOpen())
    return;
  std::string text = status.message().substr(0, maxText);
  Message message = {kind, static_cast<int32_t>(status.code()),
                     static_cast<uint32_t>(text.size())};
  int64_t deadline = nowNanoseconds() + messageNanoseconds;
  // Whose link has ended is lost where the thread reads it.
  if (sendAll(links_[link], &message, sizeof(message), deadline).isOk())
    (void)sendAll(links_[link], text.data(), text.size(), deadline);
}

void TcpControl::sendAllOthers(int kind, const Status &status) {
  for (size_t link = 0; link < links_.size(); ++link)
    send(link, kind, status);
}

void TcpControl::abort(const Status &why) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (failure_)
    return;
  Status mine =
      (why.isOk() ? Status::internal("aborted without a reason") : why)
          .withContext("rank " + std::to_string(job_.rank()));
  if (job_.rank() != 0)
    send(0, kindAbort, mine);
  fail(mine);
}

Status TcpControl::failure() {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

bool TcpControl::hasLostRankZero() {
  std::lock_guard<std::mutex> lock(mutex_);
  return hasLostRankZero_;
}

bool TcpControl::areAllDone() const {
  for (size_t rank = 0; rank < isDone_.size(); ++rank)
    if (!isDone_[rank] && !isGone_[rank])
      return false;
  return true;
}

void TcpControl::nameMissing() {
  std::string names;
  auto add = [&](int rank) {
    names += (names.empty() ? "" : " and ") + job_.describe(rank);
  };
  if (job_.rank() != 0)
    add(0);
  else
    for (size_t rank = 0; rank < isDone_.size(); ++rank)
      if (!isDone_[rank] && !isGone_[rank])
        add(static_cast<int>(rank));
  std::string text = failure_.message() + "; after it " + names +
                     " did not come to the end of the program";
  failure_ = failure_.code() == Code::Internal ? Status::internal(text)
                                               : Status::failed(text);
}

Status TcpControl::beginRun() {
  std::lock_guard<std::mutex> lock(mutex_);
  hasVerdict_ = false;
  for (size_t rank = 0; rank < isGone_.size(); ++rank)
    if (isGone_[rank])
      fail(lossOf(static_cast<int>(rank)));
  return failure_;
}

Status TcpControl::endRun(const Status &mine) {
  if (mine)
    abort(mine);
  std::unique_lock<std::mutex> lock(mutex_);
  bool isFirst = job_.rank() == 0;
  if (isFirst)
    isDone_[0] = true;
  else
    send(0, kindDone, Status::ok());
  // Rank 0 waits for the others; they wait for what it makes of it.
  auto isOver = [&] {
    return isFirst ? areAllDone() : hasVerdict_ || hasLostRankZero_;
  };
  int64_t grace = isFirst ? graceNanoseconds_ : 2 * graceNanoseconds_;
  while (!isOver()) {
    constexpr std::chrono::milliseconds pause(100);
    changed_.wait_for(lock, pause);
    if (failure_ && nowNanoseconds() - failedAt_ > grace) {
      nameMissing();
      hasLostRankZero_ |= !isFirst;
      break;
    }
  }
  if (isFirst) {
    // What comes now is of the next run.
    isDone_.assign(isDone_.size(), false);
    hasVerdict_ = true;
    sendAllOthers(kindVerdict, failure_);
  }
  return failure_;
}

} // namespace fsdp::rt
