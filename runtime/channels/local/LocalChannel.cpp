//===- LocalChannel.cpp - Collectives among rank threads -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalChannel.h"

#include "core/Group.h"
#include "core/Reduce.h"
#include "core/ThreadPool.h"
#include "core/WaitLimit.h"
#include "hal/Transfers.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace fsdp::rt {

namespace {

std::string describe(const LocalRequest &request) {
  std::string text = meetingName(request.kind);
  text +=
      " of " + std::to_string(request.count) + " x " + dtypeName(request.dtype);
  if (request.divisor != 1)
    text += " / " + std::to_string(request.divisor);
  if (request.kind == controlBroadcast)
    text += " from root " + std::to_string(request.root);
  return text;
}

const char *at(const void *base, int64_t offset) {
  return static_cast<const char *>(base) + offset;
}
char *at(void *base, int64_t offset) {
  return static_cast<char *>(base) + offset;
}

} // namespace

LocalChannel::LocalChannel(LocalProgram &program,
                           std::shared_ptr<LocalGroup> group, int index,
                           ThreadPool *pool)
    : program_(program), group_(std::move(group)), index_(index), pool_(pool),
      sources_(group_->size()) {}

Status LocalChannel::brokenStatus(int32_t kind) const {
  Status failure = program_.failure();
  if (!failure.isOk())
    return failure;
  int self = group_->ranks()[index_], leaver = group_->leaver();
  return Status::failed(
      "expected rank " + std::to_string(leaver) + " in the " +
      meetingName(kind) + " in which rank " + std::to_string(self) +
      " waits, got the end of that rank's part of the program");
}

void LocalChannel::abortLate(int32_t kind) const {
  int self = group_->ranks()[index_];
  WaitLimit limit(program_.options().waitLimit);
  program_.abort(self, limit.failure(describeRanks(group_->missing(index_)) +
                                         " in the " + meetingName(kind) +
                                         " in which rank " +
                                         std::to_string(self) + " waits",
                                     "no sign of it"));
}

Status LocalChannel::mismatch() const {
  const LocalRequest &first = group_->request(0);
  for (int i = 1; i < size(); ++i)
    if (!group_->request(i).matches(first))
      return Status::internal(
          "expected the same collective on all ranks, got " + describe(first) +
          " on rank " + std::to_string(group_->ranks()[0]) + " and " +
          describe(group_->request(i)) + " on rank " +
          std::to_string(group_->ranks()[i]));
  return Status::ok();
}

void LocalChannel::crossLink(const LocalRequest &request) {
  const LocalBackendOptions &options = program_.options();
  if (size() == 1 || !options.hasLink())
    return;
  int64_t onLink = 0;
  if (options.linkBytesPerSecond > 0 && isCollective(request.kind))
    onLink = linkNanoseconds(
        double(collectiveBytes(request.kind, size(), request.count,
                               dtypeSize(request.dtype))) /
        options.linkBytesPerSecond);
  int64_t from = group_->opened();
  if (!isLatencyPaid_ && options.linkLatencySeconds > 0) {
    from += linkNanoseconds(options.linkLatencySeconds);
    sleepUntil(from);
  }
  isLatencyPaid_ = isTogether_;
  program_.link(group_->ranks()[index_]).cross(from, onLink);
}

template <typename Work>
Status LocalChannel::meet(const LocalRequest &request, const Work &work) {
  if (!group_->open(index_, request, waited_, [&] { abortLate(request.kind); }))
    return brokenStatus(request.kind);
  // Every rank compares the same requests, so all of them skip the work.
  Status status = mismatch();
  if (status.isOk()) {
    work();
    crossLink(request);
  }
  group_->close(waited_);
  return status;
}

Status LocalChannel::barrier() {
  return meet(LocalRequest(), [] {});
}

/// Adds up elements [begin, end) of all ranks and hands them to all, in pieces
/// that are still cached when they are handed out. No other rank writes these
/// elements anywhere, so that src may be dst on any rank.
void LocalChannel::sumPart(int64_t begin, int64_t end, Dtype dtype,
                           int64_t divisor) {
  constexpr int64_t pieceBytes = int64_t(32) << 10;
  int64_t elementBytes = dtypeSize(dtype);
  int64_t piece = pieceBytes / elementBytes;
  for (int i = 0; i < size(); ++i)
    sources_[i] = group_->request(i).src;
  char *own = static_cast<char *>(group_->request(index_).dst);
  auto pieces = [&](int, int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      int64_t from = begin + p * piece, to = std::min(from + piece, end);
      treeSum(sources_.data(), size(), own, from, to, dtype, divisor);
      for (int i = 0; i < size(); ++i)
        if (i != index_)
          std::memcpy(at(group_->request(i).dst, from * elementBytes),
                      own + from * elementBytes, (to - from) * elementBytes);
    }
  };
  int64_t numPieces = (end - begin + piece - 1) / piece;
  if (!pool_)
    return pieces(0, 0, numPieces);
  pool_->parallelFor(numPieces, 2, pieces);
}

void LocalChannel::move(const hal::HostCollective &what) {
  int64_t bytes = what.count * dtypeSize(what.dtype);
  switch (what.kind) {
  case FSDP_RT_ALL_GATHER:
    // Ranks begin at different shards, so that they do not queue for one.
    for (int i = 0; i < size(); ++i) {
      int peer = (index_ + i) % size();
      copyBytes(pool_, at(what.dst, peer * bytes), group_->request(peer).src,
                bytes);
    }
    break;
  case FSDP_RT_REDUCE_SCATTER:
    for (int i = 0; i < size(); ++i)
      sources_[i] = at(group_->request(i).src, index_ * bytes);
    treeSum(pool_, sources_.data(), size(), what.dst, what.count, what.dtype,
            what.divisor);
    break;
  case FSDP_RT_ALL_REDUCE: {
    Part part = reducePart(what.count, dtypeSize(what.dtype), size(), index_);
    sumPart(part.begin, part.end, what.dtype, what.divisor);
    break;
  }
  case FSDP_RT_ALL_TO_ALL:
    for (int i = 0; i < size(); ++i) {
      int peer = (index_ + i) % size();
      copyBytes(pool_, at(what.dst, peer * bytes),
                at(group_->request(peer).src, index_ * bytes), bytes);
    }
    break;
  case FSDP_RT_OFFLOAD:
  case FSDP_RT_RELOAD:
    break;
  }
}

Status LocalChannel::run(const hal::HostCollective &what) {
  if (Status s = hal::checkCollective(what))
    return s;
  LocalRequest request;
  request.kind = what.kind;
  request.src = what.src;
  request.dst = what.dst;
  request.count = what.count;
  request.dtype = what.dtype;
  request.divisor = what.divisor;
  return meet(request, [&] { move(what); });
}

Status LocalChannel::broadcast(const void *src, void *dst, int64_t bytes,
                               int root) {
  if (root < 0 || root >= size())
    return Status::failed("broadcast: expected a root below " +
                          std::to_string(size()) + ", got " +
                          std::to_string(root));
  LocalRequest request;
  request.kind = controlBroadcast;
  request.src = src;
  request.count = bytes;
  request.root = root;
  return meet(request,
              [&] { copyBytes(pool_, dst, group_->request(root).src, bytes); });
}

} // namespace fsdp::rt
