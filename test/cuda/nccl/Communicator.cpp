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

namespace fsdp::test::nccl {

Communicator::Communicator(const UniqueId &id, int size, int rank, int device,
                           bool isBlocking, int maxCtas)
    : size(size), rank(rank), device(device), isBlocking(isBlocking),
      name(id.bytes, strnlen(id.bytes, 64)),
      mesh(id, size, rank, device, maxCtas), sent(size), received(size),
      created_(std::chrono::steady_clock::now()) {}

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
    return success;
  if (++polls_ < 3)
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

} // namespace fsdp::test::nccl
