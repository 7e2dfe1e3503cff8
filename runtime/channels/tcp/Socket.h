//===- Socket.h - Connections of TCP ----------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CHANNELS_TCP_SOCKET_H
#define FSDP_RT_CHANNELS_TCP_SOCKET_H

#include "core/Status.h"

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::rt {

/// A socket that does not block, closed with its owner.
class Socket {
public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  int get() const { return fd_; }
  bool isOpen() const { return fd_ >= 0; }

private:
  int fd_;
};

/// An IPv4 or IPv6 address with a port; bytes of messages.
struct Address {
  /// Of IP: 4 or 6.
  uint32_t version = 4, port = 0;
  /// Of an IPv6 address that is valid on one link only: the link's number.
  uint32_t scope = 0;
  /// As on the network; an IPv4 address is the first four.
  uint8_t ip[16] = {};

  /// An IPv6 address that stands for one of IPv4 (::ffff:a.b.c.d), as sockets
  /// for both report it, becomes that.
  static Address of(const sockaddr_storage &socket);
  /// 127.0.0.1.
  static Address loopback();
  /// Writes it as the system takes it; returns how long it is.
  socklen_t write(sockaddr_storage &socket) const;
  bool isLoopback() const;
  /// Whether one that came from elsewhere is an address.
  bool isValid() const;
  /// "10.0.0.3:29500", "[fd00::3]:29500".
  std::string describe() const;
};

/// "gpu01:29500", "[::1]:29500".
std::string describeEndpoint(const std::string &host, int port);

/// The addresses of a host's name, at least one.
Result<std::vector<Address>> resolve(const std::string &host, int port);

/// Listens on all of the host's addresses, or on `only`, where not null. Port
/// 0: any.
Result<Socket> listenAt(int port, const Address *only);
int portOf(const Socket &listener);
/// The socket that the parent of this process left it as descriptor `fd`; fails
/// where that is none that listens.
Result<Socket> adoptListener(int fd);
/// Not open where nobody is waiting. Fails where this process or the system has
/// no room for a connection.
Result<Socket> acceptOne(const Socket &listener);
/// Fails at `deadline`, in nowNanoseconds().
Result<Socket> connectTo(const Address &address, int64_t deadline);
Address peerOf(const Socket &socket);
/// Ends a connection whose peer's host has not acknowledged what was sent for
/// 20 s. For short messages alone: the peer of a long one that is busy with
/// something else, and has no room for it meanwhile, looks the same.
void endWhenUnacknowledged(const Socket &socket);

/// All of the bytes, or a failure: the end of the connection, or the deadline.
Status sendAll(const Socket &socket, const void *data, size_t bytes,
               int64_t deadline);
Status receiveAll(const Socket &socket, void *data, size_t bytes,
                  int64_t deadline);

/// Of a message: what has come by now, from its byte `has` on. False where the
/// connection has ended.
bool receiveSome(const Socket &socket, void *data, size_t bytes, size_t &has);

/// How many files this process has open.
int64_t countOpenFiles();
/// Lets this process have `count` files open: raises its soft limit, up to the
/// hard one. Fails with both numbers where that is too low.
Status allowOpenFiles(int64_t count);

/// What the system says of its last call.
std::string lastSystemError();

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_TCP_SOCKET_H
