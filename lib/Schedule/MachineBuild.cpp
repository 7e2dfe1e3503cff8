//===- MachineBuild.cpp - The machine's tables ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Machine.h"
#include "RangeMax.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

static Queue queueOf(int stream) { return Queue(stream + 1); }

static bool isGather(int stream) { return isFetch(queueOf(stream)); }

Machine::Machine(const ScheduleProblem &problem, const CastPlan &casts,
                 bool frugal)
    : problem(problem), budget(problem.budget) {
  refOf.resize(problem.transfers.size());
  for (int q = 0; q != kNumQueues; ++q)
    for (int mask = 0; mask != 64; ++mask)
      rates[q * 64 + mask] = problem.cost && (mask >> q & 1)
                                 ? problem.cost->rate(Queue(q), mask)
                                 : kFullRate;
  buildLine(casts);
  for (int stream = 0; stream != kNumStreams; ++stream)
    for (auto [i, t] : llvm::enumerate(getQueueOrder(problem, queueOf(stream))))
      refOf[t] = {int8_t(stream), int32_t(i)};
  readyKey = getReadyKeys(problem);
  std::vector<int> lastTail = getLastTail(problem);
  buildTails(lastTail);
  buildStreams(lastTail);
  inRankOrder = frugal;
  rankGathers();
  findChoices(frugal);
  if (frugal)
    addFrugalNeeds();
  buildFloors(casts, frugal);
  buildBounds();
}

void Machine::buildLine(const CastPlan &casts) {
  // Casts by the segment before which they stand: none behind a later one.
  std::vector<std::vector<Id>> castsAt(problem.spine.size() + 1);
  for (Queue queue : {Queue::AllGather, Queue::H2D}) {
    std::vector<Id> order = getCastOrder(problem, queue), place = casts.place;
    for (size_t i = order.size(); i-- > 1;)
      place[order[i - 1]] = std::min(place[order[i - 1]], place[order[i]]);
    for (Id f : order)
      castsAt[place[f]].push_back(f);
  }

  Id segments = problem.spine.size();
  segmentAt.resize(segments);
  castAt.assign(problem.floating.size(), -1);
  for (Id s = 0; s != segments; ++s) {
    const SpineSegment &segment = problem.spine[s];
    int64_t border = getBorderBytes(problem, s);
    for (Id f : castsAt[s]) {
      castAt[f] = line.size();
      Step step;
      step.op = {true, f};
      step.work = problem.floating[f].work;
      step.live = step.border = border;
      step.begins = problem.floating[f].heldBytes;
      line.push_back(std::move(step));
    }
    segmentAt[s] = line.size();
    Step step;
    step.op = {false, s};
    step.work = segment.work;
    step.live = segment.live;
    step.border = border;
    line.push_back(std::move(step));
  }
}

void Machine::buildTails(llvm::ArrayRef<int> lastTail) {
  std::vector<Id> order = getTailOrder(problem);
  for (Id f : order) {
    TailStep step;
    step.op = f;
    step.work = problem.floating[f].work;
    for (Id t : problem.floating[f].after)
      step.needs.push_back(refOf[t]);
    tails.push_back(std::move(step));
  }
  std::vector<Id> keys = getTailKeys(problem, order);
  tailNeed.assign(problem.transfers.size(), -1);
  for (auto [t, tail] : llvm::enumerate(lastTail))
    if (size_t(tail) == tails.size())
      tailNeed[t] = line.size();
    else if (tail >= 0 && keys[tail] >= 0)
      tailNeed[t] = segmentAt[keys[tail]];
}

void Machine::buildStreams(llvm::ArrayRef<int> lastTail) {
  std::vector<llvm::SmallVector<Id, 2>> before = getPredecessors(problem);
  PlaceFloor floor = getPlaceFloor(problem);
  for (int stream = 0; stream != kNumStreams; ++stream) {
    for (Id t : getQueueOrder(problem, queueOf(stream))) {
      const Transfer &transfer = problem.transfers[t];
      Item item;
      item.transfer = t;
      item.duration = transfer.cost.total();
      item.work = transfer.cost.work;
      item.link = transfer.cost.link;
      Id place = floor.place[t];
      // On the border of two segments, in front of the casts there.
      item.floor = place > 0 ? segmentAt[place - 1] + 1 : 0;
      item.floorCause = floor.fromLimit[t] ? Cause::Limit : Cause::Data;
      item.takes = transfer.dstBytes;
      item.frees = transfer.srcBytes;
      for (Id a : before[t])
        item.after.push_back(refOf[a]);
      if (transfer.srcBytes)
        line[segmentAt[transfer.srcBegin]].begins += transfer.srcBytes;
      if (!isGather(stream) && transfer.ready >= 0 && item.takes) {
        item.owed = true;
        line[segmentAt[transfer.ready]].owes += item.takes;
      }
      if (transfer.firstUse >= 0) {
        line[segmentAt[transfer.firstUse]].needs.push_back(refOf[t]);
        line[segmentAt[transfer.lastUse]].frees += item.takes;
      } else if (lastTail[t] >= 0 && size_t(lastTail[t]) < tails.size()) {
        tails[lastTail[t]].frees += item.takes;
      }
      streams[stream].push_back(std::move(item));
    }
  }
  for (auto [f, op] : llvm::enumerate(problem.floating)) {
    if (op.before < 0)
      continue;
    Ref ref = refOf[op.before];
    Item &item = streams[ref.stream][ref.index];
    item.frees += op.heldBytes;
    if (castAt[f] + 1 > item.floor) {
      item.floor = castAt[f] + 1;
      item.floorCause = Cause::Data;
    }
  }
}

/// Gathers and fetches take their memory in the order of first use, a fetch
/// before the gather that reads it, or leave room for those that they overtake.
void Machine::rankGathers() {
  for (int stream = 0; stream != kNumStreams; ++stream)
    if (isGather(stream) && !streams[stream].empty())
      ranked.push_back(stream);
  for (int stream : ranked)
    for (int32_t i = 0, e = streams[stream].size(); i != e; ++i)
      byRank.push_back({int8_t(stream), i});
  llvm::sort(byRank, [&](Ref a, Ref b) {
    auto key = [&](Ref r) {
      const Transfer &transfer = problem.transfers[item(r).transfer];
      return std::make_tuple(transfer.firstUse, transfer.queue != Queue::H2D,
                             r.stream, r.index);
    };
    return key(a) < key(b);
  });
  for (auto [i, ref] : llvm::enumerate(byRank))
    streams[ref.stream][ref.index].rank = i;
}

/// Streams that share a link take turns on it.
void Machine::findChoices(bool frugal) {
  std::vector<uint8_t> streamsOn(problem.numLinks);
  for (int stream = 0; stream != kNumStreams; ++stream)
    for (const Item &item : streams[stream])
      streamsOn[item.link] |= 1 << stream;
  leastLoss = kFullRate;
  for (int stream = 0; stream != kNumStreams; ++stream) {
    if (streams[stream].empty())
      continue;
    bool shares = llvm::any_of(streams[stream], [&](const Item &item) {
      return streamsOn[item.link] & ~(1 << stream);
    });
    (shares ? choices : others).push_back(stream);
    for (const Item &item : streams[stream])
      latencies |= shares && item.duration > item.work;
    leastLoss = std::min(
        leastLoss,
        kFullRate - rates[maskOf(Queue::Compute) | maskOf(queueOf(stream))]);
  }
  latencies &= !frugal;
  for (int stream : choices)
    for (const Item &item : streams[stream])
      oneAfterOther &= !latencies || item.link == streams[choices[0]][0].link;
}

/// Reductions and tails as soon as they can be, before anything else.
void Machine::addFrugalNeeds() {
  size_t tail = 0;
  std::array<int32_t, kNumStreams> counts = {};
  for (Id s = 1, e = problem.spine.size(); s < e; ++s) {
    auto isInput = [&](Id t) { return readyKey[t] < s; };
    Step &step = line[segmentAt[s - 1] + 1];
    for (int stream = 0; stream != kNumStreams; ++stream) {
      if (isGather(stream))
        continue;
      int32_t &count = counts[stream];
      while (size_t(count) != streams[stream].size() &&
             isInput(streams[stream][count].transfer))
        ++count;
      if (count)
        step.needs.push_back({int8_t(stream), count - 1});
    }
    while (tail != tails.size() && llvm::all_of(tails[tail].needs, [&](Ref r) {
             return isInput(item(r).transfer);
           }))
      ++tail;
    step.tailsBefore = tail;
  }
}

/// By place in its queue: the line op before which a fetch starts, so many
/// quarters of its time before compute by itself comes to its use.
std::vector<Id> Machine::getFetchFloors(int lead) const {
  std::vector<Time> before = {0};
  for (const Step &step : line)
    before.push_back(before.back() + step.work);
  const std::vector<Item> &fetches = streams[int(Queue::H2D) - 1];
  std::vector<Id> places(fetches.size());
  Time next = before.back();
  for (size_t i = fetches.size(); i-- > 0;) {
    const Item &item = fetches[i];
    Id use = segmentAt[problem.transfers[item.transfer].firstUse];
    next = std::min(next, before[use]) - item.duration * lead / 4;
    Id place = std::distance(before.begin(), llvm::upper_bound(before, next));
    places[i] = std::clamp<Id>(place - 1, std::min(item.floor, use), use);
  }
  // Nobody overtakes on a queue.
  for (size_t i = 1; i < places.size(); ++i)
    places[i] = std::max(places[i], places[i - 1]);
  return places;
}

/// Memory becomes order: gathers start in the order of first use, so what
/// gather i finds at a place does not depend on where earlier ones started. It
/// may start where, from there to its first use, all that must be alive fits
/// beside it; whoever starts there takes nothing that others cannot wait for.
void Machine::buildFloors(const CastPlan &casts, bool frugal) {
  int32_t n = line.size();
  // What must be alive during op i, and on the border before it.
  std::vector<int64_t> during(n + 2), border(n + 2), freed(n + 2);
  auto add = [&](std::vector<int64_t> &v, int32_t from, int32_t to,
                 int64_t bytes) {
    if (from > to)
      return;
    v[from] += bytes;
    v[to + 1] -= bytes;
  };
  if (casts.lead != CastPlan::kEarly) {
    std::vector<Item> &fetches = streams[int(Queue::H2D) - 1];
    for (auto [item, place] : llvm::zip(fetches, getFetchFloors(casts.lead))) {
      const Transfer &t = problem.transfers[item.transfer];
      item.reserved = true;
      if (place > item.floor) {
        item.floor = place;
        item.floorCause = Cause::Memory;
      }
      for (auto *bytes : {&during, &border})
        add(*bytes, place, segmentAt[t.lastUse], item.takes);
    }
  }
  for (int stream = 0; stream != kNumStreams; ++stream)
    for (const Item &item : streams[stream]) {
      if (item.reserved)
        continue;
      const Transfer &t = problem.transfers[item.transfer];
      if (isGather(stream)) {
        freed[segmentAt[t.lastUse] + 1] += item.takes;
        continue;
      }
      int32_t ready = t.ready >= 0 ? segmentAt[t.ready] : -1;
      if (t.srcBytes) {
        add(during, segmentAt[t.srcBegin], ready, t.srcBytes);
        add(border, segmentAt[t.srcBegin] + 1, ready + 1, t.srcBytes);
      }
      if (!item.takes)
        continue;
      int32_t last = std::max(ready, lastNeed(item.transfer));
      add(during, ready + 1, std::min(last, n - 1), item.takes);
      add(border, ready + 1, std::min(last + 1, n), item.takes);
    }
  for (auto [f, op] : llvm::enumerate(problem.floating))
    if (op.before >= 0 && casts.reserve) {
      int32_t use = segmentAt[problem.transfers[op.before].firstUse];
      add(during, castAt[f], use - 1, op.heldBytes);
      add(border, castAt[f] + 1, use, op.heldBytes);
    }
  for (auto *bytes : {&during, &border, &freed})
    std::partial_sum(bytes->begin(), bytes->end(), bytes->begin());
  // The border before each op, then the op.
  std::vector<int64_t> needed;
  needed.reserve(2 * n);
  for (int32_t i = 0; i != n; ++i) {
    needed.push_back(border[i] + line[i].border - freed[i]);
    needed.push_back(during[i] + line[i].live - freed[i]);
  }
  RangeMax places(needed);

  int64_t room = budget - problem.fixedBytes;
  // By stream: nobody overtakes on its own one.
  std::array<int32_t, kNumStreams> leastOf = {};
  for (Ref ref : byRank) {
    Item &item = streams[ref.stream][ref.index];
    if (item.reserved)
      continue;
    const Transfer &t = problem.transfers[item.transfer];
    int32_t use = segmentAt[t.firstUse];
    room -= item.takes;
    int32_t place = use, &least = leastOf[ref.stream];
    if (!frugal) {
      int32_t free = (places.findLastAbove(2 * use + 1, room) + 1) / 2;
      place = std::min(use, std::max(least, free));
    }
    least = std::max(least, place);
    // What a fetch brings back held the same room before it went: others may
    // have that until the op that completes it.
    if (Id key = readyKey[item.transfer]; !t.after.empty() && key >= 0)
      places.addToFirst(2 * segmentAt[key] + 2, -item.takes);
    if (place > item.floor) {
      item.floor = place;
      item.floorCause = Cause::Memory;
    }
  }
}

std::vector<Id> Machine::getFloors() const {
  std::vector<Id> floors(problem.transfers.size());
  for (const auto &stream : streams)
    for (const Item &item : stream)
      floors[item.transfer] =
          llvm::lower_bound(segmentAt, item.floor) - segmentAt.begin();
  return floors;
}

/// The last line op during which the result of a reduction is there in any
/// order: another transfer that its readers need too is not ready before.
int32_t Machine::lastNeed(Id t) const {
  const Transfer &transfer = problem.transfers[t];
  if (transfer.lastUse >= 0)
    return segmentAt[transfer.lastUse];
  return tailNeed[t];
}

void Machine::buildBounds() {
  lineAfter.assign(line.size() + 1, 0);
  for (size_t i = line.size(); i-- > 0;)
    lineAfter[i] = lineAfter[i + 1] + line[i].work;
  tailsAfter.assign(tails.size() + 1, 0);
  for (size_t i = tails.size(); i-- > 0;)
    tailsAfter[i] = tailsAfter[i + 1] + tails[i].work;

  // Least time behind each transfer.
  std::vector<Time> behind(problem.transfers.size());
  for (size_t i = 0; i != line.size(); ++i)
    for (Ref r : line[i].needs) {
      Time &b = behind[item(r).transfer];
      b = std::max(b, lineAfter[i]);
    }
  for (size_t i = 0; i != tails.size(); ++i)
    for (Ref r : tails[i].needs) {
      Time &b = behind[item(r).transfer];
      b = std::max(b, tailsAfter[i]);
    }
  for (bool changed = true; changed;) {
    changed = false;
    for (int stream = kNumStreams; stream-- > 0;)
      for (const Item &x : llvm::reverse(streams[stream]))
        for (Ref r : x.after) {
          Time &b = behind[item(r).transfer];
          Time least = x.duration + behind[x.transfer];
          if (least > b)
            b = least, changed = true;
        }
  }
  for (int stream = 0; stream != kNumStreams; ++stream) {
    size_t n = streams[stream].size();
    streamAfter[stream].assign(n + 1, 0);
    streamWork[stream].assign(n + 1, 0);
    streamBusy[stream].assign(n + 1, 0);
    for (size_t i = n; i-- > 0;) {
      const Item &x = streams[stream][i];
      streamWork[stream][i] =
          streamWork[stream][i + 1] + (latencies ? x.work : x.duration);
      streamBusy[stream][i] = streamBusy[stream][i + 1] + x.duration;
      streamAfter[stream][i] =
          x.duration + std::max(behind[x.transfer], streamAfter[stream][i + 1]);
    }
    if (n)
      streamTail[stream] = behind[streams[stream][n - 1].transfer];
  }
}
