//===- Communicator.cpp - Ranks that communicate --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communicator.h"

#include "Settings.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace fsdp::emulator::nccl {

Communicator::Communicator(const UniqueId &id, int size, int rank, int device,
                           bool isBlocking, int maxCtas)
    : size(size), rank(rank), device(device), isBlocking(isBlocking),
      name(id.bytes, strnlen(id.bytes, 64)),
      mesh(id, size, rank, device, maxCtas), sent(size), received(size),
      created_(std::chrono::steady_clock::now()) {}

void Communicator::beginMeeting() {
  if (!Settings::get().registersGraphs)
    return;
  ++meetings_;
  mesh.sendMeeting();
}

bool Communicator::isMeeting() {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  mesh.progress();
  for (int other = 0; other < size; ++other)
    if (other != rank && mesh.meetingsOf(other) < meetings_)
      return true;
  return false;
}

void Communicator::fail(Error code, const std::string &message) {
  if (asyncError != success)
    return;
  asyncError = code;
  lastError = message;
  report("rank " + std::to_string(rank) + " of communicator " + name + ": " +
         message);
}

Error Communicator::progress(std::unique_lock<std::recursive_mutex> &lock) {
  if (asyncError != success)
    return asyncError;
  if (!isJoined_) {
    try {
      isJoined_ = mesh.join();
    } catch (const Mistake &mistake) {
      fail(mistake.code, mistake.what());
      return asyncError;
    }
    std::chrono::duration<double> waited =
        std::chrono::steady_clock::now() - created_;
    if (!isJoined_ && waited.count() > Settings::get().timeout)
      fail(remoteError, "expected all ranks within " +
                            std::to_string(Settings::get().timeout) +
                            " s, got none of " + mesh.missing());
    if (!isJoined_)
      return asyncError != success ? asyncError : inProgress;
  }
  if (!putOff)
    return isFinalized && isHeldByGraphs() ? inProgress : success;
  if (++polls_ < 3 || isMeeting())
    return inProgress;
  std::function<Error()> issue = std::move(putOff);
  putOff = nullptr;
  lock.unlock();
  Error error = issue();
  lock.lock();
  if (error != success)
    fail(error, "expected the driver to take work, got an error");
  return error;
}

RanksOfProcess &RanksOfProcess::get() {
  // Work of the driver ends later than this library's objects.
  static auto *ranks = new RanksOfProcess;
  return *ranks;
}

void RanksOfProcess::add(const std::shared_ptr<Communicator> &comm) {
  std::lock_guard<std::mutex> lock(mutex_);
  ranks_[comm->name].comms.push_back(comm);
}

std::vector<std::shared_ptr<Communicator>>
RanksOfProcess::end(const Communicator &comm) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = ranks_.find(comm.name);
  if (found == ranks_.end() ||
      ++found->second.ended < found->second.comms.size())
    return {};
  std::vector<std::shared_ptr<Communicator>> ended =
      std::move(found->second.comms);
  ranks_.erase(found);
  return ended;
}

std::vector<int> RanksOfProcess::peersOf(const Communicator &comm) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<int> devices;
  auto found = ranks_.find(comm.name);
  if (found != ranks_.end())
    for (const std::shared_ptr<Communicator> &other : found->second.comms)
      if (other->device != comm.device)
        devices.push_back(other->device);
  return devices;
}

DeviceTurns &DeviceTurns::of(const Communicator &comm) {
  static std::mutex mutex;
  // The driver has work that ends later than this library's objects.
  static auto *all = new std::map<std::pair<int, std::thread::id>, DeviceTurns>;
  std::lock_guard<std::mutex> lock(mutex);
  return (*all)[{comm.device, comm.owner}];
}

void DeviceTurns::issue(const Operation *operation) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Settings::get().isOrderImplicit)
    issued_.push_back(operation);
}

bool DeviceTurns::take(const Operation *operation) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (running_)
    return running_ == operation;
  auto found = std::find(issued_.begin(), issued_.end(), operation);
  if (found != issued_.end()) {
    if (found != issued_.begin())
      return false;
    issued_.pop_front();
  }
  running_ = operation;
  return true;
}

void DeviceTurns::give(const Operation *operation) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (running_ == operation)
    running_ = nullptr;
  std::erase(issued_, operation);
}

} // namespace fsdp::emulator::nccl
