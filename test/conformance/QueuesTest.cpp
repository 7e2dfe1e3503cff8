//===- QueuesTest.cpp - Transfers beside a step, on every backend ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A random program starts transfers of all kinds on all queues, orders them by
// queue, `after` or wait where they touch the same memory, and by nothing else.
// Whatever interleaving comes out of that, each rank's arena must end as if the
// transfers had run one after the other: that is computed here, for all ranks.
//
//===----------------------------------------------------------------------===//

#include "Backends.h"
#include "FunctionStep.h"
#include "Reference.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace fsdp::test {
namespace {

using rt::Status;
using rt::World;

constexpr int numRegions = 14, numEvents = 24;
constexpr int64_t regionBytes = 16384, regionsBytes = numRegions * regionBytes;
/// Behind the regions lies what the computation fills them with, a place for
/// each of its actions.
constexpr int maxComputes = numEvents;
constexpr int64_t arenaBytes = regionsBytes + maxComputes * regionBytes;

/// The ranks of group `index` that `rank` belongs to: all, its row, its column,
/// itself.
std::vector<int> groupOf(int index, int rank, int size) {
  int columns = size % 2 == 0 ? 2 : 1;
  std::vector<int> ranks;
  for (int other = 0; other < size; ++other)
    if (index == 0 || (index == 1 && other / columns == rank / columns) ||
        (index == 2 && other % columns == rank % columns) || other == rank)
      ranks.push_back(other);
  return ranks;
}
constexpr int numGroups = 4;

/// What a rank does next: hand over a transfer, wait for one, or compute, which
/// fills a region with numbers of its own that lie elsewhere.
struct Action {
  enum Kind { Start, Wait, Compute } kind;
  int event = 0;
  /// Of Plan::copies.
  int copy = 0;
};

/// A step, the same on all ranks.
struct Plan {
  std::vector<Action> actions;
  std::vector<fsdp_rt_start_desc> starts =
      std::vector<fsdp_rt_start_desc>(numEvents);
  std::vector<fsdp_rt_wait_desc> waits;
  /// Of the actions that compute, in their order.
  std::vector<fsdp_rt_copy_desc> copies;
  std::vector<std::vector<fsdp_rt_collective_desc>> parts =
      std::vector<std::vector<fsdp_rt_collective_desc>>(numEvents);
  std::vector<std::vector<const fsdp_rt_collective_desc *>> pointers =
      std::vector<std::vector<const fsdp_rt_collective_desc *>>(numEvents);
  std::vector<std::vector<int64_t>> after =
      std::vector<std::vector<int64_t>>(numEvents);
  uint64_t seed = 0;
};

class Planner {
public:
  explicit Planner(uint64_t seed) : random_(seed) { plan_.seed = seed; }

  Plan make() {
    for (int event = 0; event < numEvents; ++event) {
      // Some waits and some computation in between.
      for (size_t i = 0; i < open_.size();)
        if (random_.below(6) == 0)
          wait(i);
        else
          ++i;
      if (random_.below(3) == 0)
        compute();
      start(event);
    }
    while (!open_.empty())
      wait(size_t(random_.below(int64_t(open_.size()))));
    for (int event = 0; event < numEvents; ++event)
      plan_.waits.push_back({"wait", event});
    return std::move(plan_);
  }

private:
  struct Use {
    int event;
    bool isWrite;
  };

  void wait(size_t at) {
    int event = open_[at];
    plan_.actions.push_back({Action::Wait, event});
    open_.erase(open_.begin() + int64_t(at));
    for (std::vector<Use> &uses : uses_)
      uses.erase(std::remove_if(uses.begin(), uses.end(),
                                [&](Use use) { return use.event == event; }),
                 uses.end());
  }

  void compute() {
    int region = int(random_.below(numRegions));
    if (uses_[size_t(region)].empty())
      plan_.actions.push_back({Action::Compute, 0, addCopy(region)});
  }

  int addCopy(int region) {
    auto copy = int64_t(plan_.copies.size());
    plan_.copies.push_back({"compute", regionsBytes + copy * regionBytes,
                            region * regionBytes, regionBytes});
    return int(copy);
  }

  /// The transfers that have to be complete before a part touches `region`.
  void order(int region, bool isWrite, std::vector<int64_t> &after) {
    for (Use use : uses_[size_t(region)])
      if (isWrite || use.isWrite)
        after.push_back(use.event);
  }

  void start(int event) {
    fsdp_rt_start_desc &desc = plan_.starts[size_t(event)];
    std::vector<fsdp_rt_collective_desc> &parts = plan_.parts[size_t(event)];
    std::vector<int64_t> &after = plan_.after[size_t(event)];
    desc.name = "transfer";
    desc.event = event;
    do {
      desc.kind = int32_t(random_.below(rt::numTransferKinds));
      desc.queue = 1 + int32_t(random_.below(rt::numQueues - 1));
    } while (!rt::isCollective(desc.kind) ||
             !rt::runsOn(desc.kind, desc.queue));
    auto group = int32_t(random_.below(numGroups));
    std::vector<Use> mine[numRegions];
    // Distinct regions: the parts of a bucket run in no order.
    std::vector<int> free;
    for (int region = 0; region < numRegions; ++region)
      free.push_back(region);
    auto take = [&] {
      auto at = random_.below(int64_t(free.size()));
      int region = free[size_t(at)];
      free.erase(free.begin() + at);
      return region;
    };
    for (int64_t i = 1 + random_.below(3); i > 0; --i) {
      // Sums of any bytes have one result, other than those of floats.
      constexpr fsdp_rt_dtype types[] = {FSDP_RT_I64, FSDP_RT_I16, FSDP_RT_U8};
      fsdp_rt_collective_desc part = {};
      part.name = "part";
      part.group = group;
      part.dtype = types[random_.below(3)];
      part.count = random_.below(200);
      part.divisor = 1 + random_.below(3);
      int src = take();
      bool isInPlace = desc.kind == FSDP_RT_ALL_REDUCE && random_.below(2);
      int dst = isInPlace ? src : take();
      part.src = src * regionBytes;
      part.dst = dst * regionBytes;
      parts.push_back(part);
      order(src, isInPlace, after);
      order(dst, true, after);
      mine[src].push_back({event, isInPlace});
      mine[dst].push_back({event, true});
    }
    // The queue's own order is enough for what it was given before; say it
    // sometimes all the same, and what is of no use.
    after.erase(std::remove_if(after.begin(), after.end(),
                               [&](int64_t other) {
                                 return plan_.starts[size_t(other)].queue ==
                                            desc.queue &&
                                        random_.below(2) == 0;
                               }),
                after.end());
    if (event > 0 && random_.below(4) == 0)
      after.push_back(random_.below(event));
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    for (int region = 0; region < numRegions; ++region)
      uses_[size_t(region)].insert(uses_[size_t(region)].end(),
                                   mine[region].begin(), mine[region].end());
    for (fsdp_rt_collective_desc &part : parts)
      plan_.pointers[size_t(event)].push_back(&part);
    desc.parts = plan_.pointers[size_t(event)].data();
    desc.part_count = int64_t(parts.size());
    desc.after = after.data();
    desc.after_count = int64_t(after.size());
    open_.push_back(event);
    plan_.actions.push_back({Action::Start, event});
  }

  Plan plan_;
  Random random_;
  std::vector<int> open_;
  std::vector<Use> uses_[numRegions];
};

void fill(char *region, uint64_t seed, int rank) {
  Bytes numbers = randomElements(FSDP_RT_F32, regionBytes / 4,
                                 seed * 1009 + uint64_t(rank));
  std::memcpy(region, numbers.data(), numbers.size());
}

/// One collective of one group on the arenas of all ranks.
void apply(int32_t kind, const fsdp_rt_collective_desc &part,
           const std::vector<int> &ranks, std::vector<Bytes> &arenas) {
  auto dtype = static_cast<fsdp_rt_dtype>(part.dtype);
  int64_t bytes = part.count * sizeOf(dtype), n = int64_t(ranks.size());
  std::vector<Bytes> sources;
  bool isWhole = kind == FSDP_RT_REDUCE_SCATTER || kind == FSDP_RT_ALL_TO_ALL;
  int64_t srcBytes = isWhole ? bytes * n : bytes;
  for (int rank : ranks) {
    auto begin = arenas[size_t(rank)].begin() + part.src;
    sources.emplace_back(begin, begin + srcBytes);
  }
  Bytes sum;
  if (kind == FSDP_RT_ALL_REDUCE)
    sum = expectedSum(sources, 0, part.count, dtype, part.divisor);
  for (int64_t i = 0; i < n; ++i) {
    auto dst = arenas[size_t(ranks[size_t(i)])].begin() + part.dst;
    if (kind == FSDP_RT_ALL_GATHER)
      for (const Bytes &source : sources)
        dst = std::copy(source.begin(), source.end(), dst);
    if (kind == FSDP_RT_ALL_TO_ALL)
      for (const Bytes &source : sources)
        dst = std::copy_n(source.begin() + i * bytes, bytes, dst);
    if (kind == FSDP_RT_REDUCE_SCATTER) {
      Bytes own =
          expectedSum(sources, i * part.count, part.count, dtype, part.divisor);
      std::copy(own.begin(), own.end(), dst);
    }
    if (kind == FSDP_RT_ALL_REDUCE)
      std::copy(sum.begin(), sum.end(), dst);
  }
}

/// The arenas after the step, if everything had run in the order of the plan.
void simulate(const Plan &plan, std::vector<Bytes> &arenas) {
  int size = int(arenas.size());
  for (size_t at = 0; at < plan.actions.size(); ++at) {
    const Action &action = plan.actions[at];
    for (int rank = 0; rank < size; ++rank) {
      if (action.kind == Action::Compute) {
        const fsdp_rt_copy_desc &copy = plan.copies[size_t(action.copy)];
        char *arena = arenas[size_t(rank)].data();
        fill(arena + copy.src, plan.seed + at, rank);
        std::memcpy(arena + copy.dst, arena + copy.src, size_t(copy.bytes));
      }
      if (action.kind != Action::Start)
        continue;
      const std::vector<fsdp_rt_collective_desc> &parts =
          plan.parts[size_t(action.event)];
      std::vector<int> ranks = groupOf(parts[0].group, rank, size);
      if (ranks[0] != rank)
        continue;
      for (const fsdp_rt_collective_desc &part : parts)
        apply(plan.starts[size_t(action.event)].kind, part, ranks, arenas);
    }
  }
}

/// Puts what the plan's computation fills regions with where it takes it.
Status provide(const Plan &plan, TestRank &context) {
  Bytes numbers(regionBytes);
  for (size_t at = 0; at < plan.actions.size(); ++at) {
    if (plan.actions[at].kind != Action::Compute)
      continue;
    const fsdp_rt_copy_desc &copy = plan.copies[size_t(plan.actions[at].copy)];
    fill(numbers.data(), plan.seed + at, context.world().rank());
    if (Status s =
            context.memory().upload(copy.src, numbers.data(), copy.bytes))
      return s;
  }
  return Status::ok();
}

/// The plan's actions on this rank, with pauses that differ between ranks.
int32_t perform(const Plan &plan, const TestRank &context, int rank,
                fsdp_rt_context *ctx) {
  Random pauses(plan.seed * 77 + uint64_t(rank));
  for (const Action &action : plan.actions) {
    int32_t rc = 0;
    if (pauses.below(8) == 0 && context.runsFunctions()) {
      auto pause = useconds_t(pauses.below(300));
      rc = compute(ctx, [=] { usleep(pause); });
    }
    if (rc == 0 && action.kind == Action::Start)
      rc = fsdp_rt_start(ctx, &plan.starts[size_t(action.event)]);
    if (rc == 0 && action.kind == Action::Wait)
      rc = fsdp_rt_wait(ctx, &plan.waits[size_t(action.event)]);
    if (rc == 0 && action.kind == Action::Compute)
      rc = fsdp_rt_copy(ctx, &plan.copies[size_t(action.copy)]);
    if (rc != 0)
      return rc;
  }
  return 0;
}

class Queues : public testing::TestWithParam<BackendCase> {
protected:
  /// With queues that have threads, then with ones that have none.
  void run(const std::function<Status(TestRank &)> &body) {
    runWith(rt::QueueThreads::On, body);
    runWith(rt::QueueThreads::Off, body);
  }

private:
  void runWith(rt::QueueThreads queueThreads,
               const std::function<Status(TestRank &)> &body) {
    Status status = runOn(GetParam(), [&](World &world) -> Status {
      TestRankOptions options;
      options.arenaBytes = arenaBytes;
      for (int group = 0; group < numGroups; ++group)
        options.groups.push_back(groupOf(group, world.rank(), world.size()));
      options.events = numEvents;
      options.queues = {FSDP_RT_QUEUE_ALL_GATHER, FSDP_RT_QUEUE_REDUCE,
                        FSDP_RT_QUEUE_ALL_REDUCE};
      options.queueThreads = queueThreads;
      auto context = TestRank::create(world, options);
      return context.isOk() ? body(**context) : context.status();
    });
    EXPECT_TRUE(status.isOk()) << status.message();
  }
};

TEST_P(Queues, EveryInterleavingGivesTheSameBits) {
  if (std::string why = whyBitsVary(GetParam()); !why.empty())
    GTEST_SKIP() << why;
  run([](TestRank &context) -> Status {
    int rank = context.world().rank(), size = context.world().size();
    std::vector<Bytes> expected(static_cast<size_t>(size), Bytes(arenaBytes));
    for (int r = 0; r < size; ++r)
      for (int region = 0; region < numRegions; ++region)
        fill(expected[size_t(r)].data() + region * regionBytes,
             uint64_t(region), r);
    if (Status s = context.memory().upload(0, expected[size_t(rank)].data(),
                                           arenaBytes))
      return s;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      Plan plan = Planner(seed * 1000).make();
      simulate(plan, expected);
      if (Status s = provide(plan, context))
        return s;
      if (Status s = runStep(context, [&](fsdp_rt_context *ctx) {
            return perform(plan, context, rank, ctx);
          }))
        return s;
      const Bytes &own = expected[size_t(rank)];
      Bytes found(arenaBytes);
      if (Status s = context.memory().download(0, found.data(), arenaBytes))
        return s;
      for (int64_t i = 0; i < arenaBytes; ++i)
        if (found[size_t(i)] != own[size_t(i)])
          return Status::failed("seed " + std::to_string(seed) + ": byte " +
                                std::to_string(i % regionBytes) +
                                " of region " +
                                std::to_string(i / regionBytes) + " differs");
    }
    return Status::ok();
  });
}

TEST_P(Queues, MessagesBeyondAllLimits) {
  Status status = runOn(GetParam(), [](World &world) -> Status {
    int64_t bytes = largeBytes() / 4 * 4, size = world.size();
    TestRankOptions options;
    options.arenaBytes = 2 * bytes * (2 * size + 1);
    options.groups = {allRanks(world)};
    options.events = 3;
    options.queues = {FSDP_RT_QUEUE_ALL_GATHER, FSDP_RT_QUEUE_REDUCE,
                      FSDP_RT_QUEUE_ALL_REDUCE};
    options.queueThreads = rt::QueueThreads::On;
    auto made = TestRank::create(world, options);
    if (!made.isOk())
      return made.status();
    TestRank &context = **made;
    // Three of them at once, on queues of their own.
    fsdp_rt_collective_desc gather = {"gather", 0, bytes,     bytes,
                                      1,        0, FSDP_RT_U8};
    int64_t at = bytes * (size + 1);
    fsdp_rt_collective_desc sum = {"sum", at, at + bytes, bytes / 4,
                                   1,     0,  FSDP_RT_I32};
    int64_t wholeAt = at + 2 * bytes, receivedAt = wholeAt + bytes * size;
    fsdp_rt_collective_desc exchange = {
        "exchange", wholeAt, receivedAt, bytes / 4, 1, 0, FSDP_RT_I32};
    const fsdp_rt_collective_desc *parts[] = {&gather, &sum, &exchange};
    fsdp_rt_start_desc starts[] = {
        {"gather", &parts[0], 1, nullptr, 0, 0, FSDP_RT_ALL_GATHER,
         FSDP_RT_QUEUE_ALL_GATHER, nullptr},
        {"sum", &parts[1], 1, nullptr, 0, 1, FSDP_RT_ALL_REDUCE,
         FSDP_RT_QUEUE_ALL_REDUCE, nullptr},
        {"exchange", &parts[2], 1, nullptr, 0, 2, FSDP_RT_ALL_TO_ALL,
         FSDP_RT_QUEUE_REDUCE, nullptr}};
    fsdp_rt_wait_desc waits[] = {{"gather", 0}, {"sum", 1}, {"exchange", 2}};
    for (int step = 0; step < 3; ++step) {
      Bytes sent(size_t(bytes), char(10 * step + world.rank()));
      std::vector<int32_t> terms(size_t(bytes / 4));
      for (int64_t i = 0; i < bytes / 4; ++i)
        terms[size_t(i)] = int32_t(i) + world.rank() + step;
      std::vector<int32_t> whole(size_t(bytes / 4 * size));
      for (size_t i = 0; i < whole.size(); ++i)
        whole[i] = int32_t(3 * i) + world.rank() * 7 + step;
      if (Status s = context.memory().upload(0, sent.data(), bytes))
        return s;
      if (Status s = context.memory().upload(at, terms.data(), bytes))
        return s;
      if (Status s =
              context.memory().upload(wholeAt, whole.data(), bytes * size))
        return s;
      if (Status s = runStep(context, [&](fsdp_rt_context *ctx) {
            return fsdp_rt_start(ctx, &starts[0]) ||
                   fsdp_rt_start(ctx, &starts[2]) ||
                   fsdp_rt_start(ctx, &starts[1]) ||
                   fsdp_rt_wait(ctx, &waits[1]) ||
                   fsdp_rt_wait(ctx, &waits[0]) || fsdp_rt_wait(ctx, &waits[2]);
          }))
        return s;
      Bytes gathered(size_t(bytes * size));
      if (Status s =
              context.memory().download(bytes, gathered.data(), bytes * size))
        return s;
      if (Status s = context.memory().download(at + bytes, terms.data(), bytes))
        return s;
      if (Status s =
              context.memory().download(receivedAt, whole.data(), bytes * size))
        return s;
      for (int64_t i = 0; i < bytes * size; ++i)
        if (gathered[size_t(i)] != char(10 * step + i / bytes))
          return Status::failed("all_gather: byte " + std::to_string(i));
      for (int64_t i = 0; i < bytes / 4; ++i)
        if (terms[size_t(i)] !=
            int32_t(size * (i + step) + size * (size - 1) / 2))
          return Status::failed("all_reduce: element " + std::to_string(i));
      for (int64_t i = 0; i < bytes / 4 * size; ++i) {
        int64_t from = i / (bytes / 4), part = i % (bytes / 4);
        int64_t place = world.rank() * (bytes / 4) + part;
        if (whole[size_t(i)] != int32_t(3 * place) + from * 7 + step)
          return Status::failed("all_to_all: element " + std::to_string(i));
      }
    }
    return Status::ok();
  });
  EXPECT_TRUE(status.isOk()) << status.message();
}

INSTANTIATE_TEST_SUITE_P(, Queues, testing::ValuesIn(backendCases()),
                         [](const testing::TestParamInfo<BackendCase> &info) {
                           return info.param.name();
                         });

} // namespace
} // namespace fsdp::test
