//===- Socket.cpp - Connections of TCP ------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "channels/tcp/Socket.h"

#include "core/Clock.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace fsdp::rt {

namespace {

constexpr int socketType = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

void setOption(int fd, int level, int option, int value) {
  (void)setsockopt(fd, level, option, &value, sizeof(value));
}

/// A host that is gone says nothing: the system asks it, and gives up.
void prepare(int fd) {
  setOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  setOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  setOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  setOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
  setOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
}

/// Whether `events` have come; false at the deadline.
bool waitFor(int fd, short events, int64_t deadline) {
  for (;;) {
    int64_t left = deadline - nowNanoseconds();
    if (left <= 0)
      return false;
    pollfd one = {fd, events, 0};
    auto milliseconds =
        static_cast<int>(std::min<int64_t>(left / 1'000'000 + 1, 1'000));
    int ready = poll(&one, 1, milliseconds);
    if (ready > 0)
      return true;
    if (ready < 0 && errno != EINTR)
      return true;
  }
}

Status lateStatus() {
  return Status::failed("expected an answer in time, got none");
}

} // namespace

std::string lastSystemError() { return std::strerror(errno); }

Socket::~Socket() {
  if (fd_ >= 0)
    ::close(fd_);
}

int Address::port() const {
  if (bytes.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6 &>(bytes).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in &>(bytes).sin_port);
}

void Address::setPort(int port) {
  auto number = htons(static_cast<uint16_t>(port));
  if (bytes.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6 &>(bytes).sin6_port = number;
  else
    reinterpret_cast<sockaddr_in &>(bytes).sin_port = number;
}

bool Address::isLoopback() const {
  constexpr uint8_t net = 127;
  if (bytes.ss_family == AF_INET) {
    auto &ip = reinterpret_cast<const sockaddr_in &>(bytes).sin_addr;
    return ntohl(ip.s_addr) >> 24 == net;
  }
  auto &ip = reinterpret_cast<const sockaddr_in6 &>(bytes).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&ip) ||
         (IN6_IS_ADDR_V4MAPPED(&ip) && ip.s6_addr[12] == net);
}

std::string Address::describe() const {
  char host[NI_MAXHOST] = "?";
  (void)getnameinfo(reinterpret_cast<const sockaddr *>(&bytes), length, host,
                    sizeof(host), nullptr, 0, NI_NUMERICHOST);
  return std::string(host) + ":" + std::to_string(port());
}

Result<std::vector<Address>> resolve(const std::string &host, int port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0)
    return Status::failed("cannot find the host '" + host +
                          "': " + gai_strerror(error));
  std::vector<Address> addresses;
  for (addrinfo *one = found; one; one = one->ai_next) {
    Address address;
    std::memcpy(&address.bytes, one->ai_addr, one->ai_addrlen);
    address.length = one->ai_addrlen;
    address.setPort(port);
    addresses.push_back(address);
  }
  freeaddrinfo(found);
  return addresses;
}

static Result<Socket> listenOn(Address address, int port) {
  constexpr int backlog = 1024;
  address.setPort(port);
  Socket made(socket(address.bytes.ss_family, socketType, 0));
  if (made.isOpen()) {
    setOption(made.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (address.bytes.ss_family == AF_INET6)
      setOption(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (bind(made.get(), reinterpret_cast<sockaddr *>(&address.bytes),
             address.length) == 0 &&
        listen(made.get(), backlog) == 0)
      return made;
  }
  return Status::failed("cannot listen at port " + std::to_string(port) + ": " +
                        lastSystemError());
}

Result<Socket> listenAt(int port, const Address *only) {
  if (only)
    return listenOn(*only, port);
  // Where IPv6 is there, its sockets take connections of IPv4, too.
  Address six, four;
  six.bytes.ss_family = AF_INET6;
  six.length = sizeof(sockaddr_in6);
  four.bytes.ss_family = AF_INET;
  four.length = sizeof(sockaddr_in);
  Result<Socket> made = listenOn(six, port);
  return made.isOk() || errno == EADDRINUSE ? std::move(made)
                                            : listenOn(four, port);
}

int portOf(const Socket &listener) {
  Address address;
  address.length = sizeof(address.bytes);
  (void)getsockname(listener.get(),
                    reinterpret_cast<sockaddr *>(&address.bytes),
                    &address.length);
  return address.port();
}

Socket acceptOne(const Socket &listener) {
  Socket made(
      accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (made.isOpen())
    prepare(made.get());
  return made;
}

Result<Socket> connectTo(const Address &address, int64_t deadline) {
  Socket made(socket(address.bytes.ss_family, socketType, 0));
  if (!made.isOpen())
    return Status::failed("cannot make a socket: " + lastSystemError());
  prepare(made.get());
  int error = 0;
  if (connect(made.get(), reinterpret_cast<const sockaddr *>(&address.bytes),
              address.length) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      if (!waitFor(made.get(), POLLOUT, deadline))
        return lateStatus().withContext(address.describe());
      socklen_t size = sizeof(error);
      (void)getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error != 0)
    return Status::failed(address.describe() + ": " + std::strerror(error));
  return made;
}

Address peerOf(const Socket &socket) {
  Address address;
  address.length = sizeof(address.bytes);
  (void)getpeername(socket.get(), reinterpret_cast<sockaddr *>(&address.bytes),
                    &address.length);
  return address;
}

Status sendAll(const Socket &socket, const void *data, size_t bytes,
               int64_t deadline) {
  auto at = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t sent = ::send(socket.get(), at, bytes, MSG_NOSIGNAL);
    if (sent >= 0) {
      at += sent;
      bytes -= static_cast<size_t>(sent);
      continue;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
      return Status::failed("cannot send: " + lastSystemError());
    if (!waitFor(socket.get(), POLLOUT, deadline))
      return lateStatus();
  }
  return Status::ok();
}

Status receiveAll(const Socket &socket, void *data, size_t bytes,
                  int64_t deadline) {
  auto at = static_cast<char *>(data);
  while (bytes > 0) {
    ssize_t got = ::recv(socket.get(), at, bytes, 0);
    if (got > 0) {
      at += got;
      bytes -= static_cast<size_t>(got);
      continue;
    }
    if (got == 0)
      return Status::failed("the connection has ended");
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
      return Status::failed("cannot receive: " + lastSystemError());
    if (!waitFor(socket.get(), POLLIN, deadline))
      return lateStatus();
  }
  return Status::ok();
}

} // namespace fsdp::rt
