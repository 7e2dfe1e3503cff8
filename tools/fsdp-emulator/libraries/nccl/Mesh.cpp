//===- Mesh.cpp - Connections among the ranks of a communicator -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mesh.h"

#include "Settings.h"

#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace fsdp::emulator::nccl {

namespace {

constexpr uint32_t magic = 0x6e63636c;
constexpr int socketType = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

/// A name that no file has: the kernel forgets it with the socket.
socklen_t makeAddress(const std::string &name, sockaddr_un &address) {
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

bool isLater() { return errno == EAGAIN || errno == EWOULDBLOCK; }

} // namespace

Mesh::Mesh(const UniqueId &id, int size, int rank, int device, int maxCtas)
    : name_(id.bytes, strnlen(id.bytes, 64)), size_(size), rank_(rank),
      device_(device), maxCtas_(maxCtas), peers_(size) {
  peers_[rank].isMet = peers_[rank].hasGreeted = true;
  peers_[rank].device = device;
  peers_[rank].host = hello().host;
  listener_ = socket(AF_UNIX, socketType, 0);
  sockaddr_un address;
  socklen_t length = makeAddress(name_ + "-" + std::to_string(rank_), address);
  if (listener_ < 0 ||
      bind(listener_, reinterpret_cast<sockaddr *>(&address), length) != 0 ||
      listen(listener_, size + 1) != 0) {
    std::string why = std::strerror(errno);
    if (listener_ >= 0)
      close(listener_);
    throw Mistake(invalidUsage, "expected one rank " + std::to_string(rank) +
                                    " of communicator " + name_ +
                                    ", got: " + why);
  }
}

Mesh::~Mesh() {
  close(listener_);
  for (int socket : strangers_)
    close(socket);
  for (Peer &peer : peers_)
    if (peer.socket >= 0)
      close(peer.socket);
}

Mesh::Hello Mesh::hello() const {
  Hello hello = {magic, size_, rank_, device_, maxCtas_, {}};
  SharingSettings::get().host.copy(hello.host, sizeof(hello.host) - 1);
  return hello;
}

void Mesh::greet(int socket) const {
  Hello hello = this->hello();
  // The first bytes of a connection always have room.
  (void)::send(socket, &hello, sizeof(hello), MSG_NOSIGNAL);
}

bool Mesh::readHello(int socket, Hello &hello) {
  ssize_t got = recv(socket, &hello, sizeof(hello), MSG_PEEK);
  if (got < ssize_t(sizeof(hello)))
    return false;
  (void)recv(socket, &hello, sizeof(hello), 0);
  return true;
}

void Mesh::checkDevice(const Hello &other) {
  const SharingSettings &settings = SharingSettings::get();
  if (other.device != device_ || settings.host != other.host)
    return;
  if (!settings.mayShareDevices)
    throw Mistake(invalidUsage,
                  "Duplicate GPU detected : rank " + std::to_string(rank_) +
                      " and rank " + std::to_string(other.rank) +
                      " both on CUDA device " + std::to_string(device_));
  // Kernels of all of them have to fit the device at once.
  constexpr int ctasOfDevice = 32, ctasOfRank = 16;
  int ctas = maxCtas_ == undefined ? ctasOfRank : maxCtas_;
  if (++sharers_ * ctas > ctasOfDevice)
    throw Mistake(invalidUsage,
                  "expected ranks on one device to take at most " +
                      std::to_string(ctasOfDevice) + " CTAs together, got " +
                      std::to_string(sharers_) + " ranks of " +
                      std::to_string(ctas));
}

void Mesh::meet(int number, const Hello &hello) {
  Peer &peer = peers_[number];
  if (hello.magic != magic || hello.rank != number)
    throw Mistake(internalError, "expected a rank of the communicator");
  if (hello.size != size_)
    throw Mistake(
        invalidArgument,
        "communicator " + name_ + ": expected " + std::to_string(size_) +
            " ranks, as rank " + std::to_string(rank_) + " does, got " +
            std::to_string(hello.size) + " on rank " + std::to_string(number));
  checkDevice(hello);
  peer.device = hello.device;
  peer.host.assign(hello.host, strnlen(hello.host, sizeof(hello.host)));
  peer.isMet = true;
}

void Mesh::connectTo(int number) {
  Peer &peer = peers_[number];
  if (peer.socket < 0) {
    int made = socket(AF_UNIX, socketType, 0);
    sockaddr_un address;
    socklen_t length =
        makeAddress(name_ + "-" + std::to_string(number), address);
    // It may not be there yet.
    if (connect(made, reinterpret_cast<sockaddr *>(&address), length) != 0) {
      close(made);
      return;
    }
    peer.socket = made;
    greet(made);
  }
  Hello hello;
  if (readHello(peer.socket, hello))
    meet(number, hello);
}

void Mesh::acceptOthers() {
  for (int socket; (socket = accept4(listener_, nullptr, nullptr,
                                     SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;)
    strangers_.push_back(socket);
  for (size_t i = 0; i < strangers_.size();) {
    Hello hello;
    int socket = strangers_[i];
    if (!readHello(socket, hello)) {
      ++i;
      continue;
    }
    strangers_.erase(strangers_.begin() + long(i));
    greet(socket);
    bool isRank = hello.rank >= 0 && hello.rank < size_;
    if (!isRank || peers_[hello.rank].socket >= 0) {
      close(socket);
      throw Mistake(invalidUsage, "communicator " + name_ +
                                      ": expected each rank once, got "
                                      "rank " +
                                      std::to_string(hello.rank) + " again");
    }
    peers_[hello.rank].socket = socket;
    meet(hello.rank, hello);
  }
}

std::vector<bool> Mesh::ranksOnNode() const {
  int size = Settings::get().nodeDevices;
  auto nodeOf = [&](const Peer &peer) {
    return size > 0 ? peer.device / size : 0;
  };
  const Peer &own = peers_[rank_];
  std::vector<bool> areOnNode;
  for (const Peer &peer : peers_)
    areOnNode.push_back(peer.host == own.host && nodeOf(peer) == nodeOf(own));
  return areOnNode;
}

bool Mesh::join() {
  acceptOthers();
  bool areAll = true;
  for (int number = 0; number < size_; ++number) {
    if (number < rank_ && !peers_[number].isMet)
      connectTo(number);
    areAll &= peers_[number].isMet;
  }
  return areAll;
}

std::string Mesh::missing() const {
  std::string text;
  for (int number = 0; number < size_; ++number)
    if (!peers_[number].isMet)
      text += (text.empty() ? "rank " : ", ") + std::to_string(number);
  return text;
}

void Mesh::send(int number, const Header &header, const void *bytes) {
  Peer &peer = peers_[number];
  auto data = static_cast<const char *>(bytes);
  if (number == rank_) {
    peer.received.push_back({header, {data, data + header.bytes}});
    return;
  }
  auto begin = reinterpret_cast<const char *>(&header);
  peer.outgoing.insert(peer.outgoing.end(), begin, begin + sizeof(header));
  peer.outgoing.insert(peer.outgoing.end(), data, data + header.bytes);
  flush(peer);
}

void Mesh::sendMeeting() {
  Header header = {};
  header.kind = Kind::Meeting;
  for (int number = 0; number < size_; ++number)
    if (number != rank_)
      send(number, header, nullptr);
}

void Mesh::flush(Peer &peer) {
  size_t sent = 0;
  while (sent < peer.outgoing.size() && peer.socket >= 0) {
    ssize_t now = ::send(peer.socket, peer.outgoing.data() + sent,
                         peer.outgoing.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) {
      // Who has left reads nothing more.
      if (now < 0 && !isLater())
        sent = peer.outgoing.size();
      break;
    }
    sent += size_t(now);
  }
  peer.outgoing.erase(peer.outgoing.begin(),
                      peer.outgoing.begin() + long(sent));
}

void Mesh::receive(Peer &peer) {
  char piece[1 << 16];
  while (peer.socket >= 0 && !peer.hasLeft) {
    ssize_t got = recv(peer.socket, piece, sizeof(piece), 0);
    if (got > 0) {
      peer.incoming.insert(peer.incoming.end(), piece, piece + got);
      continue;
    }
    peer.hasLeft = got == 0 || !isLater();
    break;
  }
  size_t at = 0;
  Header header;
  while (peer.incoming.size() - at >= sizeof(header)) {
    const char *from = peer.incoming.data() + at;
    std::memcpy(&header, from, sizeof(header));
    if (peer.incoming.size() - at < sizeof(header) + header.bytes)
      break;
    from += sizeof(header);
    if (header.kind == Kind::Meeting)
      ++peer.meetings;
    else
      peer.received.push_back({header, {from, from + header.bytes}});
    at += sizeof(header) + header.bytes;
  }
  peer.incoming.erase(peer.incoming.begin(), peer.incoming.begin() + long(at));
}

void Mesh::progress() {
  for (Peer &peer : peers_) {
    flush(peer);
    receive(peer);
  }
}

bool Mesh::isFlushed() const {
  for (const Peer &peer : peers_)
    if (!peer.outgoing.empty())
      return false;
  return true;
}

} // namespace fsdp::emulator::nccl
