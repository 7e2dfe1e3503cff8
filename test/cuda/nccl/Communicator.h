//===- Communicator.h - Ranks that communicate, and what they do *- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CUDA_NCCL_COMMUNICATOR_H
#define FSDP_TEST_CUDA_NCCL_COMMUNICATOR_H

#include "Mesh.h"
#include "Types.h"

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fsdp::test::nccl {

class Operation;

/// What one rank has of it.
class Communicator {
public:
  Communicator(const UniqueId &id, int size, int rank, int device,
               bool isBlocking, int maxCtas);

  const int size, rank, device;
  const bool isBlocking;
  const std::string name;
  /// Ranks of a process that share a device have turns of their own.
  const std::thread::id owner = std::this_thread::get_id();

  /// Everything below is guarded by it; work that goes takes it again.
  std::recursive_mutex mutex;
  Mesh mesh;
  bool isAborted = false, isFinalized = false;
  /// What has gone wrong by itself.
  Error asyncError = success;
  std::string lastError;

  /// Goes on with what is in progress: meeting the others, work that was put
  /// off. inProgress, success, or what has failed.
  Error progress(std::unique_lock<std::recursive_mutex> &lock);
  void fail(Error code, const std::string &message);

  /// The work of a communicator that does not block is put off until it is
  /// asked for a few times, as another thread of NCCL's issues it.
  std::function<Error()> putOff;
  void putOffUntilAsked(std::function<Error()> issue) {
    putOff = std::move(issue);
    polls_ = 0;
  }

  /// What was issued and has not begun, in its order; captured work has none.
  std::deque<const Operation *> issued;
  int outstanding = 0;
  /// How many collectives have begun; and what was sent to, and received from,
  /// each rank.
  uint64_t collectives = 0;
  std::vector<uint64_t> sent, received;

private:
  bool isJoined_ = false;
  int polls_ = 0;
  std::chrono::steady_clock::time_point created_;
};

/// Work of a stream: the calls of one group.
class Operation {
public:
  Operation(std::shared_ptr<Communicator> comm, std::vector<Call> calls,
            bool isCaptured);
  ~Operation();

  /// As fsdpEmulatorIssue() asks for.
  int run();
  std::string describe() const;
  const std::vector<Call> &calls() const { return calls_; }
  Communicator &communicator() { return *comm_; }

private:
  /// Of one call of the operation that is under way.
  struct Progress {
    uint64_t number;
    /// By rank: what has come, if it has.
    std::vector<Message> messages;
    std::vector<bool> hasCome;
  };
  bool mayBegin();
  void begin();
  void sendFor(size_t index);
  void takeMessages();
  void check(const Call &mine, const Progress &progress, int peer,
             const Message &message) const;
  bool isComplete() const;
  void compute();
  void computeOne(const Call &call, const Progress &progress) const;
  std::string describeMissing() const;
  void end();

  std::shared_ptr<Communicator> comm_;
  std::vector<Call> calls_;
  bool isCaptured_, hasBegun_ = false, isBroken_ = false;
  std::vector<Progress> progress_;
  std::chrono::steady_clock::time_point begun_;
};

/// Kernels that communicate may take a device to themselves, so that those of
/// its other communicators do not begin before they end: here they always do.
class DeviceTurns {
public:
  static DeviceTurns &of(const Communicator &comm);
  /// In the order of issue, where NCCL_LAUNCH_ORDER_IMPLICIT asks for it.
  void issue(const Operation *operation);
  bool take(const Operation *operation);
  void give(const Operation *operation);

private:
  std::mutex mutex_;
  const Operation *running_ = nullptr;
  std::deque<const Operation *> issued_;
};

} // namespace fsdp::test::nccl

#endif // FSDP_TEST_CUDA_NCCL_COMMUNICATOR_H
