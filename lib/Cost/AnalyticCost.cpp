//===- AnalyticCost.cpp - Costs from a cluster file -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Cost/AnalyticCost.h"
#include "fsdp/Cost/ExactSums.h"
#include "fsdp/Cost/NcclModel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cassert>
#include <limits>

using namespace llvm;
using namespace mlir::fsdp;

static Link getLink(const GroupPlacement &group) {
  return group.nodes > 1 ? Link::Inter : Link::Intra;
}

/// Both directions are one link where they share it.
static Link getHostLink(const Cluster &cluster, TransferKind kind) {
  bool up = kind == TransferKind::Reload;
  return up && cluster.host && cluster.host->duplex ? Link::HostToDevice
                                                    : Link::DeviceToHost;
}

QueueLinks mlir::fsdp::getQueueLinks(const Cluster &cluster,
                                     const GroupPlacement &shard,
                                     const GroupPlacement &replicate) {
  QueueLinks links;
  links[unsigned(Queue::AllGather)] = getLink(shard);
  links[unsigned(Queue::Reduce)] = getLink(shard);
  links[unsigned(Queue::AllReduce)] = getLink(replicate);
  links[unsigned(Queue::D2H)] = getHostLink(cluster, TransferKind::Offload);
  links[unsigned(Queue::H2D)] = getHostLink(cluster, TransferKind::Reload);
  return links;
}

static Party getParty(std::optional<Link> link) {
  if (!link)
    return Party::Compute;
  switch (*link) {
  case Link::Intra:
    return Party::Intra;
  case Link::Inter:
    return Party::Inter;
  case Link::DeviceToHost:
  case Link::HostToDevice:
    return Party::Host;
  }
  llvm_unreachable("not a link");
}

/// A party that alone slows a queue to rate r adds 1 / r - 1 to the queue's
/// time per unit of work; several parties add up. A party counts once, however
/// many queues are on its link, since together they move no more than one.
static int computeRate(const Cluster &cluster, const QueueLinks &links,
                       unsigned queue, unsigned active) {
  Party of = getParty(links[queue]);
  std::array<bool, kNumParties> runs = {};
  for (unsigned other = 0; other < kNumQueues; ++other)
    // A queue without a link, other than compute, sends nothing.
    if ((active & (1u << other)) &&
        (links[other] || other == unsigned(Queue::Compute)))
      runs[unsigned(getParty(links[other]))] = true;
  double time = 1;
  for (unsigned by = 0; by < kNumParties; ++by)
    if (runs[by] && by != unsigned(of))
      time += 1 / cluster.contention[unsigned(of)][by] - 1;
  return std::max(1, int(double(kFullRate) / time));
}

AnalyticCost::AnalyticCost(Cluster description, const QueueLinks &links)
    : cluster(std::move(description)) {
  assert(!links[unsigned(Queue::Compute)] && "compute has no link");
  for (unsigned queue = 0; queue < kNumQueues; ++queue)
    for (unsigned active = 0; active < 1u << kNumQueues; ++active)
      rates[queue][active] =
          uint16_t(computeRate(cluster, links, queue, active));
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Lanes of a warp, and shared memory that the driver takes of each block.
static constexpr int64_t kWarp = 32, kReservedShared = 1024;

/// Of the flops of @kernel, by type: at the part of each unit's peak that they
/// reach, or at the peak itself.
static double getArithmeticSeconds(const Device &device,
                                   const KernelCost &kernel, bool atPeak) {
  bool isAttention = kernel.kind == KernelKind::Attention ||
                     kernel.kind == KernelKind::AttentionBackward;
  bool usesMatrixUnits = isAttention || kernel.kind == KernelKind::Matmul;
  double arithmetic = 0;
  for (unsigned i = 0; i < kNumCostDtypes; ++i) {
    double flops = double(kernel.flops[i]);
    if (flops == 0)
      continue;
    bool matrix = usesMatrixUnits && CostDtype(i) == kernel.dtype &&
                  device.matmul[i].peak > 0;
    double attention = kernel.kind == KernelKind::Attention
                           ? device.attentionForward[i]
                           : device.attentionBackward[i];
    // Narrow types without units of their own are computed in f32.
    const RatedUnit &unit = matrix ? device.matmul[i]
                            : device.vector[i].peak > 0
                                ? device.vector[i]
                                : device.vector[unsigned(CostDtype::F32)];
    if (atPeak)
      arithmetic += flops / unit.peak;
    else if (matrix && isAttention && attention > 0)
      arithmetic += flops / (unit.peak * attention);
    else
      arithmetic += unit.seconds(flops);
  }
  return arithmetic;
}

namespace {
/// What the multiprocessors make of one launch.
struct LaunchTime {
  /// Threads that run at once.
  int64_t resident = 0;
  /// Its bytes at the peak of the memory, at the rate that so many bytes reach,
  /// and where a multiprocessor waits for what its threads have asked for.
  double atPeak = 0, bySize = 0, byThreads = 0;
  /// Where instructions are issued, or computed by the busiest unit.
  double instructions = 0;

  double getMemory() const { return std::max(bySize, byThreads); }
  double getSeconds() const { return std::max(getMemory(), instructions); }
};
} // namespace

/// Little's law: bytes in flight = rate x latency; and in each round of
/// resident blocks one load after another that a thread waits for. A warp
/// issues an instruction in a cycle at most, and a multiprocessor without a
/// block none.
static LaunchTime getLaunchTime(const Device &device,
                                const LaunchCost &launch) {
  const Multiprocessors &all = device.multiprocessors;
  int64_t blocks = std::clamp<int64_t>(
      std::min(all.threads / launch.threads,
               all.sharedBytes / (launch.shared + kReservedShared)),
      1, std::max<int64_t>(1, divideCeil(launch.blocks, all.count)));
  LaunchTime time;
  time.resident = std::min(launch.blocks, blocks * all.count) * launch.threads;
  double bytes = double(launch.read + launch.written);
  time.atPeak = bytes / device.memory.peak;
  time.bySize = device.memory.seconds(bytes);
  if (launch.bytesInFlight > 0)
    time.byThreads = double(launch.read) * all.latencySeconds /
                     (double(time.resident) * double(launch.bytesInFlight));
  int64_t rounds = divideCeil(launch.blocks, blocks * all.count);
  time.byThreads =
      std::max(time.byThreads,
               double(rounds) * double(launch.waits) * all.latencySeconds);
  int64_t warps = blocks * int64_t(divideCeil(launch.threads, kWarp)),
          issued = std::min(all.issuedPerCycle, warps);
  double cycles = double(launch.instructions) / kWarp / double(issued);
  for (auto [results, rate] : llvm::zip(launch.results, all.results))
    if (rate > 0)
      cycles = std::max(cycles, double(results) * double(all.issuedPerCycle) /
                                    double(issued) / rate);
  time.instructions = cycles / (double(std::min(launch.blocks, all.count)) *
                                all.clock * all.efficiency);
  return time;
}

bool AnalyticCost::usesLaunches(const KernelCost &kernel) const {
  return cluster.device.multiprocessors.count > 0 && !kernel.launches.empty();
}

double AnalyticCost::getStartSeconds(const KernelCost &kernel) const {
  return cluster.device.launchSeconds *
         (usesLaunches(kernel) ? double(kernel.launches.size()) : 1.0);
}

Time AnalyticCost::launch(const KernelCost &kernel) const {
  return toTime(getStartSeconds(kernel));
}

Time AnalyticCost::kernel(const KernelCost &kernel) const {
  const Device &device = cluster.device;
  double arithmetic = getArithmeticSeconds(device, kernel, /*atPeak=*/false);
  double rest = 0;
  if (usesLaunches(kernel))
    for (const LaunchCost &launch : kernel.launches)
      rest += getLaunchTime(device, launch).getSeconds();
  else
    rest = device.memory.seconds(double(kernel.bytes));
  return toTime(getStartSeconds(kernel) + std::max(arithmetic, rest));
}

/// Of what @kernel takes beyond the roof, the largest part: what launches take,
/// or what the slowest of arithmetic, memory and instructions does.
KernelRoof AnalyticCost::roof(const KernelCost &kernel) const {
  const Device &device = cluster.device;
  double peakArithmetic = getArithmeticSeconds(device, kernel, /*atPeak=*/true),
         arithmetic = getArithmeticSeconds(device, kernel, /*atPeak=*/false),
         needed = double(kernel.bytes) / device.memory.peak,
         roof = std::max(peakArithmetic, needed);
  LaunchTime sum{0, needed, device.memory.seconds(double(kernel.bytes)), 0, 0};
  double rest = sum.bySize, memory = sum.bySize;
  if (usesLaunches(kernel)) {
    sum = LaunchTime();
    rest = memory = 0;
    double most = 0;
    for (const LaunchCost &launch : kernel.launches) {
      LaunchTime time = getLaunchTime(device, launch);
      // The launch that loses most by few threads says how many there are.
      if (double lost = time.byThreads - time.bySize; lost > most) {
        most = lost;
        sum.resident = time.resident;
      }
      sum.atPeak += time.atPeak;
      sum.bySize += time.bySize;
      sum.byThreads += std::max(0.0, time.byThreads - time.bySize);
      sum.instructions += time.instructions;
      memory += time.getMemory();
      rest += time.getSeconds();
    }
  }
  KernelRoof result;
  result.time = toTime(roof);
  double start = getStartSeconds(kernel), work = std::max(arithmetic, rest),
         most = 0;
  auto loses = [&](KernelLimit limit, double lost, double amount) {
    // A thousandth of the time is no reason.
    if (lost <= std::max(most, (start + work) / 1000))
      return;
    most = lost;
    result.limit = limit;
    result.amount = amount;
  };
  loses(KernelLimit::Launch, start,
        usesLaunches(kernel) ? double(kernel.launches.size()) : 1.0);
  if (work - roof <= most)
    return result;
  most = 0;
  if (arithmetic >= rest) {
    loses(KernelLimit::Units, arithmetic - roof, peakArithmetic / arithmetic);
  } else if (rest - memory > memory - needed) {
    loses(KernelLimit::Instructions, rest - roof, 0);
  } else {
    loses(KernelLimit::Reads, sum.atPeak - needed, sum.atPeak / needed);
    loses(KernelLimit::Bytes, sum.bySize - sum.atPeak, sum.atPeak / sum.bySize);
    loses(KernelLimit::Threads, sum.byThreads, double(sum.resident));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

/// What one rank reads and writes for a collective of @bytes among @ranks
/// that copy in shared memory: what is copied is read and written once, a sum
/// reads its part of every rank's buffer and writes it. Where each rank gets
/// the sum of all parts, those are gathered afterwards.
static double getMemoryTraffic(TransferKind kind, double bytes, double ranks) {
  CollectiveShape shape = getShape(kind);
  if (shape.work == ElementWork::Copies)
    return 2 * bytes;
  double sum = bytes * (ranks + 1) / ranks;
  return shape.source == shape.result ? 2 * sum : sum;
}

TransferCost AnalyticCost::copy(const TransferKey &transfer) const {
  assert(cluster.host && "offload needs links.host in the cluster file");
  TransferCost cost;
  cost.link = getHostLink(cluster, transfer.kind);
  double bytes = double(transfer.getBytes());
  cost.latency =
      toTime(cluster.host->latencySeconds * double(transfer.atomBytes.size()));
  cost.work = toTime(bytes / cluster.host->bandwidth);
  return cost;
}

/// The cluster file's table of such collectives; null where it has none for the
/// kind and group.
static const MeasuredCollective *findMeasured(const Cluster &cluster,
                                              const TransferKey &transfer) {
  const GroupPlacement &group = transfer.group;
  for (const MeasuredCollective &measured : cluster.collectives)
    if (measured.kind == transfer.kind && measured.nodes == group.nodes &&
        measured.ranksPerNode == group.ranksPerNode && !group.unevenness &&
        measured.neighbours == group.neighbours)
      return &measured;
  return nullptr;
}

namespace {
/// How a transfer is done, which says what its time is computed from.
struct TransferMethod {
  enum Kind { Nothing, Copy, Measured, Memory, Exact, Nccl };
  Kind kind = Nothing;
  /// Of Measured: the cluster file's table.
  const MeasuredCollective *table = nullptr;
};
} // namespace

static bool isInMemory(const Cluster &cluster, const GroupPlacement &group) {
  return group.nodes == 1 && cluster.intra->kind == IntraKind::Memory;
}

static TransferMethod getMethod(const Cluster &cluster,
                                const TransferKey &transfer) {
  if (!isCollective(transfer.kind))
    return {TransferMethod::Copy};
  if (transfer.group.ranks == 1 || transfer.getBytes() == 0)
    return {TransferMethod::Nothing};
  bool isExact = !transfer.partialScales.empty();
  // Tables are of NCCL's sums.
  if (const MeasuredCollective *table =
          isExact ? nullptr : findMeasured(cluster, transfer))
    return {TransferMethod::Measured, table};
  if (isInMemory(cluster, transfer.group))
    return {TransferMethod::Memory};
  if (isExact)
    return {TransferMethod::Exact};
  return {TransferMethod::Nccl};
}

/// What the table says of a collective of @bytes.
static TransferCost getMeasured(const MeasuredCollective &table,
                                int64_t bytes) {
  TransferCost cost;
  cost.latency = toTime(table.seconds.smallestTime());
  cost.work = toTime(table.seconds.time(double(bytes))) - cost.latency;
  return cost;
}

/// What one rank reads and writes in a second there.
static double getMemoryRate(const IntraLink &intra, double bytes,
                            int64_t ranks) {
  return intra.bandwidth * intra.efficiency.scale() *
         intra.efficiency.ratio(bytes, ranks, intra.bandwidth);
}

static TransferCost getInMemory(const IntraLink &intra,
                                const TransferKey &transfer, int64_t bytes) {
  int64_t ranks = transfer.group.ranks;
  TransferCost cost;
  cost.latency = toTime(intra.latencySeconds);
  cost.work =
      toTime(getMemoryTraffic(transfer.kind, double(bytes), double(ranks)) /
             getMemoryRate(intra, double(bytes), ranks));
  return cost;
}

/// Of a bucket whose collectives run one by one: the sum of @getCost of each
/// one's bytes.
static TransferCost addAtoms(const TransferKey &transfer,
                             function_ref<TransferCost(int64_t)> getCost) {
  TransferCost sum;
  // One may take the most that is counted at all, and there may be many.
  const Time most = toTime(std::numeric_limits<double>::infinity());
  for (int64_t bytes : transfer.atomBytes) {
    if (bytes == 0)
      continue;
    TransferCost cost = getCost(bytes);
    sum.latency = std::min(sum.latency + cost.latency, most);
    sum.work = std::min(sum.work + cost.work, most);
  }
  return sum;
}

/// NCCL issues the collectives of a bucket as one.
static NcclCandidate getNccl(const Cluster &cluster,
                             const TransferKey &transfer) {
  int64_t atoms =
      llvm::count_if(transfer.atomBytes, [](int64_t atom) { return atom > 0; });
  return getNcclChoice(cluster, transfer.kind, transfer.group,
                       transfer.getBytes(), atoms);
}

TransferCost AnalyticCost::transfer(const TransferKey &transfer) const {
  TransferMethod method = getMethod(cluster, transfer);
  TransferCost cost;
  switch (method.kind) {
  case TransferMethod::Copy:
    return copy(transfer);
  case TransferMethod::Nothing:
    break;
  case TransferMethod::Measured: {
    auto measure = [&](int64_t bytes) {
      return getMeasured(*method.table, bytes);
    };
    cost = isInMemory(cluster, transfer.group) ? addAtoms(transfer, measure)
                                               : measure(transfer.getBytes());
    break;
  }
  case TransferMethod::Memory:
    cost = addAtoms(transfer, [&](int64_t bytes) {
      return getInMemory(*cluster.intra, transfer, bytes);
    });
    break;
  case TransferMethod::Exact: {
    ExactSum sum = getExactSum(cluster, transfer);
    cost.latency = toTime(sum.latencySeconds);
    cost.work = toTime(sum.seconds) - cost.latency;
    break;
  }
  case TransferMethod::Nccl: {
    NcclCandidate choice = getNccl(cluster, transfer);
    cost.latency = toTime(choice.latencySeconds);
    cost.work = toTime(choice.seconds) - cost.latency;
    break;
  }
  }
  cost.link = getLink(transfer.group);
  return cost;
}

/// Latencies do not count beside it.
static constexpr int64_t kLargeTransfer = int64_t(1) << 40;

TransferRoute AnalyticCost::route(const TransferKey &transfer) const {
  TransferMethod method = getMethod(cluster, transfer);
  int64_t ranks = transfer.group.ranks;
  switch (method.kind) {
  case TransferMethod::Copy:
    return {"copy", "", cluster.host->bandwidth};
  case TransferMethod::Nothing:
    return {};
  case TransferMethod::Measured:
    return {"measured", "", method.table->seconds.bestRate()};
  case TransferMethod::Memory:
    return {"memory", "",
            getMemoryRate(*cluster.intra, double(kLargeTransfer), ranks) /
                getMemoryTraffic(transfer.kind, 1, double(ranks))};
  case TransferMethod::Exact: {
    TransferKey large = transfer;
    large.atomBytes = {kLargeTransfer};
    large.partialScales.resize(1);
    return {kExactAlgorithm,
            transfer.group.nodes == 1      ? ""
            : hasTwoLevels(transfer.group) ? kTwoLevels
                                           : kOneLevel,
            double(kLargeTransfer) / getExactSum(cluster, large).seconds};
  }
  case TransferMethod::Nccl: {
    NcclCandidate choice = getNccl(cluster, transfer);
    return {kNcclAlgorithmNames[unsigned(choice.algorithm)],
            kNcclProtocolNames[unsigned(choice.protocol)],
            double(kLargeTransfer) / getNcclChoice(cluster, transfer.kind,
                                                   transfer.group,
                                                   kLargeTransfer)
                                         .seconds};
  }
  }
  llvm_unreachable("not a method");
}

bool AnalyticCost::ordersCollectives() const {
  return !cluster.intra || cluster.intra->kind != IntraKind::Memory;
}

int AnalyticCost::rate(Queue queue, QueueMask active) const {
  return rates[unsigned(queue)][active & ((1u << kNumQueues) - 1)];
}
