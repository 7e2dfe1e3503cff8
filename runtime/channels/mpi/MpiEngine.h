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
// Every channel has a route to each of its ranks, which is a tag: so messages
// of one channel never meet those of another, and several can be under way at
// once. Two streams of messages run over a route. The packet stream carries one
// packet per collective and says what is about to happen; the data stream
// carries the bytes.
//
// A third stream, from any rank to any rank, tells of failures and of the end
// of a rank's part of the program, with how many packets that rank has sent
// over each route. Whoever waits for a packet beyond that number learns that
// the peer went elsewhere instead of waiting forever, in whatever order
// messages arrive.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_MPI_MPIENGINE_H
#define FSDP_RT_CHANNELS_MPI_MPIENGINE_H

#include "HostResources.h"
#include "MpiLibrary.h"
#include "core/Status.h"
#include "hal/Transfers.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace fsdp::rt {

/// What a packet announces.
struct PacketHeader {
  int64_t group = 0;
  int64_t count = 0;
  int64_t divisor = 1;
  /// A collective of fsdp_rt_transfer_kind, or a ControlKind.
  int32_t kind = controlBarrier;
  int32_t dtype = 0;
  int32_t root = 0;
  /// Bytes of the packet's payload.
  int32_t payload = 0;
};

struct Packet {
  static constexpr int64_t maxPayload = 1024;
  PacketHeader header;
  char payload[maxPayload];
};

/// One channel's way to another rank.
struct Route {
  int rank = 0;
  int tag = 0;
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

  /// Whether MPI can be called: between init() and finalize().
  bool isUp() const { return listening_ != nullptr; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Tells every rank that this one's part of the program ended with `status`
  /// and waits for the same from all. Returns the program's failure, and in
  /// `isOurs` whether it arose here; of several that of the lowest rank. Where
  /// a rank does not come to its end after a failure, ends the whole job.
  Status endRun(const Status &status, bool &isOurs);

  /// This rank has failed. Callable from any thread; the communication thread
  /// acts on it when it next looks for notices.
  void requestAbort(const Status &why);
  /// Whether anything has failed anywhere; looks for notices.
  bool hasFailed();
  /// The failure that hasFailed() met.
  Status failure() const;

  /// What hasFailed() saw last; looks for nothing.
  bool isFailed() const { return !failure_.isOk(); }

  /// The next route to `rank`: both ranks number them alike, since both open
  /// channels in one order. Fails where MPI has no tags left.
  Result<Route> openRoute(int rank);

  /// Post messages of the data stream, at most INT_MAX bytes each.
  void send(RequestSet &set, Route to, const void *data, int64_t bytes);
  void receive(RequestSet &set, Route from, void *data, int64_t bytes);
  /// Post packets of the packet stream. A received one has a number, for
  /// willCome().
  void sendPacket(RequestSet &set, Route to, const Packet &packet);
  int64_t receivePacket(RequestSet &set, Route from, Packet &packet);
  /// False: the rank's part of the program has ended before it sent packet
  /// `number` over this channel.
  bool willCome(Route from, int64_t number) const;

  /// Whether all of the set have ended, and the set is empty now. Also moves
  /// whatever else is under way.
  bool test(RequestSet &set);
  /// Between looks at what does not move, of which this was the `turns`-th
  /// since `start` (nowNanoseconds()): the longer that is, the longer it takes.
  void pause(int64_t &turns, int64_t start) const;
  /// Empties sets so that no late message is written to memory that is about
  /// to go away. Messages under way get `patience` nanoseconds, all together.
  void abandon(RequestSet *sets, int count, int64_t patience);

private:
  /// What the third stream carries.
  struct Notice {
    enum Kind : int32_t { Failure, End };
    static constexpr int maxRoutes = 64;
    int32_t kind;
    /// Of a failure, here or in an End: where it arose, and its code, 0 in an
    /// End of a rank that knows of none.
    int32_t origin;
    int32_t code;
    /// Of an End: the routes between sender and receiver, and how many are
    /// told of here; more follow in notices of their own.
    int32_t routes;
    int32_t told;
    char text[Packet::maxPayload];
    int64_t packets[maxRoutes];
  };
  /// Packets that were sent over a channel, and that were asked for.
  struct Traffic {
    int64_t sent = 0;
    int64_t awaited = 0;
  };
  /// The end of another rank's part of a run.
  struct End {
    bool hasCome = false;
    int origin = -1;
    Status status;
    /// By channel.
    std::vector<int64_t> packets;
  };

  Notice notice(Notice::Kind kind) const;
  void post(RequestSet &set, bool isReceive, const char *call, int error);
  void fail(int origin, Status status);
  void announce();
  void listen();
  void startListening();
  void takeEnd(int source);
  std::vector<Notice> endsFor(int peer) const;
  bool exchangeEnds();
  void beginNextRun();
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
  SegmentFile segment_;

  /// The first failure that is known here and the rank where it arose.
  int origin_ = -1;
  Status failure_;
  Notice incoming_ = {};
  Notice outgoing_ = {};
  MPI_Request listening_ = nullptr;
  RequestSet announcements_;
  /// By rank: its routes of this run, the first one's tag, and its end; and
  /// of one that is already through the next run, that run's.
  std::vector<std::vector<Traffic>> routes_;
  std::vector<int> firstTags_;
  std::vector<End> ends_, nextEnds_;
  /// Ranks whose end of this run has come.
  int ended_ = 0;
  int maxTag_ = 0;

  std::atomic<bool> isAbortRequested_{false};
  std::mutex mutex_;
  Status requested_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_MPI_MPIENGINE_H
