//===- Communicator.h - Ranks that communicate, and what they do *- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_LIBRARIES_NCCL_COMMUNICATOR_H
#define FSDP_EMULATOR_LIBRARIES_NCCL_COMMUNICATOR_H

#include "Mesh.h"
#include "Traffic.h"
#include "Types.h"

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fsdp::emulator::nccl {

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
  /// A call is captured: NCCL registers its buffers, for which all ranks meet.
  void beginMeeting();
  /// Whether a rank has not come to it. Nothing ends that, not an abort.
  bool isMeeting();

  /// Operations of ncclRedOpCreatePreMulSum, from this number on.
  static constexpr int firstFactor = 5;
  std::vector<float> factors;
  /// What each rank's part is multiplied by.
  float factorOf(int reduction) const {
    return reduction < firstFactor ? 1
                                   : factors[size_t(reduction - firstFactor)];
  }

  /// What was issued and has not begun, in its order; captured work has none.
  std::deque<const Operation *> issued;
  int outstanding = 0;
  /// Work that graphs hold. NCCL hears of a graph's end from a thread of the
  /// driver's, which comes later.
  void holdCaptured() { ++captured_; }
  void releaseCaptured() {
    --captured_;
    released_ = std::chrono::steady_clock::now();
  }
  bool isHeldByGraphs() const {
    constexpr std::chrono::milliseconds lateness(2);
    return captured_ > 0 ||
           std::chrono::steady_clock::now() - released_ < lateness;
  }
  /// How many collectives have begun; and what was sent to, and received from,
  /// each rank.
  uint64_t collectives = 0;
  std::vector<uint64_t> sent, received;
  /// Of calls that have begun.
  Traffic traffic;

private:
  bool isJoined_ = false;
  int polls_ = 0, captured_ = 0;
  /// Captured calls that this rank has come to.
  uint64_t meetings_ = 0;
  std::chrono::steady_clock::time_point released_;
  std::chrono::steady_clock::time_point created_;
};

/// Ranks of a communicator that are threads of this process. They end together:
/// the last of them frees what all have.
class RanksOfProcess {
public:
  static RanksOfProcess &get();
  void add(const std::shared_ptr<Communicator> &comm);
  /// Those that have ended now; none while others have not.
  std::vector<std::shared_ptr<Communicator>> end(const Communicator &comm);
  /// Devices of the other ranks.
  std::vector<int> peersOf(const Communicator &comm);

private:
  struct Ranks {
    std::vector<std::shared_ptr<Communicator>> comms;
    size_t ended = 0;
  };
  std::mutex mutex_;
  std::map<std::string, Ranks> ranks_;
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
  /// Communicators of a device need one order on all ranks, unless the library
  /// keeps that of issue: as fsdpEmulatorIssue() has it.
  uint64_t turn() const;

private:
  /// Of one call of the operation that is under way.
  struct Progress {
    uint64_t number;
    /// By rank: what has come, if it has.
    std::vector<Message> messages;
    std::vector<bool> hasCome;
  };
  void checkPeers() const;
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

} // namespace fsdp::emulator::nccl

#endif // FSDP_EMULATOR_LIBRARIES_NCCL_COMMUNICATOR_H
