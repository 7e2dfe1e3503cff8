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
/// How much of what runs beside a queue is left, from some time on.
struct Rest {
  const std::vector<Job> *jobs;
  size_t next = 0;
  Time left = 0, free = 0;

  /// As much as possible is over by @now, which only grows.
  Time getLeft(Time now) {
    for (; next != jobs->size() && (*jobs)[next].head <= now; ++next) {
      const Job &job = (*jobs)[next];
      free = std::max(free, job.head) + job.work;
      left -= job.work;
    }
    return std::max<Time>(0, left + std::max<Time>(0, free - now));
  }
};
} // namespace

/// As much of @jobs, which are by tail, as can be done in the last @end.
static Time getMostDone(llvm::ArrayRef<Job> jobs, Time end) {
  Time done = 0, free = 0;
  for (const Job &job : jobs) {
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

SmallVector<Beside>
mlir::fsdp::sched::getBusyLinks(llvm::ArrayRef<std::vector<Job>> links,
                                llvm::ArrayRef<QueueMask> queues,
                                QueueMask except) {
  SmallVector<Beside> busy;
  for (auto [jobs, mask] : llvm::zip_equal(links, queues))
    if (!jobs.empty() && !(mask & except) && busy.size() != kMostLinks)
      busy.push_back({&jobs, mask});
  return busy;
}

Time mlir::fsdp::sched::getSlowed(const CostModel &cost,
                                  llvm::ArrayRef<Job> slowed, Queue queue,
                                  llvm::ArrayRef<Beside> others,
                                  llvm::ArrayRef<Time> ends, Time most) {
  if (others.empty())
    return most;
  Loss loss(cost, queue, others);
  std::vector<std::vector<Job>> byTail;
  SmallVector<Time> total;
  for (const Beside &other : others) {
    llvm::sort(byTail.emplace_back(*other.jobs),
               [](const Job &a, const Job &b) { return a.tail < b.tail; });
    Time &sum = total.emplace_back(0);
    for (const Job &job : *other.jobs)
      sum += job.work;
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
    SmallVector<Rest> rests;
    for (auto [i, other] : llvm::enumerate(others))
      rests.push_back(
          {other.jobs, 0, total[i] - getMostDone(byTail[i], end), 0});
    for (auto [i, job] : llvm::enumerate(slowed)) {
      if (job.tail < end)
        continue;
      for (auto [rest, work] : llvm::zip_equal(rests, beside))
        work = rest.getLeft(job.head);
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
