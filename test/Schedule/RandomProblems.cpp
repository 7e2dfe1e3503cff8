//===- RandomProblems.cpp - Steps to schedule, from a seed ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomProblems.h"

#include <algorithm>
#include <random>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using namespace mlir::fsdp::sched::test;

namespace {
/// Distributions of the standard library differ between its makers.
struct Random {
  std::mt19937_64 engine;
  explicit Random(uint64_t seed) : engine(seed) {}
  int64_t below(int64_t n) { return engine() % n; }
  double around(double spread) {
    return 1 + spread * (double(below(2'000'001)) / 1e6 - 1);
  }
};
} // namespace

ScheduleProblem mlir::fsdp::sched::test::makeProblem(const RandomOptions &o,
                                                     uint64_t seed) {
  Random random(seed * 0x9E3779B97F4A7C15 + 1);
  ScheduleProblem p;
  int n = o.units;
  constexpr Time kForward = 1'000'000'000; // 1 ms
  constexpr int64_t kUnit = 1 << 20, kActivation = 300'000;
  p.numLinks = o.hybrid == RandomOptions::OwnLink ? 2 : 1;
  p.fixedBytes = 5'000'000;

  // Spine: forward, loss, backward.
  std::vector<double> size(n);
  std::vector<int64_t> activation(n);
  int64_t live = 0;
  for (int u = 0; u != n; ++u) {
    size[u] = random.around(o.spread);
    activation[u] = kActivation * random.around(o.spread);
    live += activation[u];
    Time work = kForward * size[u] * random.around(o.spread / 2);
    p.spine.push_back({work, live});
  }
  p.spine.push_back({Time(kForward * 0.2), live});
  p.backwardBegin = n + 1;
  std::vector<Time> forward;
  for (int u = 0; u != n; ++u)
    forward.push_back(p.spine[u].work);
  for (int u = n; u-- > 0;) {
    p.spine.push_back(
        {Time(forward[u] * 2 * random.around(o.spread / 3)), live});
    live -= activation[u];
  }
  Time compute = 0;
  for (const SpineSegment &s : p.spine)
    compute += s.work;

  // Transfers: (gather, gather, reduction) of each unit.
  auto add = [&](Queue queue, int unit) -> Transfer & {
    Transfer t;
    t.queue = queue;
    t.cost.work = 1000 * size[unit]; // scaled below
    p.transfers.push_back(t);
    return p.transfers.back();
  };
  auto backwardOf = [&](int u) { return Id(2 * n - u); };
  std::vector<Id> gathers;
  for (int u = 0; u != n; ++u) {
    Transfer &t = add(Queue::AllGather, u);
    t.firstUse = t.lastUse = u;
    t.dstBytes = kUnit * size[u];
    if ((u == n - 1 && o.keepLast) || (u == 0 && o.keepFirst))
      t.lastUse = backwardOf(u);
    gathers.push_back(p.transfers.size() - 1);
  }
  for (int u = n; u-- > 0;) {
    if ((u == n - 1 && o.keepLast) || (u == 0 && o.keepFirst))
      continue;
    Transfer &t = add(Queue::AllGather, u);
    t.firstUse = t.lastUse = backwardOf(u);
    t.dstBytes = kUnit * size[u];
    gathers.push_back(p.transfers.size() - 1);
  }
  std::vector<Id> reductions;
  for (int u = n; u-- > 0;) {
    Transfer &t = add(Queue::Reduce, u);
    t.ready = t.srcBegin = backwardOf(u);
    t.srcBytes = kUnit * size[u];
    t.dstBytes = t.srcBytes / 8;
    reductions.push_back(p.transfers.size() - 1);
  }
  if (o.hybrid != RandomOptions::None)
    for (int i = 0; i != n; ++i) {
      Transfer &t = add(Queue::AllReduce, n - 1 - i);
      t.cost.work /= 2;
      t.cost.link = p.numLinks - 1;
      t.after.push_back(reductions[i]);
      reductions[i] = p.transfers.size() - 1;
    }
  double main = 0;
  for (const Transfer &t : p.transfers)
    main += t.cost.link == 0 ? t.cost.work : 0;
  for (Transfer &t : p.transfers) {
    Time work =
        t.cost.work * (o.ratio * compute / main) * random.around(o.spread / 4);
    t.cost.latency = work * o.latency;
    t.cost.work = work - t.cost.latency;
  }

  // Floating ops.
  std::vector<Id> norms;
  for (int i = 0; o.clip && i != n; ++i) {
    FloatingOp f;
    f.work = compute * o.tails / n / 4;
    f.after.push_back(reductions[i]);
    norms.push_back(p.floating.size());
    p.floating.push_back(f);
  }
  for (int i = 0; o.tails > 0 && i != n; ++i) {
    FloatingOp f;
    f.work = compute * o.tails / n * random.around(o.spread);
    f.after.push_back(reductions[i]);
    f.afterFloating.append(norms.begin(), norms.end());
    p.floating.push_back(f);
  }
  if (o.casts)
    for (Id t : gathers) {
      FloatingOp f;
      f.work = kForward / 100;
      f.before = t;
      f.heldBytes = p.transfers[t].dstBytes / 8;
      p.floating.push_back(f);
    }
  for (int u = 0; o.copies > 0 && u < n; u += 2) {
    for (Id s = u; s <= backwardOf(u); ++s)
      p.spine[s].live -= activation[u];
    Transfer there, back;
    there.queue = Queue::D2H;
    there.cost = {0, Time(forward[u] * o.copies), p.numLinks};
    there.srcBegin = u;
    there.ready = u + 1;
    there.srcBytes = activation[u];
    back.queue = Queue::H2D;
    back.cost = {0, there.cost.work, p.numLinks + 1};
    back.after = {Id(p.transfers.size())};
    back.firstUse = back.lastUse = backwardOf(u);
    back.dstBytes = activation[u];
    p.transfers.push_back(there);
    p.transfers.push_back(back);
  }
  if (o.copies > 0)
    p.numLinks += 2;
  else if (o.fetches)
    ++p.numLinks;
  for (size_t i = 0; o.fetches && i != gathers.size(); ++i) {
    Transfer fetch;
    Transfer &gather = p.transfers[gathers[i]];
    fetch.queue = Queue::H2D;
    fetch.cost = {0, gather.cost.work / 2, p.numLinks - 1};
    fetch.firstUse = fetch.lastUse = gather.firstUse;
    fetch.dstBytes = gather.dstBytes / 8;
    gather.after.push_back(Id(p.transfers.size()));
    p.transfers.push_back(fetch);
  }
  int64_t staying = 0;
  for (Transfer &transfer : p.transfers)
    if (o.stay && transfer.firstUse < 0) {
      transfer.stays = true;
      staying += transfer.dstBytes;
    }
  if (o.rooms > 0)
    p.budget = p.fixedBytes + p.spine[n].live + int64_t(kUnit * (1 + o.rooms)) +
               staying;
  return p;
}

RandomOptions mlir::fsdp::sched::test::pickOptions(uint64_t seed) {
  Random random(seed + 77);
  RandomOptions o;
  o.units = 3 + random.below(6);
  o.ratio = 0.3 + 0.1 * random.below(18);
  o.rooms = 2 + random.below(4);
  o.spread = 0.1 * random.below(6);
  constexpr decltype(o.hybrid) kinds[] = {
      RandomOptions::None, RandomOptions::None, RandomOptions::OwnLink,
      RandomOptions::SharedLink};
  o.hybrid = kinds[random.below(4)];
  o.tails = 0.01 * random.below(6);
  o.clip = random.below(4) == 0;
  o.casts = random.below(4) == 0;
  o.keepLast = random.below(3) != 0;
  o.keepFirst = random.below(4) == 0;
  o.fetches = !o.casts && seed % 5 == 0;
  return o;
}
