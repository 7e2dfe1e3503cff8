//===- ArenaPackingTest.cpp - Buffers in one range of memory --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Arena/ArenaPacking.h"
#include "fsdp/Arena/ArenaBound.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <gtest/gtest.h>
#include <random>

using namespace mlir::fsdp;

namespace {
struct Instance {
  EventOrder events;
  std::vector<ArenaBuffer> buffers;
};
} // namespace

static int pick(std::mt19937 &random, int from, int to) {
  return from + int(random() % unsigned(to - from + 1));
}

/// The simple way, which packing must never lose to: largest first, each at the
/// lowest offset that is free. Returns the bytes needed.
static int64_t placeLargestFirst(const EventOrder &events,
                                 llvm::MutableArrayRef<ArenaBuffer> buffers) {
  llvm::SmallVector<unsigned> order(buffers.size());
  for (auto [i, position] : llvm::enumerate(order))
    position = i;
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return std::make_tuple(-buffers[a].size, buffers[a].begin, a) <
           std::make_tuple(-buffers[b].size, buffers[b].begin, b);
  });
  // Placed buffers, by offset.
  llvm::SmallVector<const ArenaBuffer *> placed;
  int64_t total = 0;
  for (unsigned i : order) {
    ArenaBuffer &buffer = buffers[i];
    buffer.offset = 0;
    for (const ArenaBuffer *other : placed) {
      if (buffer.offset + buffer.size <= other->offset)
        break;
      if (areNeededTogether(events, buffer, *other))
        buffer.offset = std::max(buffer.offset, other->offset + other->size);
    }
    total = std::max(total, buffer.offset + buffer.size);
    placed.insert(llvm::upper_bound(placed, buffer.offset,
                                    [](int64_t o, const ArenaBuffer *b) {
                                      return o < b->offset;
                                    }),
                  &buffer);
  }
  return total;
}

/// Lives on compute alone.
static Instance makeIntervals(std::mt19937 &random, int count, int ops,
                              int maxSize) {
  Instance instance;
  for (int i = 0; i != ops; ++i)
    instance.events.addCompute();
  for (int i = 0; i != count; ++i) {
    int begin = pick(random, 0, ops - 1), end = pick(random, begin, ops - 1);
    instance.buffers.push_back(
        {pick(random, 1, maxSize) * kArenaAlignment, begin, end});
  }
  return instance;
}

/// Compute and transfers on three queues; buffers from one op to one that
/// comes behind it.
static Instance makeStep(std::mt19937 &random, int count, int ops) {
  Instance instance;
  EventOrder &events = instance.events;
  std::vector<int> open;
  while (events.size() < ops) {
    int kind = pick(random, 0, 3);
    if (kind == 0) {
      std::vector<int> after;
      if (!open.empty() && random() % 2)
        after.push_back(open[random() % open.size()]);
      open.push_back(events.addStart(Queue(pick(random, 1, 3)), after));
    } else if (kind == 1 && !open.empty()) {
      size_t i = random() % open.size();
      events.addWait(open[i]);
      open.erase(open.begin() + i);
    } else {
      events.addCompute();
    }
  }
  for (int start : open)
    events.addWait(start);
  while (int(instance.buffers.size()) < count) {
    int begin = pick(random, 0, ops - 1), end = pick(random, begin, ops - 1);
    if (begin == end || events.isBefore(begin, end))
      instance.buffers.push_back(
          {pick(random, 1, 6) * kArenaAlignment, begin, end});
  }
  return instance;
}

/// A filled rectangle, cut again and again in time or in space: it can be
/// packed without a gap, and the more cuts, the harder to find out how.
static Instance makePuzzle(std::mt19937 &random, int count, int ops, int size) {
  Instance instance;
  for (int i = 0; i != ops; ++i)
    instance.events.addCompute();
  instance.buffers.push_back({size * kArenaAlignment, 0, ops - 1});
  while (int(instance.buffers.size()) < count) {
    ArenaBuffer &buffer = instance.buffers[random() % instance.buffers.size()];
    ArenaBuffer other = buffer;
    int64_t units = buffer.size / kArenaAlignment;
    if (random() % 2 && units > 1) {
      other.size = pick(random, 1, units - 1) * kArenaAlignment;
      buffer.size -= other.size;
    } else if (buffer.begin != buffer.end) {
      buffer.end = pick(random, buffer.begin, buffer.end - 1);
      other.begin = buffer.end + 1;
    } else {
      continue;
    }
    instance.buffers.push_back(other);
  }
  std::shuffle(instance.buffers.begin(), instance.buffers.end(), random);
  return instance;
}

static void expectPlaced(const Instance &instance, int64_t total,
                         const std::string &what) {
  int64_t needed = 0;
  for (auto [i, a] : llvm::enumerate(instance.buffers)) {
    EXPECT_GE(a.offset, 0) << what;
    EXPECT_EQ(a.offset % kArenaAlignment, 0) << what;
    needed = std::max(needed, a.offset + a.size);
    for (const ArenaBuffer &b : llvm::ArrayRef(instance.buffers).take_front(i))
      if (a.offset < b.offset + b.size && b.offset < a.offset + a.size)
        EXPECT_FALSE(areNeededTogether(instance.events, a, b)) << what;
  }
  EXPECT_EQ(total, needed) << what;
}

/// By trying all subsets.
static int64_t getHeaviestByTrying(const Instance &instance) {
  int64_t heaviest = 0;
  size_t count = instance.buffers.size();
  for (unsigned set = 0; set != 1u << count; ++set) {
    int64_t bytes = 0;
    bool isTogether = true;
    for (size_t i = 0; i != count && isTogether; ++i) {
      if (!(set >> i & 1))
        continue;
      bytes += instance.buffers[i].size;
      for (size_t j = 0; j != i; ++j)
        if (set >> j & 1)
          isTogether &= areNeededTogether(instance.events, instance.buffers[i],
                                          instance.buffers[j]);
    }
    if (isTogether)
      heaviest = std::max(heaviest, bytes);
  }
  return heaviest;
}

TEST(EventOrderTest, AStartKnowsItsQueueAndWhatItComesAfter) {
  EventOrder events;
  int a = events.addCompute();
  int s = events.addStart(Queue::Reduce, {});
  int b = events.addCompute();
  int t = events.addStart(Queue::Reduce, {});
  int u = events.addStart(Queue::AllGather, {});
  int v = events.addStart(Queue::AllReduce, {s});
  EXPECT_TRUE(events.isBefore(a, s));
  EXPECT_FALSE(events.isBefore(s, b));
  EXPECT_TRUE(events.isBefore(s, t));
  EXPECT_FALSE(events.isBefore(s, u));
  EXPECT_TRUE(events.isBefore(b, u));
  EXPECT_TRUE(events.isBefore(s, v));
  EXPECT_FALSE(events.isBefore(t, v));
  // What compute learns of one transfer it learns of those before it.
  int w = events.addWait(t);
  EXPECT_TRUE(events.isBefore(s, w));
  EXPECT_FALSE(events.isBefore(u, w));
  EXPECT_EQ(events.getKnownFrom(s), w);
  EXPECT_EQ(events.getJoin(b, s), w);
}

TEST(ArenaBoundTest, IsTheHeaviestSetThatIsNeededTogether) {
  for (unsigned seed = 0; seed != 400; ++seed) {
    std::mt19937 random(seed);
    Instance instance = makeStep(random, pick(random, 0, 12), 16);
    std::vector<unsigned> set =
        getHeaviestTogether(instance.events, instance.buffers);
    int64_t bytes = 0;
    for (unsigned i : set) {
      bytes += instance.buffers[i].size;
      for (unsigned j : set)
        if (i != j)
          EXPECT_TRUE(areNeededTogether(instance.events, instance.buffers[i],
                                        instance.buffers[j]));
    }
    EXPECT_EQ(bytes, getHeaviestByTrying(instance)) << "seed " << seed;
    EXPECT_EQ(bytes, getArenaBound(instance.events, instance.buffers));
  }
}

TEST(PackBuffersTest, NeverLosesToTheSimpleOrder) {
  for (unsigned seed = 0; seed != 300; ++seed) {
    std::mt19937 random(seed);
    Instance instance = seed % 2
                            ? makeStep(random, pick(random, 0, 40), 40)
                            : makeIntervals(random, pick(random, 0, 40), 30, 9);
    Instance simple = instance;
    int64_t reference = placeLargestFirst(simple.events, simple.buffers);
    expectPlaced(simple, reference, "simple, seed " + std::to_string(seed));
    int64_t total = packBuffers(instance.events, instance.buffers);
    expectPlaced(instance, total, "seed " + std::to_string(seed));
    EXPECT_LE(total, reference) << "seed " << seed;
    EXPECT_GE(total, getArenaBound(instance.events, instance.buffers));
  }
}

/// The least bytes that any order of placing them, each as low as it fits, can
/// do with: an optimal placement is one of these.
static int64_t getOptimum(Instance instance) {
  std::vector<unsigned> order(instance.buffers.size());
  for (auto [i, position] : llvm::enumerate(order))
    position = i;
  int64_t best = INT64_MAX;
  do {
    int64_t total = 0;
    for (size_t i = 0; i != order.size(); ++i) {
      ArenaBuffer &buffer = instance.buffers[order[i]];
      for (buffer.offset = 0;; buffer.offset += kArenaAlignment) {
        bool fits = true;
        for (size_t j = 0; j != i && fits; ++j) {
          const ArenaBuffer &other = instance.buffers[order[j]];
          fits = buffer.offset >= other.offset + other.size ||
                 other.offset >= buffer.offset + buffer.size ||
                 !areNeededTogether(instance.events, buffer, other);
        }
        if (fits)
          break;
      }
      total = std::max(total, buffer.offset + buffer.size);
    }
    best = std::min(best, total);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(PackBuffersTest, FindsTheOptimumOfFewBuffers) {
  for (unsigned seed = 0; seed != 100; ++seed) {
    std::mt19937 random(seed);
    Instance instance =
        seed % 2 ? makeStep(random, 6, 12) : makeIntervals(random, 6, 8, 6);
    int64_t best = getOptimum(instance);
    EXPECT_EQ(packBuffers(instance.events, instance.buffers), best)
        << "seed " << seed;
  }
}

TEST(PackBuffersTest, SolvesPuzzlesThatTheSimpleOrderDoesNot) {
  int64_t simple = 0, packed = 0, bound = 0;
  for (unsigned seed = 0; seed != 12; ++seed) {
    std::mt19937 random(seed);
    Instance instance = makePuzzle(random, 30 + 4 * seed, 60, 200);
    Instance copy = instance;
    int64_t total = packBuffers(instance.events, instance.buffers);
    expectPlaced(instance, total, "seed " + std::to_string(seed));
    EXPECT_EQ(getArenaBound(instance.events, instance.buffers),
              200 * kArenaAlignment);
    simple += placeLargestFirst(copy.events, copy.buffers);
    packed += total;
    bound += 200 * kArenaAlignment;
  }
  EXPECT_LE(packed, bound * 102 / 100);
  EXPECT_GE(simple, bound * 105 / 100) << "the puzzles are too easy";
}

TEST(PackBuffersTest, IsDeterministic) {
  for (unsigned seed = 0; seed != 10; ++seed) {
    std::mt19937 random(seed);
    Instance a = makePuzzle(random, 40, 50, 100), b = a;
    EXPECT_EQ(packBuffers(a.events, a.buffers),
              packBuffers(b.events, b.buffers));
    for (auto [x, y] : llvm::zip(a.buffers, b.buffers))
      EXPECT_EQ(x.offset, y.offset);
  }
}

/// Too many to be searched, and all that is placed must still be right.
TEST(PackBuffersTest, ManyBuffersLieApart) {
  std::mt19937 random(1);
  Instance instance = makeIntervals(random, 5200, 4000, 50);
  for (ArenaBuffer &buffer : instance.buffers)
    buffer.end = std::min(buffer.end, buffer.begin + 40);
  int64_t total = packBuffers(instance.events, instance.buffers);
  expectPlaced(instance, total, "5200 buffers");
  EXPECT_LE(total, 2 * getArenaBound(instance.events, instance.buffers));
}

/// Forward and backward of so many layers. Each keeps activations of a few
/// sizes for its backward; units are gathered for both as far ahead as @room
/// lets them, and the gradient, of the same size, stays for a while.
static Instance makeLayers(std::mt19937 &random, int layers, int64_t room) {
  Instance instance;
  auto add = [&](int64_t units, int begin, int end) {
    instance.buffers.push_back({units * kArenaAlignment, begin, end});
  };
  constexpr int kOps = 12;
  const int64_t unit = 1500;
  int ops = 2 * layers * kOps;
  for (int i = 0; i != ops; ++i)
    instance.events.addCompute();
  std::vector<int64_t> used(ops);
  auto use = [&](int64_t units, int begin, int end) {
    add(units, begin, end);
    for (int i = begin; i <= end; ++i)
      used[i] += units;
  };
  for (int layer = 0; layer != layers; ++layer) {
    int forward = layer * kOps, backward = ops - forward - kOps;
    for (int i = 1; i != 7; ++i)
      use(1 << i, forward + i, backward + kOps - 1 - i);
    for (int part : {forward, backward})
      for (int i = 0; i + 3 < kOps; ++i)
        use(pick(random, 1, 4) * 16, part + i, part + i + pick(random, 0, 3));
    use(unit, backward, std::min(backward + 3 * kOps, ops - 1));
  }
  // As early as there is room, in order.
  int earliest = 0;
  for (int pass = 0; pass != 2 * layers; ++pass) {
    int end = (pass + 1) * kOps - 1, begin = end - kOps + 1;
    while (begin > earliest && used[begin - 1] + unit <= room)
      --begin;
    use(unit, begin, end);
    earliest = begin;
  }
  return instance;
}

/// Large steps with as much under way as memory allows: places still do not
/// cost memory.
TEST(PackBuffersTest, LayersOfALargeStepFitTogether) {
  int64_t simple = 0, bound = 0;
  for (auto [layers, room] : {std::pair(30, 12000), {126, 40000}}) {
    std::mt19937 random(layers);
    Instance instance = makeLayers(random, layers, room);
    Instance copy = instance;
    int64_t least = getArenaBound(instance.events, instance.buffers);
    EXPECT_LE(packBuffers(instance.events, instance.buffers), least * 102 / 100)
        << layers << " layers";
    simple += placeLargestFirst(copy.events, copy.buffers);
    bound += least;
  }
  EXPECT_GE(simple, bound * 104 / 100) << "too easy";
}
