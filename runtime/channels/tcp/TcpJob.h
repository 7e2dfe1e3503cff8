//===- TcpJob.h - Processes that have met -----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_TCP_TCPJOB_H
#define FSDP_RT_CHANNELS_TCP_TCPJOB_H

#include "channels/tcp/Socket.h"
#include "channels/tcp/TcpMessages.h"
#include "control/Launch.h"
#include "control/MeetingPoint.h"
#include "core/Status.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::rt {

/// Users say in it how many seconds ranks wait for each other at the start.
constexpr const char *connectTimeoutVariable = "FSDP_CONNECT_TIMEOUT";

/// One process of a job whose processes have met: connections with rank 0, and
/// where all can be found.
class TcpJob {
public:
  /// Rank 0 listens at `point`, the others find it there. Fails on every
  /// process that has come, `seconds` after rank 0 began, where ranks are
  /// missing, which it names; at once where two say that they are the same
  /// rank, their numbers of ranks differ, or their runtimes do. `tell`, if any,
  /// takes a line that names who is missing after a few seconds, and then every
  /// minute: of rank 0, and on hosts of others that wait for it. connect()
  /// tries for `reachSeconds`, or `seconds` where these are fewer.
  static Result<TcpJob>
  meet(const LaunchInfo &launch, const MeetingPoint &point, double seconds,
       std::function<void(const std::string &)> tell = {},
       double reachSeconds = std::numeric_limits<double>::infinity());

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(places_.size()); }
  /// "rank 2 (process 4711 on gpu03)".
  std::string describe(int rank) const;
  /// This rank's number among the ranks of its host, and how many these are.
  int localRank() const;
  int localSize() const;
  /// Of rank 0 to each rank, by rank; of others, the first is to rank 0.
  std::vector<Socket> takeControl() { return std::move(control_); }

  /// A connection with `peer` for a channel that both number alike. `wakeup` is
  /// a descriptor that becomes readable where nobody should wait any more: then
  /// it fails. Callable from any thread.
  Result<Socket> connect(int peer, uint64_t channel, int wakeup,
                         int64_t waitLimit);

  /// So many more connections may be open at once, until they are released:
  /// raises the process's limit of open files. Callable from any thread.
  Status reserve(int64_t connections);
  void release(int64_t connections);

private:
  using Visitor = tcp::Incoming<tcp::Hello>;
  using Arrival = tcp::Incoming<tcp::DataHello>;

  Status host(const LaunchInfo &launch, const MeetingPoint &point,
              int64_t deadline);
  Status answer(const Status &status);
  Status gather(const Socket &listener, const tcp::Hello &own,
                int64_t deadline);
  Status takeVisitor(Visitor &visitor, std::vector<bool> &hasCome);
  Status join(const LaunchInfo &launch, const MeetingPoint &point,
              int64_t deadline);
  Status tryJoin(const Address &address, const tcp::Hello &hello, bool &isOver);
  Status takeAnswer(const Socket &socket, const Address &address,
                    int64_t deadline);
  tcp::Hello hello(const LaunchInfo &launch, uint64_t job) const;
  Result<Socket> accept(int peer, uint64_t channel, int wakeup,
                        int64_t waitLimit);
  Status takeArrivals();

  void tellWaiting(const std::string &what);

  int rank_ = 0;
  double seconds_ = 0, reachSeconds_ = 0;
  std::function<void(const std::string &)> tell_;
  int64_t nextLine_ = 0; // when it is due
  uint64_t token_ = 0;
  std::vector<tcp::Place> places_;
  std::vector<Socket> control_;
  Socket listener_;
  /// Files that may be open at once.
  int64_t reserved_ = 0;
  /// Connections that have not said whose they are.
  std::vector<Arrival> arrivals_;
  /// Connections that came before somebody asked for them, by channel and rank.
  std::map<std::pair<uint64_t, int>, Socket> arrived_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
};

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_TCP_TCPJOB_H
