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

/// An IPv4 or IPv6 address of a socket, with its port.
struct Address {
  sockaddr_storage bytes = {};
  socklen_t length = 0;

  int port() const;
  void setPort(int port);
  bool isLoopback() const;
  /// "10.0.0.3:29500".
  std::string describe() const;
};

/// The addresses of a host's name.
Result<std::vector<Address>> resolve(const std::string &host, int port);

/// Listens on all of the host's addresses, or on `only`, where not null. Port
/// 0: any.
Result<Socket> listenAt(int port, const Address *only);
int portOf(const Socket &listener);
/// None: nobody is waiting, or the one that was has gone.
Socket acceptOne(const Socket &listener);
/// Fails at `deadline`, in nowNanoseconds().
Result<Socket> connectTo(const Address &address, int64_t deadline);
Address peerOf(const Socket &socket);

/// All of the bytes, or a failure: the end of the connection, or the deadline.
Status sendAll(const Socket &socket, const void *data, size_t bytes,
               int64_t deadline);
Status receiveAll(const Socket &socket, void *data, size_t bytes,
                  int64_t deadline);

/// What the system says of its last call.
std::string lastSystemError();

} // namespace fsdp::rt

#endif // FSDP_RT_CHANNELS_TCP_SOCKET_H
