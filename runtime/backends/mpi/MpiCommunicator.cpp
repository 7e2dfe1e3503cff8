//===- MpiCommunicator.cpp - Collectives by messages ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiCommunicator.h"

#include "core/Clock.h"
#include "core/Reduce.h"
#include "core/ThreadPool.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace fsdp::rt {

namespace {

constexpr int64_t cacheLine = 64;

const char *kindName(int32_t kind) {
  switch (kind) {
  case PacketHeader::AllGather:
    return "all_gather";
  case PacketHeader::ReduceScatter:
    return "reduce_scatter";
  case PacketHeader::AllReduce:
    return "all_reduce";
  case PacketHeader::Broadcast:
    return "broadcast";
  case PacketHeader::Barrier:
    return "barrier";
  }
  return "unknown";
}

std::string describe(const PacketHeader &header) {
  std::string text = kindName(header.kind);
  text += " of " + std::to_string(header.count);
  if (isDtype(header.dtype))
    text += std::string(" x ") + dtypeName(static_cast<Dtype>(header.dtype));
  if (header.divisor != 1)
    text += " / " + std::to_string(header.divisor);
  if (header.kind == PacketHeader::Broadcast)
    text += " from root " + std::to_string(header.root);
  return text;
}

/// FNV-1a over the group's ranks and how often a group of these was made.
int64_t groupId(const std::vector<int> &ranks, int nth) {
  uint64_t hash = 0xcbf29ce484222325;
  auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  for (int rank : ranks)
    add(static_cast<uint64_t>(rank));
  add(~static_cast<uint64_t>(nth));
  return static_cast<int64_t>(hash);
}

} // namespace

Part MpiCommunicator::Parts::bytesOf(int index) const {
  if (!isShared)
    return {index * count * elementBytes, (index + 1) * count * elementBytes};
  Part part = reducePart(count, elementBytes, size, index);
  return {part.begin * elementBytes, part.end * elementBytes};
}

int64_t MpiCommunicator::Parts::maxBytes() const {
  Part first = bytesOf(0);
  return first.end - first.begin;
}

MpiCommunicator::MpiCommunicator(MpiWorker &worker,
                                 const MpiBackendOptions &options,
                                 std::vector<int> ranks, int index, int nth,
                                 ThreadPool *pool)
    : worker_(worker), options_(options), ranks_(std::move(ranks)),
      index_(index), id_(groupId(ranks_, nth)), pool_(pool) {}

Status MpiCommunicator::reserve() {
  int64_t peers = size() - 1;
  if (options_.stagingBytes < 2 * peers * cacheLine)
    return Status::failed("expected staging memory of at least " +
                          std::to_string(2 * peers * cacheLine) +
                          " bytes for a group of " + std::to_string(size()) +
                          " ranks, got " +
                          std::to_string(options_.stagingBytes));
  Result<Arena> staging =
      Arena::map(peers > 0 ? options_.stagingBytes : 0, "staging memory");
  if (!staging.isOk())
    return staging.status();
  staging_ = std::move(*staging);
  ThreadPool none;
  staging_.touch(pool_ ? *pool_ : none);
  packets_.resize(size());
  sources_.resize(size());
  packetRequests_.reserve(2 * peers + 2);
  for (RequestSet &set : blocks_)
    set.reserve(2 * peers);
  for (RequestSet &set : arriving_)
    set.reserve(2);
  // A binomial tree's root has fewer children than an int has bits.
  for (RequestSet &set : leaving_)
    set.reserve(32);
  return Status::ok();
}

PacketHeader MpiCommunicator::header(PacketHeader::Kind kind,
                                     int64_t count) const {
  PacketHeader header;
  header.group = id_;
  header.kind = kind;
  header.count = count;
  header.dtype = FSDP_RT_U8;
  return header;
}

template <typename Work>
Status MpiCommunicator::perform(const Work &work) {
  Status status;
  auto job = [&](MpiEngine &engine) {
    status = engine.hasFailed() ? engine.failure() : work(engine);
  };
  worker_.run(job);
  return status;
}

/// Takes in what has arrived from `peer` and compares it with what this rank is
/// about to do.
Status MpiCommunicator::check(MpiEngine &engine, const PacketHeader &own,
                              int peer) const {
  const PacketHeader &other = packets_[peer].header;
  int self = ranks_[index_];
  if (other.kind == PacketHeader::End) {
    if (Status s = engine.keepEnd(ranks_[peer], packets_[peer]))
      return s;
    return Status::failed(
        "expected rank " + std::to_string(ranks_[peer]) + " in the " +
        kindName(own.kind) + " in which rank " + std::to_string(self) +
        " waits, got the end of that rank's part of the program");
  }
  if (other.group == own.group && other.kind == own.kind &&
      other.count == own.count && other.dtype == own.dtype &&
      other.divisor == own.divisor && other.root == own.root)
    return Status::ok();
  return Status::internal(
      "expected the same collective on all ranks, got " + describe(own) +
      " on rank " + std::to_string(self) + " and " + describe(other) +
      (other.group == own.group ? "" : " of another group") + " on rank " +
      std::to_string(ranks_[peer]));
}

Status MpiCommunicator::giveUp(MpiEngine &engine) {
  // What is half-way between two live ranks ends soon; nobody answers packets.
  constexpr int64_t patience = 100'000'000;
  for (RequestSet &set : blocks_)
    engine.abandon(set, patience);
  for (RequestSet &set : arriving_)
    engine.abandon(set, patience);
  for (RequestSet &set : leaving_)
    engine.abandon(set, patience);
  engine.abandon(packetRequests_, 0);
  // A last packet that came all the same will not come again.
  for (int peer = 0; peer < size(); ++peer)
    if (peer != index_ && packets_[peer].header.kind == PacketHeader::End)
      (void)engine.keepEnd(ranks_[peer], packets_[peer]);
  return engine.failure();
}

Status MpiCommunicator::waitForPackets(MpiEngine &engine) {
  int64_t start = nowNanoseconds();
  bool isDone = engine.wait(packetRequests_);
  waited_ += nowNanoseconds() - start;
  return isDone ? Status::ok() : giveUp(engine);
}

Status MpiCommunicator::exchange(MpiEngine &engine, PacketHeader header,
                                 const void *inlined) {
  Packet &own = packets_[index_];
  if (inlined) {
    header.payload = static_cast<int32_t>(
        header.count * dtypeSize(static_cast<Dtype>(header.dtype)));
    std::memcpy(own.payload, inlined, header.payload);
  }
  own.header = header;
  for (int i = 1; i < size(); ++i) {
    int peer = (index_ + i) % size();
    engine.receivePacket(packetRequests_, ranks_[peer], packets_[peer]);
  }
  for (int i = 1; i < size(); ++i)
    engine.sendPacket(packetRequests_, ranks_[(index_ + i) % size()], own);
  if (Status s = waitForPackets(engine))
    return s;
  Status first;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == index_)
      continue;
    Status status = check(engine, header, peer);
    if (first.isOk())
      first = std::move(status);
  }
  return first;
}

Status MpiCommunicator::meetAsBarrier(MpiEngine &engine, PacketHeader header) {
  packets_[index_].header = header;
  for (int distance = 1; distance < size(); distance *= 2) {
    int from = (index_ - distance + size()) % size();
    engine.receivePacket(packetRequests_, ranks_[from], packets_[from]);
    engine.sendPacket(packetRequests_, ranks_[(index_ + distance) % size()],
                      packets_[index_]);
    if (Status s = waitForPackets(engine))
      return s;
    if (Status s = check(engine, header, from))
      return s;
  }
  return Status::ok();
}

/// In the tree of `root`, ranks count from the root, and rank r hangs below
/// r without its lowest bit.
int MpiCommunicator::parentOf(int root) const {
  int self = (index_ - root + size()) % size();
  return ((self & (self - 1)) + root) % size();
}

template <typename Visit>
void MpiCommunicator::visitChildren(int root, const Visit &visit) {
  int self = (index_ - root + size()) % size();
  int lowest = self == 0 ? size() : self & -self;
  for (int bit = 1; bit < lowest && self + bit < size(); bit *= 2)
    visit((self + bit + root) % size());
}

Status MpiCommunicator::meetInTree(MpiEngine &engine, PacketHeader header) {
  packets_[index_].header = header;
  int parent = parentOf(header.root);
  if (index_ != header.root) {
    engine.receivePacket(packetRequests_, ranks_[parent], packets_[parent]);
    if (Status s = waitForPackets(engine))
      return s;
    if (Status s = check(engine, header, parent))
      return s;
  }
  visitChildren(header.root, [&](int child) {
    engine.sendPacket(packetRequests_, ranks_[child], packets_[index_]);
  });
  return waitForPackets(engine);
}

bool MpiCommunicator::reduce(MpiEngine &engine, const char *src, char *own,
                             const Parts &parts, Dtype dtype, int64_t divisor) {
  int64_t peers = size() - 1;
  int64_t block = std::min(options_.chunkBytes,
                           staging_.size() / std::max<int64_t>(2 * peers, 1));
  block = block / cacheLine * cacheLine;
  int64_t numBlocks = 0;
  if (peers > 0)
    numBlocks = (parts.maxBytes() + block - 1) / block;
  Part mine = parts.bytesOf(index_);
  auto sizeOf = [&](const Part &part, int64_t at) {
    return std::max<int64_t>(std::min(block, part.end - part.begin - at), 0);
  };
  auto slot = [&](int64_t b, int peer) {
    int64_t place = peer < index_ ? peer : peer - 1;
    return staging_.data() + ((b % 2) * peers + place) * block;
  };
  auto post = [&](int64_t b) {
    for (int i = 1; i < size(); ++i) {
      int to = (index_ + i) % size(), from = (index_ - i + size()) % size();
      Part theirs = parts.bytesOf(to);
      if (int64_t bytes = sizeOf(mine, b * block))
        engine.receive(blocks_[b % 2], ranks_[from], slot(b, from), bytes);
      if (int64_t bytes = sizeOf(theirs, b * block))
        engine.send(blocks_[b % 2], ranks_[to], src + theirs.begin + b * block,
                    bytes);
    }
  };
  if (numBlocks > 0)
    post(0);
  for (int64_t b = 0; b < numBlocks; ++b) {
    if (!engine.wait(blocks_[b % 2]))
      return false;
    if (b + 1 < numBlocks)
      post(b + 1);
    for (int i = 0; i < size(); ++i)
      sources_[i] = i == index_ ? src + mine.begin + b * block : slot(b, i);
    treeSum(pool_, sources_.data(), size(), own + b * block,
            sizeOf(mine, b * block) / parts.elementBytes, dtype, divisor);
  }
  if (peers == 0) {
    sources_[0] = src;
    treeSum(pool_, sources_.data(), 1, own, parts.count, dtype, divisor);
  }
  return true;
}

bool MpiCommunicator::gather(MpiEngine &engine, const char *own, char *dst,
                             const Parts &parts) {
  Part mine = parts.bytesOf(index_);
  copyBytes(pool_, dst + mine.begin, own, mine.end - mine.begin);
  int64_t chunk = options_.chunkBytes;
  int64_t chunks = (parts.maxBytes() + chunk - 1) / chunk;
  // In step i everybody sends to the i-th next rank and receives from the i-th
  // previous one, chunk after chunk: all ranks walk through the same sequence,
  // so the one that is furthest behind is never waiting for another.
  int64_t turn = 0;
  for (int i = 1; i < size(); ++i) {
    int to = (index_ + i) % size(), from = (index_ - i + size()) % size();
    Part theirs = parts.bytesOf(from);
    for (int64_t c = 0; c < chunks; ++c, ++turn) {
      RequestSet &set = arriving_[turn % window];
      if (!engine.wait(set))
        return false;
      int64_t at = c * chunk;
      int64_t in = std::min(chunk, theirs.end - theirs.begin - at);
      int64_t out = std::min(chunk, mine.end - mine.begin - at);
      if (in > 0)
        engine.receive(set, ranks_[from], dst + theirs.begin + at, in);
      if (out > 0)
        engine.send(set, ranks_[to], dst + mine.begin + at, out);
    }
  }
  for (RequestSet &set : arriving_)
    if (!engine.wait(set))
      return false;
  return true;
}

bool MpiCommunicator::spread(MpiEngine &engine, char *data, int64_t bytes,
                             int root) {
  int64_t chunk = options_.chunkBytes;
  int64_t chunks = (bytes + chunk - 1) / chunk;
  int parent = parentOf(root);
  auto sizeOf = [&](int64_t c) { return std::min(chunk, bytes - c * chunk); };
  auto post = [&](int64_t c) {
    if (index_ != root && c < chunks)
      engine.receive(arriving_[c % window], ranks_[parent], data + c * chunk,
                     sizeOf(c));
  };
  for (int64_t c = 0; c < window; ++c)
    post(c);
  for (int64_t c = 0; c < chunks; ++c) {
    if (!engine.wait(arriving_[c % window]) ||
        !engine.wait(leaving_[c % window]))
      return false;
    post(c + window);
    visitChildren(root, [&](int child) {
      engine.send(leaving_[c % window], ranks_[child], data + c * chunk,
                  sizeOf(c));
    });
  }
  for (RequestSet &set : leaving_)
    if (!engine.wait(set))
      return false;
  return true;
}

Status MpiCommunicator::allGather(const void *src, void *dst, int64_t bytes) {
  PacketHeader what = header(PacketHeader::AllGather, bytes);
  bool isSmall = bytes <= Packet::maxPayload;
  Parts parts;
  parts.count = bytes;
  parts.size = size();
  auto own = static_cast<const char *>(src);
  auto out = static_cast<char *>(dst);
  return perform([&](MpiEngine &engine) -> Status {
    if (Status s = exchange(engine, what, isSmall ? src : nullptr))
      return s;
    if (isSmall) {
      for (int i = 0; i < size() && bytes > 0; ++i)
        std::memcpy(out + i * bytes, packets_[i].payload, bytes);
      return Status::ok();
    }
    return gather(engine, own, out, parts) ? Status::ok() : giveUp(engine);
  });
}

Status MpiCommunicator::reduceScatter(const void *src, void *dst, int64_t count,
                                      Dtype dtype, int64_t divisor) {
  if (Status s = checkReduction(dtype, divisor))
    return s.withContext("reduce_scatter");
  PacketHeader what = header(PacketHeader::ReduceScatter, count);
  what.dtype = dtype;
  what.divisor = divisor;
  Parts parts;
  parts.count = count;
  parts.elementBytes = dtypeSize(dtype);
  parts.size = size();
  return perform([&](MpiEngine &engine) -> Status {
    if (Status s = exchange(engine, what, nullptr))
      return s;
    bool isDone = reduce(engine, static_cast<const char *>(src),
                         static_cast<char *>(dst), parts, dtype, divisor);
    return isDone ? Status::ok() : giveUp(engine);
  });
}

Status MpiCommunicator::allReduce(const void *src, void *dst, int64_t count,
                                  Dtype dtype, int64_t divisor) {
  if (Status s = checkReduction(dtype, divisor))
    return s.withContext("all_reduce");
  PacketHeader what = header(PacketHeader::AllReduce, count);
  what.dtype = dtype;
  what.divisor = divisor;
  Parts parts;
  parts.count = count;
  parts.elementBytes = dtypeSize(dtype);
  parts.size = size();
  parts.isShared = true;
  // One rank's whole contribution fits the packet: everybody adds up all.
  bool isSmall = count * parts.elementBytes <= Packet::maxPayload;
  auto out = static_cast<char *>(dst);
  return perform([&](MpiEngine &engine) -> Status {
    if (Status s = exchange(engine, what, isSmall ? src : nullptr))
      return s;
    if (isSmall) {
      for (int i = 0; i < size(); ++i)
        sources_[i] = packets_[i].payload;
      treeSum(sources_.data(), size(), dst, 0, count, dtype, divisor);
      return Status::ok();
    }
    char *own = out + parts.bytesOf(index_).begin;
    bool isDone = reduce(engine, static_cast<const char *>(src), own, parts,
                         dtype, divisor) &&
                  gather(engine, own, out, parts);
    return isDone ? Status::ok() : giveUp(engine);
  });
}

Status MpiCommunicator::broadcast(const void *src, void *dst, int64_t bytes,
                                  int root) {
  if (root < 0 || root >= size())
    return Status::failed("broadcast: expected a root below " +
                          std::to_string(size()) + ", got " +
                          std::to_string(root));
  PacketHeader what = header(PacketHeader::Broadcast, bytes);
  what.root = root;
  return perform([&](MpiEngine &engine) -> Status {
    if (Status s = meetInTree(engine, what))
      return s;
    if (index_ == root)
      copyBytes(pool_, dst, src, bytes);
    bool isDone = spread(engine, static_cast<char *>(dst), bytes, root);
    return isDone ? Status::ok() : giveUp(engine);
  });
}

Status MpiCommunicator::barrier() {
  PacketHeader what = header(PacketHeader::Barrier, 0);
  return perform(
      [&](MpiEngine &engine) { return meetAsBarrier(engine, what); });
}

} // namespace fsdp::rt
