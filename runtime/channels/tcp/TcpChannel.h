//===- TcpChannel.h - Collectives over connections --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_TCP_TCPCHANNEL_H
#define FSDP_RT_CHANNELS_TCP_TCPCHANNEL_H

#include "channels/tcp/TcpControl.h"
#include "channels/tcp/TcpJob.h"
#include "core/Group.h"
#include "core/WaitLimit.h"
#include "hal/Channel.h"

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::rt {

class ThreadPool;

/// Connections move bytes; sums are added up here, in the order of every
/// backend. A connection with a rank of the group is made when the first
/// collective needs it, memory for others' terms when the first sum does; no
/// later call allocates any.
class TcpChannel final : public hal::HostChannel {
public:
  /// `nth`: how often a group of these ranks was made. `waitLimit`:
  /// World::waitLimit. `job` and `control` must outlive it; `job` has reserved
  /// a connection for each other rank.
  TcpChannel(TcpJob &job, TcpControl &control, std::vector<int> ranks,
             int index, int nth, ThreadPool *pool, int64_t waitLimit);
  ~TcpChannel() override;

  int rank() const override { return index_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  /// Every sum is one of SumPart, wherever it is computed.
  hal::Numerics numerics() const override { return {}; }
  int64_t waitNanoseconds() const override { return waited_; }

  Status run(const hal::HostCollective &what) override;
  Status broadcast(const void *src, void *dst, int64_t bytes,
                   int root) override;
  Status barrier() override;

private:
  /// Travels before the bytes of a collective, so that ranks which call
  /// different ones find it.
  struct Header {
    int32_t kind = 0, dtype = 0;
    int64_t count = 0, divisor = 1;
    int32_t root = 0, padding = 0;
    bool operator==(const Header &other) const;
    std::string describe() const;
  };
  /// Bytes to or from one rank.
  struct Flow {
    int peer;
    bool isSend;
    char *data;
    int64_t bytes, at;
    /// How much of the header has come or gone; all of it where there is none.
    int64_t headerAt;
    Header header;
  };

  void addSend(int peer, const void *data, int64_t bytes, bool hasHeader);
  void addReceive(int peer, void *data, int64_t bytes, bool hasHeader);
  /// Moves all that was added.
  Status move();
  Status advance(Flow &flow, bool &hasMoved);
  /// The program's failure, of which `what` may be a consequence that came
  /// before the news; else `what`.
  Status causeOf(const Status &what) const;
  Status endOf(int peer, const std::string &why) const;
  /// Of a wait in which nothing has moved for too long.
  Status late(const WaitLimit &limit) const;
  Status open(int peer);

  /// Rank i's bytes [begin, end) of `parts` come to all ranks' `dst`, where
  /// this rank's are already.
  Status spread(char *dst, const std::vector<Part> &parts, bool hasHeader);
  /// dst = the sum of all ranks' elements of `parts`, of which this rank has
  /// its own part to add up.
  Status reduce(const hal::HostCollective &what, const char *src, char *dst,
                const std::vector<Part> &parts);
  Status allReduce(const hal::HostCollective &what);

  TcpJob &job_;
  TcpControl &control_;
  std::vector<int> ranks_;
  int index_;
  uint64_t id_;
  ThreadPool *pool_;
  int64_t waitLimit_;
  int64_t waited_ = 0;
  Header current_;
  std::vector<Socket> links_;
  std::vector<Flow> flows_;
  std::vector<pollfd> polled_;
  std::vector<Part> parts_;
  std::vector<const void *> sources_;
  std::vector<char> staging_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_TCP_TCPCHANNEL_H
