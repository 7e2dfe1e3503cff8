//===- ArenaLives.h - Lives of buffers, ready for comparing -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ARENA_ARENALIVES_H
#define FSDP_LIB_ARENA_ARENALIVES_H

#include "fsdp/Arena/ArenaPacking.h"

namespace mlir::fsdp {

/// Lives as intervals of ops in issue order, which hold all that is needed
/// together; and what the order of events knows beyond them: a transfer may
/// take over what another one has ended, before compute has heard of it.
class ArenaLives {
public:
  ArenaLives(const EventOrder &events, llvm::ArrayRef<ArenaBuffer> buffers);

  int size() const { return begins.size(); }
  int getBegin(int buffer) const { return begins[buffer]; }
  /// Included.
  int getEnd(int buffer) const { return ends[buffer]; }
  int64_t getLength(int buffer) const {
    return ends[buffer] - begins[buffer] + 1;
  }
  int64_t getSize(int buffer) const { return buffers[buffer].size; }

  bool endsOnQueue(int buffer) const { return onQueue[buffer] & kEnd; }
  bool areAlike(int a, int b) const {
    return buffers[a].size == buffers[b].size &&
           buffers[a].begin == buffers[b].begin &&
           buffers[a].end == buffers[b].end;
  }

  bool areTogether(int a, int b) const {
    if (begins[a] > ends[b] || begins[b] > ends[a])
      return false;
    return !(follows(a, b) || follows(b, a));
  }

private:
  /// Whether a transfer begins @later behind the one that ends @earlier.
  bool follows(int later, int earlier) const {
    return (onQueue[later] & kBegin) && (onQueue[earlier] & kEnd) &&
           events.isBefore(buffers[earlier].end, buffers[later].begin);
  }

  enum : uint8_t { kBegin = 1, kEnd = 2 };
  const EventOrder &events;
  llvm::ArrayRef<ArenaBuffer> buffers;
  std::vector<int> begins, ends;
  std::vector<uint8_t> onQueue;
};

/// Places buffers one after the other, each at the lowest offset that is free.
class FirstFit {
public:
  explicit FirstFit(const ArenaLives &lives);

  /// Writes @offsets; returns the bytes needed.
  int64_t place(llvm::ArrayRef<int> order, std::vector<int64_t> &offsets);

private:
  /// What has to be looked at, close together.
  struct Placed {
    int64_t offset, top;
    int begin, end, buffer;
  };

  const ArenaLives &lives;
  /// The ops in so many windows of equal length; by window, what lives there,
  /// by offset. Most lives are short.
  int windowLength;
  std::vector<std::vector<Placed>> windows;
  std::vector<size_t> next;
};

/// Looks for a placement below @room bytes, and writes @offsets if it finds
/// one. Gives up after about @work steps, which it counts down.
bool findPlacement(const ArenaLives &lives, llvm::ArrayRef<int> preference,
                   int64_t room, int64_t &work, std::vector<int64_t> &offsets);

} // namespace mlir::fsdp

#endif // FSDP_LIB_ARENA_ARENALIVES_H
