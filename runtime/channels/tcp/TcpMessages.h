//===- TcpMessages.h - What processes of a job say when they meet -*- C++ -*-=//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Messages are the bytes of these structures, on hosts of one byte order: none
// has padding, whose bytes would be those of anything that was there before.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_TCP_TCPMESSAGES_H
#define FSDP_RT_CHANNELS_TCP_TCPMESSAGES_H

#include "channels/tcp/Socket.h"
#include "core/Host.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace fsdp::rt::tcp {

constexpr uint64_t magic = 0x3170637470647366;
/// Of what is said after Greeting and Hello, and in which order.
constexpr uint32_t protocol = 2;
/// The longest text of a message.
constexpr uint32_t maxText = 16 << 10;

/// Rank 0, to who has been connected. This and Hello are the same in every
/// protocol, so that both sides can name versions that differ.
struct Greeting {
  /// `job`: the stableHash of MeetingPoint::job.
  uint64_t magic, job;
  uint32_t protocol, abi;
  /// How long rank 0 waits from now on.
  int64_t nanosecondsLeft;
};

/// The other, thereupon.
struct Hello {
  uint64_t magic, job;
  uint32_t protocol, abi;
  int32_t rank, size, process, port;
  HostId host;
};

/// Rank 0's answer, when all have come or not, before `bytes` bytes: the text
/// of a refusal, or the places of all ranks.
struct Answer {
  uint64_t token;
  uint32_t isRefusal, bytes;
};

/// Where a rank is.
struct Place {
  Address address;
  int32_t process = 0, isBesideRankZero = 0;
  HostId host;
};

/// Who has been connected with another rank's listener, to that.
struct DataHello {
  uint64_t token, channel;
  int32_t rank, unused;
};

static_assert(std::has_unique_object_representations_v<Greeting>);
static_assert(std::has_unique_object_representations_v<Hello>);
static_assert(std::has_unique_object_representations_v<Answer>);
static_assert(std::has_unique_object_representations_v<Place>);
static_assert(std::has_unique_object_representations_v<DataHello>);

/// A connection whose peer may be no rank of the job, and the message that it
/// begins with, as far as that has come.
template <typename T>
struct Incoming {
  Socket socket;
  /// In nowNanoseconds(): until when it has to be whole.
  int64_t deadline = 0;
  T message = {};
  size_t has = 0;

  bool isWhole() const { return has == sizeof(T); }
  /// Takes what has come. The socket is closed where that is not the whole
  /// message and no more will come.
  void take(int64_t now) {
    bool isOpen = receiveSome(socket, &message, sizeof(T), has);
    if (!isWhole() && (!isOpen || now >= deadline))
      socket = Socket();
  }
};

} // namespace fsdp::rt::tcp

#endif // FSDP_RT_CHANNELS_TCP_TCPMESSAGES_H
