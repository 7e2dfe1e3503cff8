//===- TcpChannel.cpp - Collectives over connections ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "channels/tcp/TcpChannel.h"

#include "core/Clock.h"
#include "core/Group.h"
#include "core/Reduce.h"
#include "hal/Transfers.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace fsdp::rt {

namespace {

/// What others send to be added up is received in pieces that fit together.
constexpr int64_t stagingBytes = int64_t(4) << 20;
constexpr int64_t cacheLine = 64;

} // namespace

bool TcpChannel::Header::operator==(const Header &other) const {
  return kind == other.kind && dtype == other.dtype && count == other.count &&
         divisor == other.divisor && root == other.root;
}

std::string TcpChannel::Header::describe() const {
  std::string text = meetingName(kind);
  text += " of " + std::to_string(count) + " x " +
          dtypeName(static_cast<Dtype>(dtype));
  if (divisor != 1)
    text += " / " + std::to_string(divisor);
  if (kind == controlBroadcast)
    text += " from root " + std::to_string(root);
  return text;
}

TcpChannel::TcpChannel(TcpJob &job, TcpControl &control, std::vector<int> ranks,
                       int index, int nth, ThreadPool *pool, int64_t waitLimit)
    : job_(job), control_(control), ranks_(std::move(ranks)), index_(index),
      id_(channelId(ranks_, nth)), pool_(pool), waitLimit_(waitLimit),
      links_(ranks_.size()), parts_(ranks_.size()), sources_(ranks_.size()) {
  flows_.reserve(2 * ranks_.size());
  polled_.reserve(2 * ranks_.size() + 1);
}

TcpChannel::~TcpChannel() {
  links_.clear();
  job_.release(int64_t(size()) - 1);
}

//===----------------------------------------------------------------------===//
// Moving bytes
//===----------------------------------------------------------------------===//

Status TcpChannel::open(int peer) {
  Socket &link = links_[static_cast<size_t>(peer)];
  if (link.isOpen())
    return Status::ok();
  Result<Socket> made = job_.connect(ranks_[static_cast<size_t>(peer)], id_,
                                     control_.wakeup(), waitLimit_);
  if (!made.isOk())
    return causeOf(made.status());
  link = std::move(*made);
  return Status::ok();
}

void TcpChannel::addSend(int peer, const void *data, int64_t bytes,
                         bool hasHeader) {
  flows_.push_back({peer, true, static_cast<char *>(const_cast<void *>(data)),
                    bytes, 0, hasHeader ? 0 : int64_t(sizeof(Header)),
                    current_});
}

void TcpChannel::addReceive(int peer, void *data, int64_t bytes,
                            bool hasHeader) {
  flows_.push_back({peer, false, static_cast<char *>(data), bytes, 0,
                    hasHeader ? 0 : int64_t(sizeof(Header)), Header()});
}

Status TcpChannel::causeOf(const Status &what) const {
  constexpr int64_t newsNanoseconds = 1'000'000'000;
  for (int64_t begin = nowNanoseconds();
       nowNanoseconds() - begin < newsNanoseconds;) {
    if (Status s = control_.failure())
      return s;
    constexpr std::chrono::milliseconds pause(10);
    std::this_thread::sleep_for(pause);
  }
  return what;
}

Status TcpChannel::endOf(int peer, const std::string &why) const {
  return causeOf(Status::failed(
      "expected " + job_.describe(ranks_[static_cast<size_t>(peer)]) +
      " in the " + meetingName(current_.kind) + " in which rank " +
      std::to_string(ranks_[static_cast<size_t>(index_)]) +
      " waits, got the end of that rank's part of the "
      "program (" +
      why + ")"));
}

Status TcpChannel::late(const WaitLimit &limit) const {
  std::string names;
  std::vector<int> named;
  for (const Flow &flow : flows_) {
    if (std::find(named.begin(), named.end(), flow.peer) != named.end())
      continue;
    named.push_back(flow.peer);
    names += (names.empty() ? "" : " and ") +
             job_.describe(ranks_[static_cast<size_t>(flow.peer)]);
  }
  return limit.failure(names + " to go on in the " +
                           meetingName(current_.kind) + " in which rank " +
                           std::to_string(ranks_[static_cast<size_t>(index_)]) +
                           " waits",
                       "no sign of it");
}

Status TcpChannel::advance(Flow &flow, bool &hasMoved) {
  const Socket &link = links_[static_cast<size_t>(flow.peer)];
  constexpr auto headerBytes = static_cast<int64_t>(sizeof(Header));
  while (flow.headerAt < headerBytes || flow.at < flow.bytes) {
    bool isHeader = flow.headerAt < headerBytes;
    int64_t &at = isHeader ? flow.headerAt : flow.at;
    char *data =
        (isHeader ? reinterpret_cast<char *>(&flow.header) : flow.data) + at;
    auto bytes =
        static_cast<size_t>((isHeader ? headerBytes : flow.bytes) - at);
    ssize_t moved = flow.isSend ? ::send(link.get(), data, bytes, MSG_NOSIGNAL)
                                : ::recv(link.get(), data, bytes, 0);
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return Status::ok();
    if (moved < 0 && errno == EINTR)
      continue;
    if (moved < 0 || (moved == 0 && !flow.isSend))
      return endOf(flow.peer,
                   moved < 0 ? lastSystemError() : "its connection has ended");
    hasMoved = true;
    at += moved;
    if (isHeader && !flow.isSend && at == headerBytes &&
        !(flow.header == current_))
      return Status::internal(
          "expected the same collective on all ranks, got " +
          current_.describe() + " on rank " +
          std::to_string(ranks_[static_cast<size_t>(index_)]) + " and " +
          flow.header.describe() + " on rank " +
          std::to_string(ranks_[static_cast<size_t>(flow.peer)]));
  }
  return Status::ok();
}

Status TcpChannel::move() {
  constexpr int64_t spinNanoseconds = 20'000;
  constexpr int milliseconds = 1'000;
  // Connects to lower ranks first, which does not wait for them to accept, then
  // accepts from higher ones: no cycle of ranks waits for each other.
  for (bool isAbove : {false, true})
    for (const Flow &flow : flows_)
      if ((flow.peer > index_) == isAbove)
        if (Status s = open(flow.peer))
          return s;
  auto isDone = [](const Flow &flow) {
    return flow.headerAt == int64_t(sizeof(Header)) && flow.at == flow.bytes;
  };
  int64_t idleSince = 0;
  WaitLimit limit(waitLimit_);
  while (!flows_.empty()) {
    bool hasMoved = false;
    for (Flow &flow : flows_)
      if (Status s = advance(flow, hasMoved))
        return s;
    flows_.erase(std::remove_if(flows_.begin(), flows_.end(), isDone),
                 flows_.end());
    int64_t now = nowNanoseconds();
    if (hasMoved || flows_.empty()) {
      idleSince = 0;
      limit.restart();
      continue;
    }
    if (idleSince == 0)
      idleSince = now;
    if (now - idleSince < spinNanoseconds)
      continue;
    polled_.clear();
    polled_.push_back({control_.wakeup(), POLLIN, 0});
    for (const Flow &flow : flows_)
      polled_.push_back({links_[static_cast<size_t>(flow.peer)].get(),
                         static_cast<short>(flow.isSend ? POLLOUT : POLLIN),
                         0});
    (void)poll(polled_.data(), polled_.size(), milliseconds);
    waited_ += nowNanoseconds() - now;
    if (polled_[0].revents)
      return control_.failure();
    if (limit.isExceeded())
      return late(limit);
  }
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

Status TcpChannel::run(const hal::HostCollective &what) {
  if (Status s = hal::checkCollective(what))
    return s;
  flows_.clear();
  current_ = {what.kind, what.dtype, what.count, what.divisor, 0, 0};
  int64_t bytes = what.count * dtypeSize(what.dtype);
  auto src = static_cast<const char *>(what.src);
  auto dst = static_cast<char *>(what.dst);
  for (int64_t i = 0; i < size(); ++i)
    parts_[static_cast<size_t>(i)] = {i * what.count, (i + 1) * what.count};
  switch (what.kind) {
  case FSDP_RT_ALL_GATHER:
    if (src != dst + index_ * bytes)
      copyBytes(pool_, dst + index_ * bytes, src, bytes);
    return spread(dst, parts_, /*hasHeader=*/true);
  case FSDP_RT_REDUCE_SCATTER:
    return reduce(what, src, dst, parts_);
  case FSDP_RT_ALL_REDUCE:
    return allReduce(what);
  case FSDP_RT_ALL_TO_ALL:
    copyBytes(pool_, dst + index_ * bytes, src + index_ * bytes, bytes);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == index_)
        continue;
      addSend(peer, src + peer * bytes, bytes, /*hasHeader=*/true);
      addReceive(peer, dst + peer * bytes, bytes, /*hasHeader=*/true);
    }
    return move();
  case FSDP_RT_OFFLOAD:
  case FSDP_RT_RELOAD:
    break;
  }
  return Status::internal("expected a kind of collective, got " +
                          std::to_string(what.kind));
}

/// Around a ring: of size - 1 turns each passes on what came in the one before.
Status TcpChannel::spread(char *dst, const std::vector<Part> &parts,
                          bool hasHeader) {
  int64_t elementBytes = dtypeSize(static_cast<Dtype>(current_.dtype));
  int next = (index_ + 1) % size(), last = (index_ + size() - 1) % size();
  for (int turn = 0; turn + 1 < size(); ++turn) {
    auto partOf = [&](int place) -> const Part & {
      return parts[static_cast<size_t>((place + size()) % size())];
    };
    const Part &out = partOf(index_ - turn), &in = partOf(index_ - turn - 1);
    bool isFirst = hasHeader && turn == 0;
    addSend(next, dst + out.begin * elementBytes,
            (out.end - out.begin) * elementBytes, isFirst);
    addReceive(last, dst + in.begin * elementBytes,
               (in.end - in.begin) * elementBytes, isFirst);
    if (Status s = move())
      return s;
  }
  return Status::ok();
}

Status TcpChannel::reduce(const hal::HostCollective &what, const char *src,
                          char *dst, const std::vector<Part> &parts) {
  int64_t elementBytes = dtypeSize(what.dtype), peers = size() - 1;
  if (staging_.empty() && peers > 0)
    staging_.resize(
        static_cast<size_t>(std::max(stagingBytes, peers * cacheLine)));
  int64_t most = 0;
  for (const Part &part : parts)
    most = std::max(most, part.end - part.begin);
  int64_t pieceBytes = peers == 0 ? most * elementBytes
                                  : static_cast<int64_t>(staging_.size()) /
                                        peers / cacheLine * cacheLine;
  int64_t piece = std::max<int64_t>(pieceBytes / elementBytes, 1);
  // All ranks take as many turns, whose parts may be shorter; the first one
  // also where there is nothing to add up, since ranks compare what they call.
  for (int64_t begin = 0; begin == 0 || begin < most; begin += piece) {
    auto cut = [&](int place) -> Part {
      const Part &part = parts[static_cast<size_t>(place)];
      return {std::min(part.begin + begin, part.end),
              std::min(part.begin + begin + piece, part.end)};
    };
    Part own = cut(index_);
    char *staged = staging_.data();
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == index_) {
        sources_[static_cast<size_t>(peer)] = src + own.begin * elementBytes;
        continue;
      }
      Part theirs = cut(peer);
      addSend(peer, src + theirs.begin * elementBytes,
              (theirs.end - theirs.begin) * elementBytes, begin == 0);
      addReceive(peer, staged, (own.end - own.begin) * elementBytes,
                 begin == 0);
      sources_[static_cast<size_t>(peer)] = staged;
      staged += pieceBytes;
    }
    if (Status s = move())
      return s;
    char *to = dst + (own.begin - parts[static_cast<size_t>(index_)].begin) *
                         elementBytes;
    treeSum(pool_, sources_.data(), size(), to, own.end - own.begin, what.dtype,
            what.divisor);
  }
  return Status::ok();
}

Status TcpChannel::allReduce(const hal::HostCollective &what) {
  int64_t elementBytes = dtypeSize(what.dtype);
  for (int i = 0; i < size(); ++i)
    parts_[static_cast<size_t>(i)] =
        reducePart(what.count, elementBytes, size(), i);
  auto dst = static_cast<char *>(what.dst);
  char *own = dst + parts_[static_cast<size_t>(index_)].begin * elementBytes;
  // Of parts that others add up nothing is written before it was sent: their
  // sums come after the last turn.
  if (Status s = reduce(what, static_cast<const char *>(what.src), own, parts_))
    return s;
  return spread(dst, parts_, /*hasHeader=*/false);
}

Status TcpChannel::broadcast(const void *src, void *dst, int64_t bytes,
                             int root) {
  if (root < 0 || root >= size())
    return Status::failed("broadcast: expected a root below " +
                          std::to_string(size()) + ", got " +
                          std::to_string(root));
  flows_.clear();
  current_ = {controlBroadcast, FSDP_RT_U8, bytes, 1, root, 0};
  if (index_ == root && src != dst)
    copyBytes(pool_, dst, src, bytes);
  // A binomial tree from the root: who has the bytes in a round sends them as
  // far as the round's distance.
  int place = (index_ - root + size()) % size();
  for (int distance = 1; distance < size(); distance *= 2) {
    if (place < distance && place + distance < size())
      addSend((place + distance + root) % size(), dst, bytes,
              /*hasHeader=*/true);
    else if (place >= distance && place < 2 * distance)
      addReceive((place - distance + root) % size(), dst, bytes,
                 /*hasHeader=*/true);
    if (Status s = move())
      return s;
  }
  return Status::ok();
}

Status TcpChannel::barrier() {
  flows_.clear();
  current_ = {controlBarrier, FSDP_RT_U8, 0, 1, 0, 0};
  for (int distance = 1; distance < size(); distance *= 2) {
    addSend((index_ + distance) % size(), nullptr, 0, /*hasHeader=*/true);
    addReceive((index_ - distance + size()) % size(), nullptr, 0,
               /*hasHeader=*/true);
    if (Status s = move())
      return s;
  }
  return Status::ok();
}

} // namespace fsdp::rt
