//===- Mesh.h - Connections among the ranks of a communicator ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks are threads or processes of one host: each has a socket to each other.
// Nothing blocks; what was sent and is not taken yet is kept.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_LIBRARIES_NCCL_MESH_H
#define FSDP_EMULATOR_LIBRARIES_NCCL_MESH_H

#include "Types.h"

#include <deque>
#include <string>
#include <vector>

namespace fsdp::emulator::nccl {

/// What a rank tells another of a call, before the bytes that it has for it.
struct Header {
  Kind kind;
  int32_t type, reduction, peer;
  uint64_t count;
  /// Of the communicator's collectives, or of what is sent to this rank.
  uint64_t number;
  uint64_t bytes;
};
struct Message {
  Header header;
  std::vector<char> bytes;
};

class Mesh {
public:
  /// This rank can be found from now on.
  Mesh(const UniqueId &id, int size, int rank, int device, int maxCtas);
  ~Mesh();
  Mesh(const Mesh &) = delete;
  Mesh &operator=(const Mesh &) = delete;

  int size() const { return size_; }
  int rank() const { return rank_; }

  /// Meets others, as far as they are there. True: all are. Throws a Mistake
  /// where they do not fit.
  bool join();
  /// "ranks 1, 3" have not been met.
  std::string missing() const;

  void send(int peer, const Header &header, const void *bytes);
  /// Tells all others that this rank has come to a meeting.
  void sendMeeting();
  /// To how many a rank has come.
  uint64_t meetingsOf(int peer) const { return peers_[peer].meetings; }
  /// Moves what can be moved now.
  void progress();
  /// Whether all that was sent is on its way.
  bool isFlushed() const;
  std::deque<Message> &receivedFrom(int peer) { return peers_[peer].received; }
  /// For each rank that has been met, whether it is on this one's node.
  std::vector<bool> ranksOnNode() const;
  /// Whether it has left, and nothing more will come.
  bool hasLeft(int peer) const { return peers_[peer].hasLeft; }

private:
  struct Hello {
    uint32_t magic;
    int32_t size, rank, device, maxCtas;
    char host[64];
  };
  struct Peer {
    int socket = -1;
    bool hasGreeted = false, isMet = false, hasLeft = false;
    int device = -1;
    /// Of NCCL_HOSTID.
    std::string host;
    uint64_t meetings = 0;
    std::vector<char> incoming, outgoing;
    std::deque<Message> received;
  };
  void connectTo(int peer);
  void acceptOthers();
  bool readHello(int socket, Hello &hello);
  void greet(int socket) const;
  void meet(int peer, const Hello &hello);
  Hello hello() const;
  void checkDevice(const Hello &other);
  void receive(Peer &peer);
  void flush(Peer &peer);

  std::string name_;
  int size_, rank_, device_, maxCtas_;
  /// Ranks with this one's device, itself among them.
  int sharers_ = 1;
  int listener_ = -1;
  /// Accepted, of whom nothing is known yet.
  std::vector<int> strangers_;
  std::vector<Peer> peers_;
};

} // namespace fsdp::emulator::nccl

#endif // FSDP_EMULATOR_LIBRARIES_NCCL_MESH_H
