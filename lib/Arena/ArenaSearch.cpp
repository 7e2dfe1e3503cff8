//===- ArenaSearch.cpp - Is there a placement in so many bytes? -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Depth first, from the arena's bottom up. Any placement can be pushed down
// until each buffer lies at 0 or upon one that it is needed together with, and
// then be listed by offset; so it is enough to place one buffer after the
// other, each at the lowest offset that those before it leave, and never below
// the one before. What keeps the tree small:
//
//   - A buffer is not placed so high that another one would fit below it: that
//     one could be moved there, so an equal placement is found without.
//   - At no op may what is still to be placed reach beyond the room, each piece
//     lying no lower than its floor.
//   - Buffers that nothing connects any more are searched apart, so that no
//     part's failure makes another one's work be done again.
//
// After M. D. Moffitt, "MiniMalloc: A Lightweight Memory Allocator for
// Hardware-Accelerated Machine Learning", ASPLOS 2023.
//
//===----------------------------------------------------------------------===//

#include "ArenaLives.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>
#include <tuple>

using namespace mlir::fsdp;
using llvm::ArrayRef;

/// Of larger parts the ops are not checked: it takes time that grows with the
/// square, and would seldom fail.
constexpr int kMaxChecked = 600;

namespace {
class Search {
public:
  Search(const ArenaLives &lives, ArrayRef<int> preference, int64_t room,
         int64_t &work, std::vector<int64_t> &offsets);
  bool run();

private:
  /// Buffers that are still to be placed, sorted by begin: a range of `stack`.
  struct Part {
    size_t first, last;
  };
  bool solveParts(Part rest, int below);
  bool solve(Part part, int below);
  bool canFit(Part part);
  bool place(int buffer, Part part);
  bool isRepeated(int buffer, size_t first) const;

  const ArenaLives &lives;
  /// Which of two that may lie equally low is tried first.
  std::vector<int> rank;
  int64_t room;
  int64_t &work;
  std::vector<int64_t> &offsets;
  /// The lowest offset that placed buffers leave to each.
  std::vector<int64_t> floors;
  /// The last op up to which a buffer is needed together with all others that
  /// are alive there.
  std::vector<int> commonEnds;
  std::vector<int> stack, candidates, alive;
  /// Floors to go back to.
  std::vector<std::pair<int, int64_t>> trail;
};
} // namespace

Search::Search(const ArenaLives &lives, ArrayRef<int> preference, int64_t room,
               int64_t &work, std::vector<int64_t> &offsets)
    : lives(lives), rank(lives.size()), room(room), work(work),
      offsets(offsets), floors(lives.size()), commonEnds(lives.size()) {
  offsets.assign(lives.size(), 0);
  for (auto [i, buffer] : llvm::enumerate(preference))
    rank[buffer] = i;
  stack.resize(lives.size());
  for (auto [i, buffer] : llvm::enumerate(stack))
    buffer = i;
  llvm::sort(stack, [&](int a, int b) {
    return std::make_tuple(lives.getBegin(a), a) <
           std::make_tuple(lives.getBegin(b), b);
  });
  for (auto [i, a] : llvm::enumerate(stack)) {
    int &end = commonEnds[a] = lives.getEnd(a);
    if (!lives.endsOnQueue(a))
      continue;
    for (int b : llvm::drop_begin(stack, i + 1)) {
      if (lives.getBegin(b) > end)
        break;
      if (!lives.areTogether(a, b))
        end = lives.getBegin(b) - 1;
    }
  }
}

bool Search::run() { return solveParts({0, stack.size()}, -1); }

/// Falls @rest apart where no buffer reaches from one side to the other.
bool Search::solveParts(Part rest, int below) {
  for (size_t first = rest.first; first != rest.last;) {
    size_t last = first;
    for (int end = -1; last != rest.last &&
                       (last == first || lives.getBegin(stack[last]) <= end);
         ++last)
      end = std::max(end, lives.getEnd(stack[last]));
    if (!solve({first, last}, below))
      return false;
    first = last;
  }
  return true;
}

/// Whether at each op what is to be placed fits above the lowest floor.
bool Search::canFit(Part part) {
  alive.clear();
  for (size_t i = part.first; i != part.last; ++i) {
    int buffer = stack[i];
    int64_t bytes = lives.getSize(buffer), floor = floors[buffer];
    size_t kept = 0;
    for (int other : alive)
      if (commonEnds[other] >= lives.getBegin(buffer)) {
        alive[kept++] = other;
        bytes += lives.getSize(other);
        floor = std::min(floor, floors[other]);
      }
    alive.resize(kept);
    alive.push_back(buffer);
    work -= kept;
    if (floor + bytes > room)
      return false;
  }
  return true;
}

/// Places @buffer on its floor and puts the rest of @part on top of the stack.
bool Search::place(int buffer, Part part) {
  offsets[buffer] = floors[buffer];
  int64_t top = floors[buffer] + lives.getSize(buffer);
  bool fits = true;
  for (size_t i = part.first; i != part.last; ++i) {
    int other = stack[i];
    if (other == buffer)
      continue;
    stack.push_back(other);
    if (floors[other] >= top || !lives.areTogether(buffer, other))
      continue;
    trail.push_back({other, floors[other]});
    floors[other] = top;
    fits &= top + lives.getSize(other) <= room;
  }
  work -= part.last - part.first;
  return fits;
}

/// Whether one of the candidates from @first on is the same as @buffer in all
/// that counts.
bool Search::isRepeated(int buffer, size_t first) const {
  return llvm::any_of(llvm::drop_begin(candidates, first), [&](int other) {
    return floors[other] == floors[buffer] && lives.areAlike(other, buffer);
  });
}

/// Places @part behind @below (-1: nothing), so nothing of it lower; of what
/// may lie equally low, what is preferred comes first.
bool Search::solve(Part part, int below) {
  work -= part.last - part.first;
  if (work < 0)
    return false;
  int64_t lowestTop = std::numeric_limits<int64_t>::max();
  for (size_t i = part.first; i != part.last; ++i)
    lowestTop = std::min(lowestTop, floors[stack[i]] + lives.getSize(stack[i]));
  if (part.last - part.first == 1) {
    offsets[stack[part.first]] = floors[stack[part.first]];
    return lowestTop <= room;
  }
  if (part.last - part.first <= kMaxChecked && !canFit(part))
    return false;

  size_t first = candidates.size();
  auto isBehind = [&](int buffer) {
    return below < 0 || std::make_tuple(offsets[below], rank[below]) <
                            std::make_tuple(floors[buffer], rank[buffer]);
  };
  for (size_t i = part.first; i != part.last; ++i)
    if (floors[stack[i]] < lowestTop && isBehind(stack[i]))
      candidates.push_back(stack[i]);
  // A heap, because mostly one of them is enough; who had a turn stands behind.
  auto isLater = [&](int a, int b) {
    return std::make_tuple(floors[a], rank[a]) >
           std::make_tuple(floors[b], rank[b]);
  };
  std::make_heap(candidates.begin() + first, candidates.end(), isLater);
  size_t stackSize = stack.size(), trailSize = trail.size();
  bool found = false;
  for (size_t last = candidates.size(); last != first && !found && work >= 0;
       --last) {
    std::pop_heap(candidates.begin() + first, candidates.begin() + last,
                  isLater);
    int buffer = candidates[last - 1];
    if (isRepeated(buffer, last))
      continue;
    found =
        place(buffer, part) && solveParts({stackSize, stack.size()}, buffer);
    stack.resize(stackSize);
    for (; trail.size() != trailSize; trail.pop_back())
      floors[trail.back().first] = trail.back().second;
  }
  candidates.resize(first);
  return found;
}

bool mlir::fsdp::findPlacement(const ArenaLives &lives,
                               ArrayRef<int> preference, int64_t room,
                               int64_t &work, std::vector<int64_t> &offsets) {
  return Search(lives, preference, room, work, offsets).run();
}
