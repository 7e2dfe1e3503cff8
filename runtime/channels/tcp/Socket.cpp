//===- Socket.cpp - Connections of TCP ------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "channels/tcp/Socket.h"

#include "core/Clock.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace fsdp::rt {

namespace {

constexpr int socketType = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

void setOption(int fd, int level, int option, int value) {
  (void)setsockopt(fd, level, option, &value, sizeof(value));
}

/// A host that is gone says nothing: while a connection is idle, the system
/// asks it, and gives up after 15 s.
void prepare(int fd) {
  setOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  setOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  setOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  setOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
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

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

Address Address::of(const sockaddr_storage &socket) {
  Address made;
  if (socket.ss_family == AF_INET) {
    auto &four = reinterpret_cast<const sockaddr_in &>(socket);
    made.port = ntohs(four.sin_port);
    std::memcpy(made.ip, &four.sin_addr, sizeof(four.sin_addr));
    return made;
  }
  auto &six = reinterpret_cast<const sockaddr_in6 &>(socket);
  made.port = ntohs(six.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    std::memcpy(made.ip, six.sin6_addr.s6_addr + 12, sizeof(in_addr));
    return made;
  }
  made.version = 6;
  made.scope = six.sin6_scope_id;
  std::memcpy(made.ip, &six.sin6_addr, sizeof(six.sin6_addr));
  return made;
}

Address Address::loopback() {
  Address made;
  made.ip[0] = 127;
  made.ip[3] = 1;
  return made;
}

socklen_t Address::write(sockaddr_storage &socket) const {
  socket = {};
  if (version == 4) {
    auto &four = reinterpret_cast<sockaddr_in &>(socket);
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<uint16_t>(port));
    std::memcpy(&four.sin_addr, ip, sizeof(four.sin_addr));
    return sizeof(four);
  }
  auto &six = reinterpret_cast<sockaddr_in6 &>(socket);
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<uint16_t>(port));
  six.sin6_scope_id = scope;
  std::memcpy(&six.sin6_addr, ip, sizeof(six.sin6_addr));
  return sizeof(six);
}

bool Address::isLoopback() const {
  if (version == 4)
    return ip[0] == 127;
  in6_addr six;
  std::memcpy(&six, ip, sizeof(six));
  return IN6_IS_ADDR_LOOPBACK(&six);
}

bool Address::isValid() const {
  constexpr uint32_t maxPort = 65535;
  return (version == 4 || version == 6) && port >= 1 && port <= maxPort;
}

std::string Address::describe() const {
  sockaddr_storage socket;
  socklen_t length = write(socket);
  char host[NI_MAXHOST] = "?";
  (void)getnameinfo(reinterpret_cast<const sockaddr *>(&socket), length, host,
                    sizeof(host), nullptr, 0, NI_NUMERICHOST);
  return describeEndpoint(host, static_cast<int>(port));
}

std::string describeEndpoint(const std::string &host, int port) {
  bool isSix = host.find(':') != std::string::npos;
  return (isSix ? "[" + host + "]" : host) + ":" + std::to_string(port);
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
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6)
      continue;
    sockaddr_storage socket = {};
    std::memcpy(&socket, one->ai_addr, one->ai_addrlen);
    addresses.push_back(Address::of(socket));
    addresses.back().port = static_cast<uint32_t>(port);
  }
  freeaddrinfo(found);
  if (addresses.empty())
    return Status::failed("expected an IPv4 or IPv6 address of the host '" +
                          host + "', got none");
  return addresses;
}

//===----------------------------------------------------------------------===//
// Connections
//===----------------------------------------------------------------------===//

static Result<Socket> listenOn(const Address &address) {
  sockaddr_storage bytes;
  socklen_t length = address.write(bytes);
  Socket made(socket(bytes.ss_family, socketType, 0));
  if (made.isOpen()) {
    setOption(made.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (address.version == 6)
      setOption(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (bind(made.get(), reinterpret_cast<sockaddr *>(&bytes), length) == 0 &&
        listen(made.get(), SOMAXCONN) == 0)
      return made;
  }
  return Status::failed("cannot listen at port " +
                        std::to_string(address.port) + ": " +
                        lastSystemError());
}

Result<Socket> listenAt(int port, const Address *only) {
  Address address = only ? *only : Address();
  address.port = static_cast<uint32_t>(port);
  if (only)
    return listenOn(address);
  // Where IPv6 is there, its sockets take connections of IPv4, too.
  address.version = 6;
  Result<Socket> made = listenOn(address);
  if (made.isOk() || errno == EADDRINUSE)
    return made;
  address.version = 4;
  return listenOn(address);
}

int portOf(const Socket &listener) {
  sockaddr_storage bytes = {};
  socklen_t length = sizeof(bytes);
  (void)getsockname(listener.get(), reinterpret_cast<sockaddr *>(&bytes),
                    &length);
  return static_cast<int>(Address::of(bytes).port);
}

Result<Socket> adoptListener(int fd) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 ||
      !listens)
    return Status::failed("expected a socket that listens as descriptor " +
                          std::to_string(fd) + ", got none");
  Socket adopted(fd);
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
      fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) != 0)
    return Status::failed("cannot use the socket of descriptor " +
                          std::to_string(fd) + ": " + lastSystemError());
  return adopted;
}

/// Of accept4: whether `error` is that of the one connection which would have
/// been taken, so that the next one can be.
static bool isOfOneConnection(int error) {
  switch (error) {
  case EINTR:
  case ECONNABORTED:
  case EPERM:
  case EPROTO:
  case ENETDOWN:
  case ENOPROTOOPT:
  case EHOSTDOWN:
  case ENONET:
  case EHOSTUNREACH:
  case EOPNOTSUPP:
  case ENETUNREACH:
    return true;
  default:
    return false;
  }
}

Result<Socket> acceptOne(const Socket &listener) {
  for (;;) {
    Socket made(accept4(listener.get(), nullptr, nullptr,
                        SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (made.isOpen()) {
      prepare(made.get());
      return made;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK)
      return Socket();
    if (!isOfOneConnection(errno))
      return Status::failed("cannot accept a connection: " + lastSystemError());
  }
}

Result<Socket> connectTo(const Address &address, int64_t deadline) {
  sockaddr_storage bytes;
  socklen_t length = address.write(bytes);
  Socket made(socket(bytes.ss_family, socketType, 0));
  if (!made.isOpen())
    return Status::failed("cannot make a socket: " + lastSystemError());
  prepare(made.get());
  int error = 0;
  if (connect(made.get(), reinterpret_cast<const sockaddr *>(&bytes), length) !=
      0) {
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
  sockaddr_storage bytes = {};
  socklen_t length = sizeof(bytes);
  (void)getpeername(socket.get(), reinterpret_cast<sockaddr *>(&bytes),
                    &length);
  return Address::of(bytes);
}

void endWhenUnacknowledged(const Socket &socket) {
  constexpr int milliseconds = 20'000;
  setOption(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, milliseconds);
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

bool receiveSome(const Socket &socket, void *data, size_t bytes, size_t &has) {
  while (has < bytes) {
    ssize_t got =
        ::recv(socket.get(), static_cast<char *>(data) + has, bytes - has, 0);
    if (got > 0)
      has += static_cast<size_t>(got);
    else if (got == 0 || errno != EINTR)
      return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

int64_t countOpenFiles() {
  std::error_code error;
  std::filesystem::directory_iterator entries("/proc/self/fd", error), end;
  int64_t count = 0;
  for (; !error && entries != end; entries.increment(error))
    ++count;
  return count;
}

Status allowOpenFiles(int64_t count) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return Status::failed("cannot read the limit of open files: " +
                          lastSystemError());
  auto wanted = static_cast<rlim_t>(count);
  if (limit.rlim_cur >= wanted)
    return Status::ok();
  if (limit.rlim_max < wanted)
    return Status::failed(
        "expected a limit of at least " + std::to_string(wanted) +
        " open files (ulimit -n), got " + std::to_string(limit.rlim_max));
  limit.rlim_cur = wanted;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return Status::failed("cannot raise the limit of open files to " +
                          std::to_string(wanted) + ": " + lastSystemError());
  return Status::ok();
}

} // namespace fsdp::rt
