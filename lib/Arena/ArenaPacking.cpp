//===- ArenaPacking.cpp - Buffers in one range of memory ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ArenaLives.h"
#include "fsdp/Arena/ArenaBound.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

using namespace mlir::fsdp;
using llvm::ArrayRef;
using llvm::MutableArrayRef;

bool mlir::fsdp::areNeededTogether(const EventOrder &events,
                                   const ArenaBuffer &a, const ArenaBuffer &b) {
  return !events.isBefore(a.end, b.begin) && !events.isBefore(b.end, a.begin);
}

//===----------------------------------------------------------------------===//
// Several orders, and a search
//===----------------------------------------------------------------------===//

ArenaLives::ArenaLives(const EventOrder &events, ArrayRef<ArenaBuffer> buffers)
    : events(events), buffers(buffers) {
  for (const ArenaBuffer &buffer : buffers) {
    bool isEndOnQueue = events.isStart(buffer.end);
    begins.push_back(buffer.begin);
    ends.push_back(
        isEndOnQueue
            ? std::min(events.getKnownFrom(buffer.end), events.size()) - 1
            : buffer.end);
    onQueue.push_back((events.isStart(buffer.begin) ? kBegin : 0) |
                      (isEndOnQueue ? kEnd : 0));
  }
}

/// More buffers are placed greedily only: a search would take seconds.
constexpr int kMaxSearched = 5000;
/// Steps of all searches together, a few nanoseconds each.
constexpr int64_t kMaxWork = 160'000'000;

namespace {
class Packer {
public:
  Packer(const EventOrder &events, MutableArrayRef<ArenaBuffer> buffers)
      : buffers(buffers), lives(events, buffers), firstFit(lives),
        heaviest(getHeaviestTogether(events, buffers)) {
    for (unsigned buffer : heaviest)
      bound += buffers[buffer].size;
  }

  int64_t pack();

private:
  template <typename Key>
  std::vector<int> sortBy(Key key) const;
  std::vector<std::vector<int>> getPreferences() const;
  std::vector<int64_t> getLoads() const;
  std::vector<int> getOutwardOrder(int from, int64_t large) const;
  int getFullest() const;
  /// Orders and what they led to.
  using Tries = std::vector<std::pair<int64_t, std::vector<int>>>;
  void tryOutward(int64_t large, Tries &tries);
  void improveOutward(int64_t until);
  int64_t tryOrder(ArrayRef<int> order);
  /// Of what is too much, the upper one of so many parts sticks out; it goes to
  /// the front, or half the way.
  struct Raise {
    int parts;
    bool half;
  };
  void improveOrder(std::vector<int> order, Raise raise, int patience,
                    int64_t until);
  bool search(ArrayRef<int> preference, int64_t room, int64_t limit);
  bool searchBound(int64_t slice, int64_t until);
  void searchBetween(int64_t slice);
  void keep(int64_t total, ArrayRef<int64_t> offsets);

  MutableArrayRef<ArenaBuffer> buffers;
  ArenaLives lives;
  FirstFit firstFit;
  std::vector<unsigned> heaviest;
  int64_t bound = 0;
  int64_t best = std::numeric_limits<int64_t>::max();
  int64_t work = kMaxWork;
  std::vector<std::vector<int>> preferences;
  /// What tryOrder found last.
  std::vector<int64_t> offsets;
};
} // namespace

/// Buffers by a key, the greatest first.
template <typename Key>
std::vector<int> Packer::sortBy(Key key) const {
  std::vector<int> order(lives.size());
  for (auto [i, buffer] : llvm::enumerate(order))
    buffer = i;
  llvm::sort(order, [&](int a, int b) {
    return std::make_tuple(key(b), a) < std::make_tuple(key(a), b);
  });
  return order;
}

void Packer::keep(int64_t total, ArrayRef<int64_t> offsets) {
  best = total;
  for (auto [buffer, offset] : llvm::zip(buffers, offsets))
    buffer.offset = offset;
}

int64_t Packer::tryOrder(ArrayRef<int> order) {
  work -= int64_t(lives.size()) * lives.size() / 32;
  int64_t total = firstFit.place(order, offsets);
  if (total < best)
    keep(total, offsets);
  return total;
}

/// Places what stuck out earlier the next time, until that has not helped for
/// @patience passes or no more than @until steps are left.
void Packer::improveOrder(std::vector<int> order, Raise raise, int patience,
                          int64_t until) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int left = patience; left > 0 && best > bound && work > until; --left) {
    int64_t total = tryOrder(order);
    if (total < least)
      left = patience;
    least = std::min(least, total);
    int64_t most = total - (total - bound) / raise.parts;
    auto sticksOut = [&](int buffer) {
      return offsets[buffer] + lives.getSize(buffer) > most;
    };
    std::vector<std::tuple<int, int, int>> places;
    for (auto [place, buffer] : llvm::enumerate(order)) {
      int key = 2 * int(place);
      if (sticksOut(buffer))
        key = raise.half ? int(place) - 1 : -1;
      places.push_back({key, int(place), buffer});
    }
    llvm::sort(places);
    for (auto [buffer, place] : llvm::zip_equal(order, places))
      buffer = std::get<2>(place);
  }
}

/// Whether @preference leads to a placement in @room within @limit steps.
bool Packer::search(ArrayRef<int> preference, int64_t room, int64_t limit) {
  int64_t left = limit = std::min(limit, work);
  bool isFound = findPlacement(lives, preference, room, left, offsets);
  work -= limit - left;
  if (!isFound)
    return false;
  int64_t total = 0;
  for (int i = 0; i != lives.size(); ++i)
    total = std::max(total, offsets[i] + lives.getSize(i));
  keep(total, offsets);
  return true;
}

/// The most bytes that are in use at once in each buffer's life.
std::vector<int64_t> Packer::getLoads() const {
  std::vector<int64_t> result(lives.size());
  int last = 0;
  for (int i = 0; i != lives.size(); ++i)
    last = std::max(last, lives.getEnd(i));
  std::vector<int64_t> loads(last + 2);
  for (int i = 0; i != lives.size(); ++i) {
    loads[lives.getBegin(i)] += lives.getSize(i);
    loads[lives.getEnd(i) + 1] -= lives.getSize(i);
  }
  std::partial_sum(loads.begin(), loads.end(), loads.begin());
  for (int i = 0; i != lives.size(); ++i)
    result[i] = *std::max_element(loads.begin() + lives.getBegin(i),
                                  loads.begin() + lives.getEnd(i) + 1);
  return result;
}

/// What to place first: long lives, large buffers, those that share the
/// tightest moments, in several orders. First come those that succeeded most
/// often on traced models.
std::vector<std::vector<int>> Packer::getPreferences() const {
  std::vector<int64_t> loads = getLoads();
  auto length = [&](int i) { return lives.getLength(i); };
  auto size = [&](int i) { return lives.getSize(i); };
  auto area = [&](int i) { return length(i) * size(i); };
  auto begin = [&](int i) { return lives.getBegin(i); };
  auto make = [&](auto... keys) {
    return sortBy([=](int i) { return std::make_tuple(keys(i)...); });
  };
  auto load = [&](int i) { return loads[i]; };
  auto root = [&](int i) {
    return int64_t(length(i) * std::sqrt(double(size(i))));
  };
  auto late = [&](int i) { return -lives.getBegin(i); };
  return {make(load, length, size), make(length, size), make(root, length),
          make(load, area, length), make(area, length), make(begin, length),
          make(late, length),       make(size, length)};
}

//===----------------------------------------------------------------------===//
// From the fullest moment outward
//===----------------------------------------------------------------------===//

/// An op at which all of the heaviest set are alive.
int Packer::getFullest() const {
  int op = 0;
  for (unsigned buffer : heaviest)
    op = std::max(op, lives.getBegin(buffer));
  return op;
}

/// What is alive at op @from lies without a gap, whatever its order is; then
/// away from there, to both sides in time. First those of at least @large
/// bytes: what is small fits between them, not they between it.
std::vector<int> Packer::getOutwardOrder(int from, int64_t large) const {
  return sortBy([&](int i) {
    return std::make_tuple(
        lives.getSize(i) >= large,
        -std::max({lives.getBegin(i) - from, from - lives.getEnd(i), 0}),
        lives.getLength(i));
  });
}

/// From the fullest moment, then from where most was in the way, and so on.
void Packer::tryOutward(int64_t large, Tries &tries) {
  constexpr int kMostMoments = 6;
  std::set<int> tried;
  int from = getFullest();
  while (best > bound && work > 0 && tried.size() != kMostMoments &&
         tried.insert(from).second) {
    std::vector<int> order = getOutwardOrder(from, large);
    int64_t total = tryOrder(order);
    for (int i = 0; i != lives.size(); ++i)
      if (offsets[i] + lives.getSize(i) == total)
        from = lives.getBegin(i);
    tries.push_back({total, std::move(order)});
  }
}

/// The best of them, improved in each way, until no more than @until steps are
/// left.
void Packer::improveOutward(int64_t until) {
  Tries tries;
  for (int64_t parts : {32, 8, 128})
    tryOutward(bound / parts, tries);
  llvm::sort(tries);
  constexpr size_t kImproved = 3;
  tries.resize(std::min(tries.size(), kImproved));
  for (bool half : {false, true})
    for (const auto &[total, order] : tries)
      for (int parts : {1, 2, 8})
        improveOrder(order, {parts, half}, /*patience=*/24, until);
}

//===----------------------------------------------------------------------===//
// All together
//===----------------------------------------------------------------------===//

/// For the bound itself, with every preference.
bool Packer::searchBound(int64_t slice, int64_t until) {
  return llvm::any_of(preferences, [&](const std::vector<int> &preference) {
    return work > until && search(preference, bound, slice);
  });
}

/// Between the bound and the best so far, as far as the steps reach.
void Packer::searchBetween(int64_t slice) {
  for (int64_t least = bound; best - least > kArenaAlignment && work > 0;) {
    int64_t room = llvm::alignDown(least + (best - least) / 2, kArenaAlignment);
    if (llvm::none_of(preferences, [&](const std::vector<int> &preference) {
          return work > 0 && search(preference, room, slice);
        }))
      least = room;
  }
}

int64_t Packer::pack() {
  if (buffers.empty())
    return 0;
  // Largest first, each at the lowest offset that is free.
  tryOrder(sortBy([&](int i) {
    return std::make_tuple(lives.getSize(i), -lives.getBegin(i));
  }));
  if (best == bound)
    return best;
  preferences = getPreferences();
  if (lives.size() > kMaxSearched)
    tryOrder(preferences.back());
  else
    for (const std::vector<int> &preference : preferences)
      improveOrder(preference, {1, false}, /*patience=*/4, kMaxWork * 3 / 4);
  improveOutward(kMaxWork / 4);
  if (lives.size() > kMaxSearched || best == bound)
    return best;
  // One way down costs about the square of the buffers.
  int64_t square = int64_t(lives.size()) * lives.size();
  int64_t slice = std::min<int64_t>(3'000'000 + 20 * square, 30'000'000);
  if (searchBound(slice, kMaxWork * 2 / 3))
    return best;
  for (const std::vector<int> &preference : preferences)
    improveOrder(preference, {1, false}, /*patience=*/60, kMaxWork * 3 / 8);
  searchBetween(slice);
  return best;
}

int64_t mlir::fsdp::packBuffers(const EventOrder &events,
                                MutableArrayRef<ArenaBuffer> buffers) {
  return Packer(events, buffers).pack();
}
