//===- Contention.cpp - What runs beside a queue slows it down ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Contention.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

/// So many are looked at together: each set of them has a price.
static constexpr size_t kMostLinks = 4;
/// So many places near the end from which contention is counted.
static constexpr size_t kMostTails = 64;

namespace {
/// How much of its time a queue loses at least to others that run beside it.
class Loss {
public:
  Loss(const CostModel &cost, Queue queue, llvm::ArrayRef<Beside> others);
  /// @work: of each of the others, in time that it takes alone.
  Time get(llvm::ArrayRef<Time> work) const;
  /// At least get(), without finding prices.
  Time getMost(llvm::ArrayRef<Time> work) const;

private:
  /// Most speed that @queue has beside one of the queues of each.
  int getRate(const CostModel &cost, Queue queue,
              llvm::ArrayRef<QueueMask> others) const;

  /// Of each of the others beside the queue.
  SmallVector<double> speed;
  /// By set of others: the part of the time that the queue loses beside them.
  SmallVector<double> lost;
  /// Of each of the others: no price of it is higher.
  SmallVector<double> highest;
};
} // namespace

int Loss::getRate(const CostModel &cost, Queue queue,
                  llvm::ArrayRef<QueueMask> others) const {
  SmallVector<QueueMask> active = {maskOf(queue)};
  for (QueueMask other : others) {
    SmallVector<QueueMask> more;
    for (QueueMask mask : active)
      for (int q = 1; q != kNumQueues; ++q)
        if (other & maskOf(Queue(q)))
          more.push_back(mask | maskOf(Queue(q)));
    active = std::move(more);
  }
  int most = 0;
  for (QueueMask mask : active)
    most = std::max(most, cost.rate(queue, mask));
  return most;
}

Loss::Loss(const CostModel &cost, Queue queue, llvm::ArrayRef<Beside> others) {
  for (const Beside &other : others) {
    int most = 1;
    for (int q = 1; q != kNumQueues; ++q)
      if (other.queues & maskOf(Queue(q)))
        most = std::max(most,
                        cost.rate(Queue(q), maskOf(Queue(q)) | maskOf(queue)));
    speed.push_back(double(most) / kFullRate);
  }
  lost.resize(size_t(1) << others.size());
  for (size_t set = 1; set != lost.size(); ++set) {
    SmallVector<QueueMask> masks;
    for (auto [i, other] : llvm::enumerate(others))
      if (set >> i & 1)
        masks.push_back(other.queues);
    lost[set] = 1 - double(getRate(cost, queue, masks)) / kFullRate;
  }
  for (size_t i = 0; i != others.size(); ++i)
    highest.push_back(std::clamp(lost[size_t(1) << i] / speed[i], 0.0, 1.0));
}

/// A price for each other's work, so that no set of them pays more, while it
/// runs, than the queue loses to it: the prices of all work together are lost
/// whatever runs beside what. What loses more than all its time would wait
/// instead.
Time Loss::get(llvm::ArrayRef<Time> work) const {
  SmallVector<size_t> order(work.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::make_pair(-double(work[a]) / speed[a], a) <
           std::make_pair(-double(work[b]) / speed[b], b);
  });
  SmallVector<double> price(work.size());
  size_t priced = 0;
  double sum = 0;
  for (size_t i : order) {
    double most = 1;
    // Every set of those that have a price, and this one.
    for (size_t set = priced;; set = (set - 1) & priced) {
      double beside = lost[set | size_t(1) << i], waiting = 1;
      for (size_t j = 0; j != work.size(); ++j)
        if (set >> j & 1) {
          beside -= price[j] * speed[j];
          waiting -= price[j];
        }
      most = std::min({most, beside / speed[i], waiting});
      if (!set)
        break;
    }
    price[i] = std::max(most, 0.0);
    priced |= size_t(1) << i;
    sum += price[i] * double(work[i]);
  }
  // Prices are rounded, by less than that.
  return Time(sum * (1 - 1e-12) + 1e-6);
}

Time Loss::getMost(llvm::ArrayRef<Time> work) const {
  double sum = 0;
  for (auto [time, price] : llvm::zip_equal(work, highest))
    sum += price * double(time);
  return Time(sum) + 1;
}

namespace {
/// What runs beside a queue, one after the other: how much of it is left
/// between some time and the last stretch of the step.
class List {
public:
  explicit List(const std::vector<Job> &jobs);
  /// For getLeft: as much as possible is done in the last @end of the step.
  void beginWith(Time end);
  /// As much as possible is over by @now, too, which only grows.
  Time getLeft(Time now);

private:
  Time getMostDone(Time end) const;

  const std::vector<Job> &jobs;
  std::vector<Job> byTail;
  Time total = 0;
  size_t next = 0;
  Time left = 0, free = 0;
};
} // namespace

List::List(const std::vector<Job> &jobs) : jobs(jobs), byTail(jobs) {
  llvm::sort(byTail,
             [](const Job &a, const Job &b) { return a.tail < b.tail; });
  for (const Job &job : jobs)
    total += job.work;
}

void List::beginWith(Time end) {
  next = 0;
  left = total - getMostDone(end);
  free = 0;
}

Time List::getLeft(Time now) {
  for (; next != jobs.size() && jobs[next].head <= now; ++next) {
    free = std::max(free, jobs[next].head) + jobs[next].work;
    left -= jobs[next].work;
  }
  return std::max<Time>(0, left + std::max<Time>(0, free - now));
}

Time List::getMostDone(Time end) const {
  Time done = 0, free = 0;
  for (const Job &job : byTail) {
    if (job.tail >= end)
      break;
    free = std::max(free, job.tail) + job.work;
    done += job.work;
  }
  return done - std::max<Time>(0, free - end);
}

void mlir::fsdp::sched::sortByHead(std::vector<Job> &jobs) {
  llvm::sort(jobs, [](const Job &a, const Job &b) {
    return std::make_tuple(a.head, a.work, a.tail) <
           std::make_tuple(b.head, b.work, b.tail);
  });
}

void LinkJobs::sortByHead() {
  sched::sortByHead(work);
  llvm::for_each(queues, sched::sortByHead);
}

QueueMask LinkJobs::getQueues() const {
  QueueMask mask = 0;
  for (auto [q, jobs] : llvm::enumerate(queues))
    if (!jobs.empty())
      mask |= maskOf(Queue(q));
  return mask;
}

SmallVector<Beside>
mlir::fsdp::sched::getBusyLinks(llvm::ArrayRef<LinkJobs> links,
                                QueueMask except) {
  SmallVector<Beside> busy;
  for (const LinkJobs &link : links) {
    QueueMask mask = link.getQueues();
    if (link.work.empty() || (mask & except) || busy.size() == kMostLinks)
      continue;
    Beside &beside = busy.emplace_back();
    beside.queues = mask;
    beside.lists.push_back(&link.work);
    for (const std::vector<Job> &jobs : link.queues)
      if (!jobs.empty())
        beside.lists.push_back(&jobs);
  }
  return busy;
}

Time mlir::fsdp::sched::getSlowed(const CostModel &cost,
                                  llvm::ArrayRef<Job> slowed, Queue queue,
                                  llvm::ArrayRef<Beside> others,
                                  llvm::ArrayRef<Time> ends, Time most) {
  if (others.empty())
    return most;
  Loss loss(cost, queue, others);
  SmallVector<std::vector<List>> lists;
  for (const Beside &other : others) {
    auto &group = lists.emplace_back();
    for (const std::vector<Job> *jobs : other.lists)
      group.emplace_back(*jobs);
  }
  SmallVector<Time> beside(others.size());
  // By job: what is left from it on, and how long a step takes that does that
  // behind it, or behind a later one, at least.
  std::vector<Time> left(slowed.size()), latest(slowed.size());
  for (Time end : ends) {
    Time sum = 0, last = 0;
    for (size_t i = slowed.size(); i-- != 0;)
      if (slowed[i].tail >= end) {
        left[i] = sum += slowed[i].work;
        latest[i] = last = std::max(last, slowed[i].head + end + sum);
      }
    for (auto &group : lists)
      for (List &list : group)
        list.beginWith(end);
    for (auto [i, job] : llvm::enumerate(slowed)) {
      if (job.tail < end)
        continue;
      for (auto [group, work] : llvm::zip_equal(lists, beside)) {
        work = 0;
        for (List &list : group)
          work = std::max(work, list.getLeft(job.head));
      }
      Time loses = loss.getMost(beside);
      // Later ones lose no more.
      if (latest[i] + loses <= most)
        break;
      Time least = job.head + end + left[i];
      if (least + loses > most)
        most = std::max(most, least + loss.get(beside));
    }
  }
  return most;
}

SmallVector<Time> mlir::fsdp::sched::getTails(llvm::ArrayRef<Job> jobs) {
  std::vector<Time> tails;
  for (const Job &job : jobs)
    tails.push_back(job.tail);
  llvm::sort(tails);
  tails.erase(llvm::unique(tails), tails.end());
  SmallVector<Time> some;
  size_t stride = std::max<size_t>(tails.size() / kMostTails, 1);
  for (size_t i = 0; i < tails.size(); i += stride)
    some.push_back(tails[i]);
  return some;
}
