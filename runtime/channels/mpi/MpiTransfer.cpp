//===- MpiTransfer.cpp - Collectives that take turns ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiTransfer.h"

#include "core/Clock.h"
#include "core/Reduce.h"

#include <algorithm>
#include <cstring>

namespace fsdp::rt {

namespace {

constexpr int64_t cacheLine = 64;

std::string describe(const PacketHeader &header) {
  std::string text = meetingName(header.kind);
  text += " of " + std::to_string(header.count);
  if (isDtype(header.dtype))
    text += std::string(" x ") + dtypeName(static_cast<Dtype>(header.dtype));
  if (header.divisor != 1)
    text += " / " + std::to_string(header.divisor);
  if (header.kind == controlBroadcast)
    text += " from root " + std::to_string(header.root);
  return text;
}

} // namespace

Part MpiParts::bytesOf(int index) const {
  if (!isShared)
    return {index * count * elementBytes, (index + 1) * count * elementBytes};
  Part part = reducePart(count, elementBytes, size, index);
  return {part.begin * elementBytes, part.end * elementBytes};
}

int64_t MpiParts::maxBytes() const {
  Part first = bytesOf(0);
  return first.end - first.begin;
}

MpiJob::Progress MpiTransfer::advance(MpiEngine &engine) {
  if (engine.isFailed()) {
    giveUp(engine);
    return Progress::Done;
  }
  while (stage_ < count_) {
    Progress progress = stages_[stage_]->advance(engine, status_);
    if (!status_.isOk() || engine.isFailed()) {
      giveUp(engine);
      return Progress::Done;
    }
    if (progress != Progress::Done)
      return progress;
    ++stage_;
  }
  return Progress::Done;
}

void MpiTransfer::giveUp(MpiEngine &engine) {
  // What is half-way between two live ranks ends soon; nobody answers packets.
  constexpr int64_t patience = 100'000'000;
  engine.abandon(group_.dataRequests, MpiGroup::numDataSets, patience);
  engine.abandon(&group_.packetRequests, 1, 0);
  std::fill(group_.awaited.begin(), group_.awaited.end(), -1);
  if (status_.isOk())
    status_ = engine.failure();
}

//===----------------------------------------------------------------------===//
// Meeting: packets
//===----------------------------------------------------------------------===//

void MpiMeeting::send(MpiEngine &engine, int peer) {
  group_.packets[group_.index].header = header_;
  engine.sendPacket(group_.packetRequests, group_.routes[peer],
                    group_.packets[group_.index]);
}

void MpiMeeting::receive(MpiEngine &engine, int peer) {
  group_.awaited[peer] = engine.receivePacket(
      group_.packetRequests, group_.routes[peer], group_.packets[peer]);
}

bool MpiMeeting::isOver(MpiEngine &engine, Status &status) {
  int64_t now = nowNanoseconds();
  if (since_ == 0)
    since_ = now;
  if (engine.test(group_.packetRequests)) {
    group_.waited += now - since_;
    since_ = 0;
    std::fill(group_.awaited.begin(), group_.awaited.end(), -1);
    return true;
  }
  for (int peer = 0; peer < group_.size() && status.isOk(); ++peer)
    if (group_.awaited[peer] >= 0 &&
        !engine.willCome(group_.routes[peer], group_.awaited[peer]))
      status = Status::failed(
          "expected rank " + std::to_string(group_.ranks[peer]) + " in the " +
          meetingName(header_.kind) + " in which rank " +
          std::to_string(group_.ranks[group_.index]) +
          " waits, got the end of that rank's part of the program");
  return false;
}

Status MpiMeeting::check(int peer) const {
  const PacketHeader &other = group_.packets[peer].header;
  if (other.group == header_.group && other.kind == header_.kind &&
      other.count == header_.count && other.dtype == header_.dtype &&
      other.divisor == header_.divisor && other.root == header_.root)
    return Status::ok();
  return Status::internal(
      "expected the same collective on all ranks, got " + describe(header_) +
      " on rank " + std::to_string(group_.ranks[group_.index]) + " and " +
      describe(other) +
      (other.group == header_.group ? "" : " of another group") + " on rank " +
      std::to_string(group_.ranks[peer]));
}

MpiExchange::MpiExchange(MpiGroup &group, const PacketHeader &header,
                         const void *inlined)
    : MpiMeeting(group, header) {
  if (!inlined)
    return;
  header_.payload = static_cast<int32_t>(
      header.count * dtypeSize(static_cast<Dtype>(header.dtype)));
  std::memcpy(group.packets[group.index].payload, inlined, header_.payload);
}

MpiStage::Progress MpiExchange::advance(MpiEngine &engine, Status &status) {
  if (!isPosted_) {
    isPosted_ = true;
    for (int i = 1; i < group_.size(); ++i)
      receive(engine, (group_.index + i) % group_.size());
    for (int i = 1; i < group_.size(); ++i)
      send(engine, (group_.index + i) % group_.size());
  }
  if (!isOver(engine, status))
    return Progress::Waiting;
  for (int peer = 0; peer < group_.size() && status.isOk(); ++peer)
    if (peer != group_.index)
      status = check(peer);
  return Progress::Done;
}

MpiStage::Progress MpiBarrier::advance(MpiEngine &engine, Status &status) {
  if (distance_ >= group_.size())
    return Progress::Done;
  if (!isPosted_) {
    isPosted_ = true;
    receive(engine, from());
    send(engine, (group_.index + distance_) % group_.size());
  }
  if (!isOver(engine, status))
    return Progress::Waiting;
  status = check(from());
  distance_ *= 2;
  isPosted_ = false;
  return Progress::Moved;
}

MpiStage::Progress MpiTreeMeeting::advance(MpiEngine &engine, Status &status) {
  int root = header_.root;
  bool isRoot = group_.index == root;
  if (state_ == Begin) {
    state_ = Hear;
    if (!isRoot)
      receive(engine, group_.parentOf(root));
  }
  if (!isOver(engine, status))
    return Progress::Waiting;
  if (state_ == Tell)
    return Progress::Done;
  state_ = Tell;
  if (!isRoot)
    status = check(group_.parentOf(root));
  if (status.isOk())
    group_.visitChildren(root, [&](int child) { send(engine, child); });
  return Progress::Moved;
}

//===----------------------------------------------------------------------===//
// Moving bytes
//===----------------------------------------------------------------------===//

MpiReduction::MpiReduction(MpiGroup &group, const MpiParts &parts,
                           const void *src, char *own, Dtype dtype,
                           int64_t divisor)
    : MpiStage(group), parts_(parts), mine_(parts.bytesOf(group.index)),
      src_(static_cast<const char *>(src)), own_(own), dtype_(dtype),
      divisor_(divisor) {
  int64_t peers = group.size() - 1;
  blockBytes_ = parts.maxBytes();
  if (peers == 0)
    return;
  blockBytes_ = std::min(group.chunkBytes, group.staging.size() / (2 * peers));
  blockBytes_ = blockBytes_ / cacheLine * cacheLine;
  numBlocks_ = (parts.maxBytes() + blockBytes_ - 1) / blockBytes_;
}

int64_t MpiReduction::sizeOf(const Part &part, int64_t block) const {
  int64_t left = part.end - part.begin - block * blockBytes_;
  return std::max<int64_t>(std::min(blockBytes_, left), 0);
}

char *MpiReduction::slot(int64_t block, int peer) const {
  int64_t place = peer < group_.index ? peer : peer - 1;
  return group_.staging.data() +
         ((block % 2) * (group_.size() - 1) + place) * blockBytes_;
}

void MpiReduction::post(MpiEngine &engine, int64_t block) {
  RequestSet &set = group_.blocks(block);
  int size = group_.size(), index = group_.index;
  for (int i = 1; i < size; ++i) {
    int to = (index + i) % size, from = (index - i + size) % size;
    Part theirs = parts_.bytesOf(to);
    if (int64_t bytes = sizeOf(mine_, block))
      engine.receive(set, group_.routes[from], slot(block, from), bytes);
    if (int64_t bytes = sizeOf(theirs, block))
      engine.send(set, group_.routes[to],
                  src_ + theirs.begin + block * blockBytes_, bytes);
  }
}

void MpiReduction::add(int64_t block) {
  int64_t at = block * blockBytes_;
  for (int i = 0; i < group_.size(); ++i)
    group_.sources[i] =
        i == group_.index ? src_ + mine_.begin + at : slot(block, i);
  treeSum(group_.pool, group_.sources.data(), group_.size(), own_ + at,
          sizeOf(mine_, block) / parts_.elementBytes, dtype_, divisor_);
}

MpiStage::Progress MpiReduction::advance(MpiEngine &engine, Status &) {
  if (added_ == numBlocks_)
    return Progress::Done;
  if (posted_ == 0)
    post(engine, posted_++);
  if (!engine.test(group_.blocks(added_)))
    return Progress::Waiting;
  if (posted_ < numBlocks_)
    post(engine, posted_++);
  add(added_++);
  return Progress::Moved;
}

MpiDelivery::MpiDelivery(MpiGroup &group, const MpiParts &parts,
                         const char *src, char *dst, Sent sent)
    : MpiStage(group), parts_(parts), src_(src), dst_(dst), sent_(sent),
      chunks_((parts.maxBytes() + group.chunkBytes - 1) / group.chunkBytes) {}

/// In step i everybody sends to the i-th next rank and receives from the i-th
/// previous one, chunk after chunk: all ranks walk through the same sequence,
/// so the one that is furthest behind is never waiting for another.
MpiStage::Progress MpiDelivery::advance(MpiEngine &engine, Status &) {
  int size = group_.size(), index = group_.index;
  int64_t turns = (size - 1) * chunks_;
  if (turn_ >= turns + MpiGroup::window)
    return Progress::Done;
  RequestSet &set = group_.arriving(turn_);
  if (!engine.test(set))
    return Progress::Waiting;
  if (turn_ < turns) {
    int i = 1 + static_cast<int>(turn_ / chunks_);
    int to = (index + i) % size, from = (index - i + size) % size;
    Part sent = parts_.bytesOf(sent_ == OwnPart ? index : to);
    Part theirs = parts_.bytesOf(from);
    int64_t at = turn_ % chunks_ * group_.chunkBytes;
    int64_t in = std::min(group_.chunkBytes, theirs.end - theirs.begin - at);
    int64_t out = std::min(group_.chunkBytes, sent.end - sent.begin - at);
    if (in > 0)
      engine.receive(set, group_.routes[from], dst_ + theirs.begin + at, in);
    if (out > 0)
      engine.send(set, group_.routes[to], src_ + sent.begin + at, out);
  }
  ++turn_;
  return Progress::Moved;
}

MpiSpread::MpiSpread(MpiGroup &group, char *data, int64_t bytes, int root)
    : MpiStage(group), data_(data), bytes_(bytes), root_(root),
      chunks_((bytes + group.chunkBytes - 1) / group.chunkBytes) {}

int64_t MpiSpread::sizeOf(int64_t chunk) const {
  return std::min(group_.chunkBytes, bytes_ - chunk * group_.chunkBytes);
}

/// Asks for the chunks up to `window` ahead of what was passed on.
void MpiSpread::post(MpiEngine &engine) {
  for (; posted_ < std::min(chunks_, passed_ + MpiGroup::window); ++posted_)
    if (group_.index != root_)
      engine.receive(group_.arriving(posted_),
                     group_.routes[group_.parentOf(root_)],
                     data_ + posted_ * group_.chunkBytes, sizeOf(posted_));
}

MpiStage::Progress MpiSpread::advance(MpiEngine &engine, Status &) {
  if (passed_ >= chunks_ + MpiGroup::window)
    return Progress::Done;
  post(engine);
  if (!engine.test(group_.arriving(passed_)) ||
      !engine.test(group_.leaving(passed_)))
    return Progress::Waiting;
  if (passed_ < chunks_)
    group_.visitChildren(root_, [&](int child) {
      engine.send(group_.leaving(passed_), group_.routes[child],
                  data_ + passed_ * group_.chunkBytes, sizeOf(passed_));
    });
  ++passed_;
  return Progress::Moved;
}

} // namespace fsdp::rt
