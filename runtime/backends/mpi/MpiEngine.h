//===- MpiEngine.h - Messages between ranks ---------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything here runs on the rank's communication thread, the only one that
// calls MPI, except for requestAbort().
//
// Two streams of messages connect every two ranks. The packet stream carries
// one packet per collective from each rank to each other rank of the group,
// which says what is about to happen, and a last one when a rank's part of the
// program ends: since MPI keeps the order of messages, whoever waits for a
// packet learns of a peer that went elsewhere instead of waiting forever. The
// data stream carries the bytes. A third, from any rank to any rank, tells of
// failures and is looked at in every wait.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_BACKENDS_MPI_MPIENGINE_H
#define FSDP_RT_BACKENDS_MPI_MPIENGINE_H

#include "MpiLibrary.h"
#include "core/Status.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace fsdp::rt {

/// What a packet announces.
struct PacketHeader {
  enum Kind : int32_t {
    /// Of a packet that has not come yet.
    None = -1,
    AllGather,
    ReduceScatter,
    AllReduce,
    Broadcast,
    Barrier,
    /// The sender's body has ended with `code` and, where that is a failure,
    /// the message in the payload; `root` is the rank that failed first.
    End
  };
  int64_t group = 0;
  int64_t count = 0;
  int64_t divisor = 1;
  int32_t kind = Barrier;
  int32_t dtype = 0;
  int32_t root = 0;
  int32_t code = 0;
  /// Bytes of the packet's payload.
  int32_t payload = 0;
  int32_t reserved = 0;
};

struct Packet {
  static constexpr int64_t maxPayload = 1024;
  PacketHeader header;
  char payload[maxPayload];
};

/// Requests that are waited for together. Memory is reserved once.
class RequestSet {
public:
  void reserve(int64_t requests) {
    handles.resize(requests);
    isReceive.resize(requests);
  }
  std::vector<MPI_Request> handles;
  std::vector<char> isReceive;
  int count = 0;
};

class MpiEngine {
public:
  explicit MpiEngine(const MpiLibrary &library) : mpi_(library) {}

  /// MPI_Init and the communicators. `spin`: waits burn the core at first.
  /// `grace`: nanoseconds that a failed program's ranks wait for each other.
  /// `launcherEndsJob`: a rank that ends badly ends the others, too.
  Status init(bool spin, int64_t grace, bool launcherEndsJob);
  void finalize();

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Tells every rank that this one's part of the program ended with `status`
  /// and waits for the same from all. Returns the program's failure, and in
  /// `isOurs` whether it arose here; of several that of the lowest rank. Where
  /// a rank does not come to its end after a failure, ends the whole job.
  Status endRun(const Status &status, bool &isOurs);

  /// This rank has failed. Callable from any thread; the communication thread
  /// acts on it in its next wait.
  void requestAbort(const Status &why);
  /// Whether anything has failed anywhere; looks for notices.
  bool hasFailed();
  /// The failure that hasFailed() or wait() met.
  Status failure() const;

  /// Post messages of the data stream, at most INT_MAX bytes each.
  void send(RequestSet &set, int peer, const void *data, int64_t bytes);
  void receive(RequestSet &set, int peer, void *data, int64_t bytes);
  /// Post packets of the packet stream.
  void sendPacket(RequestSet &set, int peer, const Packet &packet);
  void receivePacket(RequestSet &set, int peer, Packet &packet);
  /// Hands in an End that came while something else was expected. Returns the
  /// failure that it tells of, if any: it may overtake that failure's notice.
  Status keepEnd(int peer, const Packet &packet);

  /// Waits for all of the set and empties it. False: something has failed; the
  /// caller then calls abandon() for each of its sets and gives up.
  bool wait(RequestSet &set);
  /// Empties the set so that no late message is written to memory that is
  /// about to go away. Messages under way get `patience` nanoseconds.
  void abandon(RequestSet &set, int64_t patience);

private:
  struct Notice {
    int32_t origin;
    int32_t code;
    char text[Packet::maxPayload];
  };

  void post(RequestSet &set, bool isReceive, const char *call, int error);
  bool test(RequestSet &set);
  void pause(int64_t &turns, int64_t start) const;
  void fail(int origin, Status status);
  void announce();
  void listen();
  void startListening();
  bool exchangeEnds(const Packet &own);
  [[noreturn]] void abortJob();

  MpiLibrary mpi_;
  MPI_Comm data_ = nullptr;
  MPI_Comm packets_ = nullptr;
  MPI_Comm notices_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
  bool spin_ = false;
  int64_t grace_ = 0;
  bool launcherEndsJob_ = false;

  /// The first failure that is known here and the rank where it arose.
  int origin_ = -1;
  Status failure_;
  Notice incoming_ = {};
  Notice outgoing_ = {};
  MPI_Request listening_ = nullptr;
  RequestSet announcements_;
  /// By rank: its End of this run, once it has come.
  std::vector<Packet> ends_;

  std::atomic<bool> isAbortRequested_{false};
  std::mutex mutex_;
  Status requested_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_BACKENDS_MPI_MPIENGINE_H
