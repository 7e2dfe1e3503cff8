//===- Operation.cpp - Work of a stream that communicates -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communicator.h"
#include "Settings.h"
#include "Sums.h"
#include "libraries/EmulatedDriver.h"

#include <algorithm>
#include <csignal>
#include <cstring>

namespace fsdp::emulator::nccl {

namespace {

char *hostOf(uint64_t pointer, size_t bytes) {
  if (bytes == 0)
    return nullptr;
  void *host = EmulatedDriver::get()->hostPointer(pointer, bytes);
  if (!host)
    throw Mistake(invalidArgument,
                  "expected " + std::to_string(bytes) +
                      " bytes of the device's memory in one piece");
  return static_cast<char *>(host);
}

/// What a rank brings: its own call, as the other side says it.
Call callOf(const Header &header) {
  return {header.kind,      0,          0, header.count, header.type,
          header.reduction, header.peer};
}

} // namespace

Operation::Operation(std::shared_ptr<Communicator> comm,
                     std::vector<Call> calls, bool isCaptured)
    : comm_(std::move(comm)), calls_(std::move(calls)),
      isCaptured_(isCaptured) {
  std::lock_guard<std::recursive_mutex> lock(comm_->mutex);
  if (isCaptured_) {
    comm_->holdCaptured();
    return;
  }
  comm_->issued.push_back(this);
  ++comm_->outstanding;
  DeviceTurns::of(*comm_).issue(this);
}

Operation::~Operation() {
  std::lock_guard<std::recursive_mutex> lock(comm_->mutex);
  end();
  if (isCaptured_)
    comm_->releaseCaptured();
  std::erase(comm_->issued, this);
}

std::string Operation::describe() const {
  std::string text;
  for (const Call &call : calls_)
    text += (text.empty() ? "" : ", ") + nccl::describe(call);
  return text;
}

uint64_t Operation::turn() const {
  if (Settings::get().isOrderImplicit && !isCaptured_)
    return 0;
  return std::hash<std::thread::id>()(comm_->owner) | 1;
}

/// NCCL lets devices of one process read and write each other's buffers where
/// they can be peers.
void Operation::checkPeers() const {
  for (int peer : RanksOfProcess::get().peersOf(*comm_))
    for (const Call &call : calls_)
      for (auto [address, bytes] :
           {std::pair{call.src, call.srcBytes(comm_->size)},
            std::pair{call.dst, call.dstBytes(comm_->size)}})
        if (bytes > 0 && !EmulatedDriver::get()->isAccessible(address, peer))
          throw Mistake(
              unhandledCudaError,
              "an illegal memory access of device " + std::to_string(peer) +
                  ": expected access to " + "buffers of device " +
                  std::to_string(comm_->device) + " in " + describe());
}

bool Operation::mayBegin() {
  if (!isCaptured_ && comm_->issued.front() != this)
    return false;
  return DeviceTurns::of(*comm_).take(this);
}

void Operation::begin() {
  if (takeFault("kill", comm_->device))
    (void)std::raise(SIGKILL);
  if (takeFault("stop", comm_->device))
    (void)std::raise(SIGSTOP);
  checkPeers();
  hasBegun_ = true;
  begun_ = std::chrono::steady_clock::now();
  if (!isCaptured_)
    comm_->issued.pop_front();
  progress_.assign(calls_.size(), {});
  for (size_t i = 0; i < calls_.size(); ++i) {
    Progress &progress = progress_[i];
    progress.messages.resize(comm_->size);
    progress.hasCome.resize(comm_->size);
    switch (calls_[i].kind) {
    case Kind::Send:
      progress.number = comm_->sent[calls_[i].peer]++;
      break;
    case Kind::Recv:
      progress.number = comm_->received[calls_[i].peer]++;
      break;
    default:
      progress.number = comm_->collectives++;
    }
    sendFor(i);
    comm_->traffic.add(calls_[i], comm_->rank, comm_->mesh.ranksOnNode());
  }
  if (int code = takeFault("async", comm_->device)) {
    comm_->fail(Error(code), "an error by itself in " + describe());
    isBroken_ = true;
  }
}

void Operation::sendFor(size_t index) {
  const Call &call = calls_[index];
  if (call.kind == Kind::Recv)
    return;
  const char *src = hostOf(call.src, call.srcBytes(comm_->size));
  for (int peer = 0; peer < comm_->size; ++peer) {
    if (call.kind == Kind::Send && peer != call.peer)
      continue;
    bool isSilent = call.kind == Kind::Broadcast && call.peer != comm_->rank;
    Header header = {call.kind,
                     call.type,
                     call.reduction,
                     call.peer,
                     call.count,
                     progress_[index].number,
                     isSilent ? 0 : call.bytes()};
    size_t piece = call.kind == Kind::ReduceScatter ? size_t(peer) : 0;
    comm_->mesh.send(peer, header, src + piece * call.bytes());
  }
}

void Operation::check(const Call &mine, const Progress &progress, int peer,
                      const Message &message) const {
  const Header &header = message.header;
  bool fits = header.kind == mine.kind && header.count == mine.count &&
              header.type == mine.type && header.reduction == mine.reduction &&
              header.number == progress.number &&
              (mine.kind != Kind::Broadcast || header.peer == mine.peer);
  if (mine.kind == Kind::Recv)
    fits = header.kind == Kind::Send && header.count == mine.count &&
           header.type == mine.type && header.number == progress.number;
  if (!fits)
    throw Mistake(invalidUsage, "expected the same on all ranks, got " +
                                    nccl::describe(mine) + " (number " +
                                    std::to_string(progress.number) +
                                    ") on rank " + std::to_string(comm_->rank) +
                                    " and " + nccl::describe(callOf(header)) +
                                    " (number " +
                                    std::to_string(header.number) +
                                    ") on rank " + std::to_string(peer));
}

/// Each call of the group takes the next message that is for its sort: what is
/// sent comes in the order of the calls.
void Operation::takeMessages() {
  comm_->mesh.progress();
  for (int peer = 0; peer < comm_->size; ++peer)
    for (size_t i = 0; i < calls_.size(); ++i) {
      const Call &call = calls_[i];
      if (call.kind == Kind::Send || progress_[i].hasCome[peer] ||
          (call.kind == Kind::Recv && call.peer != peer))
        continue;
      std::deque<Message> &queue = comm_->mesh.receivedFrom(peer);
      bool isSent = call.kind == Kind::Recv;
      auto found = std::find_if(queue.begin(), queue.end(), [&](auto &message) {
        return (message.header.kind == Kind::Send) == isSent;
      });
      if (found == queue.end())
        continue;
      check(call, progress_[i], peer, *found);
      progress_[i].messages[peer] = std::move(*found);
      progress_[i].hasCome[peer] = true;
      queue.erase(found);
    }
}

bool Operation::isComplete() const {
  for (size_t i = 0; i < calls_.size(); ++i)
    for (int peer = 0; peer < comm_->size; ++peer) {
      Kind kind = calls_[i].kind;
      bool isWanted =
          kind == Kind::Recv ? calls_[i].peer == peer : kind != Kind::Send;
      if (isWanted && !progress_[i].hasCome[peer])
        return false;
    }
  return comm_->mesh.isFlushed();
}

std::string Operation::describeMissing() const {
  std::string text;
  for (int peer = 0; peer < comm_->size; ++peer)
    for (size_t i = 0; i < calls_.size(); ++i)
      if (calls_[i].kind != Kind::Send && !progress_[i].hasCome[peer] &&
          (calls_[i].kind != Kind::Recv || calls_[i].peer == peer)) {
        text += (text.empty() ? "rank " : ", ") + std::to_string(peer) +
                (comm_->mesh.hasLeft(peer) ? " (which has left)" : "");
        break;
      }
  return text.empty() ? "ranks that receive" : text;
}

void Operation::computeOne(const Call &call, const Progress &progress) const {
  int n = comm_->size;
  size_t bytes = call.bytes();
  char *dst = hostOf(call.dst, call.dstBytes(n));
  if (!dst)
    return;
  std::vector<const char *> sources;
  for (const Message &message : progress.messages)
    sources.push_back(message.bytes.data());
  switch (call.kind) {
  case Kind::AllGather:
    for (int peer = 0; peer < n; ++peer)
      std::memcpy(dst + size_t(peer) * bytes, sources[peer], bytes);
    break;
  case Kind::ReduceScatter:
    addInRing(sources, comm_->rank, dst, call.count, call.type,
              comm_->factorOf(call.reduction), Settings::get().isRoundedAtHops);
    break;
  case Kind::AllReduce: {
    // Each rank ends the ring of one part.
    size_t part = (call.count + size_t(n) - 1) / size_t(n);
    for (int last = 0; last < n; ++last) {
      size_t begin = std::min(size_t(last) * part, call.count);
      size_t end = std::min(begin + part, call.count);
      std::vector<const char *> parts;
      for (const char *source : sources)
        parts.push_back(source + begin * sizeOfType(call.type));
      addInRing(parts, last, dst + begin * sizeOfType(call.type), end - begin,
                call.type, comm_->factorOf(call.reduction),
                Settings::get().isRoundedAtHops);
    }
    break;
  }
  case Kind::Broadcast:
  case Kind::Recv:
    std::memcpy(dst, sources[call.peer], bytes);
    break;
  case Kind::Send:
  case Kind::Meeting:
    break;
  }
}

void Operation::compute() {
  for (size_t i = 0; i < calls_.size(); ++i)
    computeOne(calls_[i], progress_[i]);
}

void Operation::end() {
  DeviceTurns::of(*comm_).give(this);
  hasBegun_ = false;
  progress_.clear();
}

int Operation::run() {
  std::lock_guard<std::recursive_mutex> lock(comm_->mutex);
  try {
    // Its results may be anything then.
    if (comm_->isAborted) {
      end();
      return 1;
    }
    if (!hasBegun_) {
      if (!mayBegin())
        return 0;
      begin();
    }
    if (isBroken_)
      return 0;
    takeMessages();
    if (isComplete()) {
      compute();
      end();
      if (!isCaptured_)
        --comm_->outstanding;
      return 1;
    }
    std::chrono::duration<double> waited =
        std::chrono::steady_clock::now() - begun_;
    if (waited.count() <= Settings::get().timeout)
      return 0;
    throw Mistake(remoteError, "expected all ranks in " + describe() +
                                   " within " +
                                   std::to_string(Settings::get().timeout) +
                                   " s, got none of " + describeMissing());
  } catch (const Mistake &mistake) {
    comm_->fail(mistake.code, mistake.what());
    isBroken_ = true;
    return -1;
  }
}

} // namespace fsdp::emulator::nccl
