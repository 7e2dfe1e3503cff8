//===- AnalyticCostTest.cpp - Kernels, transfers and rates ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestCluster.h"

#include "fsdp/Cost/AnalyticCost.h"
#include "fsdp/Cost/NcclModel.h"

using namespace mlir::fsdp;

namespace {

constexpr Time kMicrosecond = 1'000'000;

struct AnalyticCostTest : testing::Test {
  Cluster cluster = parseOrFail(kRoundCluster);
  GroupPlacement node = placeOrFail(cluster, 32, 8, 1);
  GroupPlacement across = placeOrFail(cluster, 32, 4, 8);
  GroupPlacement all = placeOrFail(cluster, 32, 32, 1);

  AnalyticCost make(const std::string &text) {
    return AnalyticCost(parseOrFail(text),
                        getQueueLinks(cluster, node, across));
  }
  AnalyticCost model = make(kRoundCluster);
};

KernelCost move(int64_t bytes) {
  KernelCost kernel;
  kernel.kind = KernelKind::Copy;
  kernel.bytes = bytes;
  return kernel;
}

TEST_F(AnalyticCostTest, TimeIsInPicoseconds) {
  EXPECT_EQ(toTime(1), 1'000'000'000'000);
  EXPECT_EQ(toTime(2.5e-12), 3);
  EXPECT_EQ(toTime(1e-15), 1);
  EXPECT_EQ(toTime(0), 0);
  EXPECT_EQ(toTime(1e300), 1'000'000'000'000'000'000);
  EXPECT_DOUBLE_EQ(toSeconds(toTime(0.125)), 0.125);
}

TEST_F(AnalyticCostTest, AKernelIsItsLaunchAndTheHigherRoof) {
  // Nothing to do: the launch.
  EXPECT_EQ(model.kernel(KernelCost()), 5 * kMicrosecond);
  // 100 MB at the whole 1000 GB/s, 1 MB at half of it.
  EXPECT_EQ(model.kernel(move(100'000'000)), (5 + 100) * kMicrosecond);
  EXPECT_EQ(model.kernel(move(1'000'000)), (5 + 2) * kMicrosecond);
  // 1e11 flops at 0.8 of 1000 TFLOP/s; the bytes need less.
  KernelCost matmul = makeMatmul(CostDtype::BF16, 5000, 5000, 2000);
  EXPECT_EQ(model.kernel(matmul), (5 + 125) * kMicrosecond);
  // With one column the bytes decide.
  KernelCost thin = makeMatmul(CostDtype::BF16, 10000, 1, 5000);
  EXPECT_EQ(thin.flops[unsigned(CostDtype::BF16)], 100'000'000);
  EXPECT_EQ(model.kernel(thin), model.kernel(move(thin.bytes)));
  // 1e9 flops outside the matrix units: 100 TFLOP/s.
  KernelCost vector;
  vector.flops[unsigned(CostDtype::F32)] = 1'000'000'000;
  EXPECT_EQ(model.kernel(vector), (5 + 10) * kMicrosecond);
}

/// Ten multiprocessors of 1 GHz, which issue 4 instructions in a cycle, hold
/// 1000 threads and 100 KiB, and wait 1 us for memory.
std::string withMultiprocessors() {
  return replaced(R"("launch_us": 5,)", R"("launch_us": 5, "multiprocessors": {
      "count": 10, "clock_ghz": 1, "issued_per_cycle": 4, "threads": 1000,
      "shared_kib": 100, "latency_ns": 1000},)");
}

/// A kernel of one launch that streams @bytes, half of them loaded.
KernelCost stream(int64_t bytes, int64_t blocks, int64_t inFlight) {
  KernelCost kernel = move(bytes);
  kernel.kind = KernelKind::Vector;
  LaunchCost launch;
  launch.blocks = blocks;
  launch.threads = 100;
  launch.read = launch.loaded = launch.written = launch.stored = bytes / 2;
  launch.bytesInFlight = inFlight;
  kernel.launches.push_back(launch);
  return kernel;
}

TEST_F(AnalyticCostTest, ALaunchIsBoundByBytesThreadsOrInstructions) {
  AnalyticCost gpu = make(withMultiprocessors());
  // 100 MB at 1000 GB/s; 10000 threads with 1 KB each in flight are enough.
  KernelCost kernel = stream(100'000'000, 1000, 1000);
  EXPECT_EQ(gpu.kernel(kernel), (5 + 100) * kMicrosecond);
  EXPECT_EQ(gpu.roof(kernel).time, 100 * kMicrosecond);
  EXPECT_EQ(gpu.roof(kernel).limit, KernelLimit::Launch);
  // 50 MB in pieces of 10000 x 4 bytes, 1 us each.
  kernel = stream(100'000'000, 1000, 4);
  EXPECT_EQ(gpu.kernel(kernel), (5 + 1250) * kMicrosecond);
  EXPECT_EQ(gpu.roof(kernel).limit, KernelLimit::Threads);
  EXPECT_EQ(gpu.roof(kernel).amount, 10000);
  // One block of 100 threads.
  kernel = stream(1'000'000, 1, 4);
  EXPECT_EQ(gpu.kernel(kernel), (5 + 1250) * kMicrosecond);
  EXPECT_EQ(gpu.roof(kernel).amount, 100);
  // Of 60 KiB, one block is resident on each: a tenth of the threads.
  kernel = stream(100'000'000, 1000, 4);
  kernel.launches[0].shared = 60 * 1024;
  EXPECT_EQ(gpu.kernel(kernel), (5 + 12500) * kMicrosecond);
  // 40 instructions of warps in a nanosecond.
  kernel = stream(1000, 1000, 1000);
  kernel.launches[0].instructions = 32 * 40 * 100'000;
  EXPECT_EQ(gpu.kernel(kernel), (5 + 100) * kMicrosecond);
  EXPECT_EQ(gpu.roof(kernel).limit, KernelLimit::Instructions);
  // Of two multiprocessors; of two warps.
  kernel.launches[0].blocks = 2;
  EXPECT_EQ(gpu.kernel(kernel), (5 + 500) * kMicrosecond);
  kernel.launches[0].threads = 32;
  EXPECT_EQ(gpu.kernel(kernel), (5 + 2000) * kMicrosecond);
}

TEST_F(AnalyticCostTest, AThreadWaitsForLoadsInEachRoundOfBlocks) {
  AnalyticCost gpu = make(withMultiprocessors());
  KernelCost kernel = stream(1000, 10, 1000);
  kernel.launches[0].waits = 100;
  EXPECT_EQ(gpu.kernel(kernel), (5 + 100) * kMicrosecond);
  EXPECT_EQ(gpu.roof(kernel).limit, KernelLimit::Threads);
  // A hundred blocks are resident.
  kernel.launches[0].blocks = 100;
  EXPECT_EQ(gpu.kernel(kernel), (5 + 100) * kMicrosecond);
  kernel.launches[0].blocks = 101;
  EXPECT_EQ(gpu.kernel(kernel), (5 + 200) * kMicrosecond);
}

TEST_F(AnalyticCostTest, TheBusiestUnitBoundsALaunch) {
  std::string text = withMultiprocessors();
  size_t place = text.find("\"latency_ns\"");
  text.insert(place, "\"efficiency\": 0.5, \"results_per_cycle\": "
                     "{\"float\": 128, \"special\": 16}, ");
  AnalyticCost gpu = make(text);
  // 1280 results a nanosecond, half of which are reached.
  KernelCost kernel = stream(1000, 1000, 1000);
  kernel.launches[0].results[unsigned(LaneUnit::Float)] = 64'000'000;
  EXPECT_EQ(gpu.kernel(kernel), (5 + 100) * kMicrosecond);
  EXPECT_EQ(gpu.roof(kernel).limit, KernelLimit::Instructions);
  // 160 of the others.
  kernel.launches[0].results[unsigned(LaneUnit::Special)] = 16'000'000;
  EXPECT_EQ(gpu.kernel(kernel), (5 + 200) * kMicrosecond);
  // A unit that the file does not name bounds nothing.
  kernel.launches[0].results[unsigned(LaneUnit::Integer)] = 1'000'000'000;
  EXPECT_EQ(gpu.kernel(kernel), (5 + 200) * kMicrosecond);
  // What is issued is bound by the efficiency, too: 20 of 40 a nanosecond.
  kernel.launches[0].instructions = 32 * 20 * 300'000;
  EXPECT_EQ(gpu.kernel(kernel), (5 + 300) * kMicrosecond);
}

TEST_F(AnalyticCostTest, EachFunctionIsLaunched) {
  AnalyticCost gpu = make(withMultiprocessors());
  KernelCost kernel = stream(100'000'000, 1000, 1000);
  kernel.launches.push_back(kernel.launches.front());
  // What is needed once is moved twice.
  EXPECT_EQ(gpu.kernel(kernel), (2 * 5 + 2 * 100) * kMicrosecond);
  EXPECT_EQ(gpu.launch(kernel), 10 * kMicrosecond);
  EXPECT_EQ(gpu.roof(kernel).time, 100 * kMicrosecond);
  EXPECT_EQ(gpu.roof(kernel).limit, KernelLimit::Reads);
  EXPECT_EQ(gpu.roof(kernel).amount, 2);
  // A cluster without multiprocessors knows nothing of launches.
  EXPECT_EQ(model.kernel(kernel), model.kernel(move(100'000'000)));
  EXPECT_EQ(model.launch(kernel), 5 * kMicrosecond);
  // And a kernel without launches costs the same on both.
  EXPECT_EQ(gpu.kernel(move(1'000'000)), model.kernel(move(1'000'000)));
}

TEST_F(AnalyticCostTest, TheRoofIsThePeakAndTheReasonWhatLosesMost) {
  // 1e11 flops in 100 us; at 0.8 of the peak 125, and 5 to start.
  KernelCost matmul = makeMatmul(CostDtype::BF16, 5000, 5000, 2000);
  EXPECT_EQ(model.roof(matmul).time, 100 * kMicrosecond);
  EXPECT_EQ(model.roof(matmul).limit, KernelLimit::Units);
  EXPECT_DOUBLE_EQ(model.roof(matmul).amount, 0.8);
  // 10 MB: 10 us, at 0.707 of the rate 14.
  EXPECT_EQ(model.roof(move(10'000'000)).time, 10 * kMicrosecond);
  EXPECT_EQ(model.roof(move(10'000'000)).limit, KernelLimit::Launch);
  EXPECT_EQ(model.roof(move(30'000'000)).limit, KernelLimit::Bytes);
  EXPECT_EQ(model.roof(KernelCost()).time, 0);
}

TEST_F(AnalyticCostTest, ATypeWithoutUnitsIsComputedInF32) {
  KernelCost half = makeMatmul(CostDtype::F16, 1000, 1000, 1000);
  // 2e9 flops at 100 TFLOP/s.
  EXPECT_EQ(model.kernel(half), (5 + 20) * kMicrosecond);
}

TEST_F(AnalyticCostTest, AttentionHasItsOwnEfficiency) {
  AnalyticCost slow = make(replaced(
      "\"launch_us\": 5", "\"launch_us\": 5, \"attention\": {\"bf16\": "
                          "{\"forward\": 0.5, \"backward\": 0.25}}"));
  KernelCost forward =
      makeAttention(false, CostDtype::BF16, 1, 10, 10, 5000, 5000, 100, false);
  KernelCost backward =
      makeAttention(true, CostDtype::BF16, 1, 10, 10, 5000, 5000, 100, false);
  EXPECT_EQ(forward.flops[unsigned(CostDtype::BF16)], 100'000'000'000);
  EXPECT_EQ(backward.flops[unsigned(CostDtype::BF16)], 250'000'000'000);
  EXPECT_EQ(slow.kernel(forward), (5 + 200) * kMicrosecond);
  EXPECT_EQ(slow.kernel(backward), (5 + 1000) * kMicrosecond);
  KernelCost causal =
      makeAttention(false, CostDtype::BF16, 1, 10, 10, 5000, 5000, 100, true);
  EXPECT_EQ(slow.kernel(causal), (5 + 100) * kMicrosecond);
}

TEST_F(AnalyticCostTest, KernelsRiseWithFlopsAndBytes) {
  for (const char *name : kClusterNames) {
    Cluster ready = loadOrFail(name);
    AnalyticCost cost(ready, QueueLinks());
    Time last = 0;
    for (int64_t bytes = 1; bytes < 1ll << 40; bytes += bytes / 7 + 1) {
      Time time = cost.kernel(move(bytes));
      EXPECT_GE(time, last) << name << " " << bytes;
      EXPECT_GE(time, toTime(ready.device.launchSeconds));
      last = time;
    }
    last = 0;
    for (int64_t m = 1; m < 100'000; m += m / 5 + 1) {
      Time time = cost.kernel(makeMatmul(CostDtype::F32, m, 1024, 1024));
      EXPECT_GE(time, last) << name << " " << m;
      last = time;
    }
  }
}

TEST_F(AnalyticCostTest, TransfersFollowNccl) {
  for (const GroupPlacement &group : {node, across, all}) {
    NcclCandidate choice =
        getNcclChoice(cluster, TransferKind::AllReduce, group, 1 << 28);
    TransferCost cost =
        model.transfer({TransferKind::AllReduce, {1 << 28}, group});
    EXPECT_EQ(cost.total(), toTime(choice.seconds));
    EXPECT_EQ(cost.latency, toTime(choice.latencySeconds));
    EXPECT_EQ(cost.link, group.nodes > 1 ? Link::Inter : Link::Intra);
  }
}

TEST_F(AnalyticCostTest, GroupsOfOneRankAndEmptyTransfersAreFree) {
  EXPECT_EQ(model.transfer({TransferKind::AllGather, {1 << 28}, {}}).total(),
            0);
  EXPECT_EQ(model.transfer({TransferKind::AllGather, {0, 0}, node}).total(), 0);
  EXPECT_EQ(model.transfer({TransferKind::AllGather, {}, node}).total(), 0);
}

TEST_F(AnalyticCostTest, ABucketNeverCostsMoreThanItsAtoms) {
  for (const char *name : kClusterNames) {
    Cluster ready = loadOrFail(name);
    int64_t world = std::min<int64_t>(64, ready.nodes * ready.gpusPerNode);
    GroupPlacement group = placeOrFail(ready, world, world, 1);
    AnalyticCost cost(ready, QueueLinks());
    for (int64_t bytes = 256; bytes < 1ll << 32; bytes *= 3) {
      Time one =
          cost.transfer({TransferKind::AllGather, {bytes}, group}).total();
      Time bucket = cost.transfer({TransferKind::AllGather,
                                   {bytes, bytes, bytes, bytes},
                                   group})
                        .total();
      EXPECT_LE(bucket, 4 * one + 4) << name << " " << bytes;
      EXPECT_GE(bucket, one) << name << " " << bytes;
    }
  }
}

TEST_F(AnalyticCostTest, CopiesToTheHost) {
  TransferCost down = model.transfer({TransferKind::Offload, {25'000'000}, {}});
  EXPECT_EQ(down.latency, 10 * kMicrosecond);
  EXPECT_EQ(down.work, 1000 * kMicrosecond);
  EXPECT_EQ(down.link, Link::DeviceToHost);
  TransferKey up{TransferKind::Reload, {25'000'000}, {}};
  EXPECT_EQ(model.transfer(up).link, Link::HostToDevice);
  AnalyticCost shared = make(
      replaced("\"latency_us\": 10", "\"latency_us\": 10, \"duplex\": false"));
  EXPECT_EQ(shared.transfer(up).link, Link::DeviceToHost);
}

TEST_F(AnalyticCostTest, MeasuredCollectivesAreExactAndHaveAFloor) {
  AnalyticCost measured = make(
      replaced("\"nccl\"", R"("collectives": [{"kind": "all_gather", "nodes": 1,
        "ranks_per_node": 8, "us_by_bytes": [[1024, 12], [1048576, 30]]}],
        "nccl")"));
  auto timeOf = [&](TransferKind kind, int64_t bytes,
                    const GroupPlacement &group) {
    return measured.transfer({kind, {bytes}, group}).total();
  };
  EXPECT_EQ(timeOf(TransferKind::AllGather, 1024, node), 12 * kMicrosecond);
  EXPECT_EQ(timeOf(TransferKind::AllGather, 1048576, node), 30 * kMicrosecond);
  EXPECT_EQ(timeOf(TransferKind::AllGather, 4, node), 12 * kMicrosecond);
  EXPECT_EQ(timeOf(TransferKind::AllGather, 2097152, node), 60 * kMicrosecond);
  // Other kinds and groups are the model's.
  EXPECT_EQ(
      timeOf(TransferKind::ReduceScatter, 1024, node),
      model.transfer({TransferKind::ReduceScatter, {1024}, node}).total());
  EXPECT_EQ(timeOf(TransferKind::AllGather, 1024, all),
            model.transfer({TransferKind::AllGather, {1024}, all}).total());
}

TEST_F(AnalyticCostTest, CollectivesInMemoryAreItsTraffic) {
  Cluster cpu = loadOrFail("cpu-2core");
  cpu.collectives.clear();
  AnalyticCost cost(cpu, QueueLinks());
  GroupPlacement pair = placeOrFail(cpu, 2, 2, 1);
  auto workOf = [&](TransferKind kind) {
    return cost.transfer({kind, {19'100'000}, pair}).work;
  };
  // 19.1 GB/s: gather writes what it reads; a reduction of two reads two
  // halves and writes one; all_reduce both.
  EXPECT_EQ(workOf(TransferKind::AllGather), 2000 * kMicrosecond);
  EXPECT_EQ(workOf(TransferKind::ReduceScatter), 1500 * kMicrosecond);
  EXPECT_EQ(workOf(TransferKind::AllReduce), 3000 * kMicrosecond);
  // Each rank reads a part of every buffer and writes a whole one.
  EXPECT_EQ(workOf(TransferKind::AllToAll), 2000 * kMicrosecond);
}

TEST_F(AnalyticCostTest, RoutesSayHowAndWhatTheLinkGives) {
  auto routeOf = [&](const AnalyticCost &cost, TransferKind kind, int64_t bytes,
                     const GroupPlacement &group) {
    return cost.route({kind, {bytes}, group});
  };
  // A ring of 8 sends 7 / 8 of the buffer over 370 GB/s.
  TransferRoute large = routeOf(model, TransferKind::AllGather, 1 << 30, node);
  EXPECT_EQ(large.algorithm, "ring");
  EXPECT_EQ(large.protocol, "simple");
  // But for a latency, of 1 TiB.
  EXPECT_NEAR(large.bandwidth, 370e9 * 8 / 7, 1e7);
  // Small ones go by another protocol on the same link.
  TransferRoute small = routeOf(model, TransferKind::AllGather, 1024, node);
  EXPECT_EQ(small.protocol, "ll");
  EXPECT_EQ(small.bandwidth, large.bandwidth);
  // What nobody sends goes nowhere.
  for (const TransferRoute &route :
       {routeOf(model, TransferKind::AllGather, 0, node),
        routeOf(model, TransferKind::AllGather, 1024, GroupPlacement())}) {
    EXPECT_EQ(route.algorithm, "");
    EXPECT_EQ(route.bandwidth, 0);
  }
  TransferRoute copy = routeOf(model, TransferKind::Offload, 1024, {});
  EXPECT_EQ(copy.algorithm, "copy");
  EXPECT_EQ(copy.bandwidth, 25e9);

  AnalyticCost measured = make(
      replaced("\"nccl\"", R"("collectives": [{"kind": "all_gather", "nodes": 1,
        "ranks_per_node": 8, "us_by_bytes": [[1024, 12], [1048576, 32]]}],
        "nccl")"));
  TransferRoute table = routeOf(measured, TransferKind::AllGather, 1024, node);
  EXPECT_EQ(table.algorithm, "measured");
  EXPECT_NEAR(table.bandwidth, 1048576 / 32e-6, 1);

  Cluster cpu = loadOrFail("cpu-2core");
  cpu.collectives.clear();
  TransferRoute memory =
      routeOf(AnalyticCost(cpu, QueueLinks()), TransferKind::AllGather, 4096,
              placeOrFail(cpu, 2, 2, 1));
  EXPECT_EQ(memory.algorithm, "memory");
  EXPECT_EQ(memory.protocol, "");
  EXPECT_NEAR(memory.bandwidth, 19.1e9 / 2, 1);
}

TEST_F(AnalyticCostTest, NoTransferIsFasterThanItsLink) {
  for (const char *name : kClusterNames) {
    Cluster file = loadOrFail(name);
    AnalyticCost cost(file, QueueLinks());
    int64_t ranks =
        std::min<int64_t>(2 * file.gpusPerNode, file.nodes * file.gpusPerNode);
    GroupPlacement group = placeOrFail(file, ranks, ranks, 1);
    for (TransferKind kind :
         {TransferKind::AllGather, TransferKind::ReduceScatter,
          TransferKind::AllReduce, TransferKind::AllToAll})
      for (int64_t bytes = 256; bytes < 1ll << 34; bytes *= 3) {
        TransferKey key{kind, {bytes, bytes}, group};
        double reached =
            2.0 * double(bytes) / toSeconds(cost.transfer(key).total());
        EXPECT_LE(reached, cost.route(key).bandwidth * (1 + 1e-6))
            << name << " " << unsigned(kind) << " " << bytes;
      }
  }
}

//===----------------------------------------------------------------------===//
// Rates
//===----------------------------------------------------------------------===//

constexpr QueueMask kAll = (1u << kNumQueues) - 1;

TEST_F(AnalyticCostTest, WithoutRulesNobodySlowsAnother) {
  for (unsigned queue = 0; queue < kNumQueues; ++queue)
    EXPECT_EQ(model.rate(Queue(queue), kAll), kFullRate);
}

TEST_F(AnalyticCostTest, RulesSlowWhomTheyName) {
  AnalyticCost ruled = make(replaced("\"nccl\"", R"("contention": [
        {"of": "compute", "by": "intra", "rate": 0.8},
        {"of": "compute", "by": "inter", "rate": 0.8},
        {"of": "inter", "by": "intra", "rate": 0.5}], "nccl")"));
  QueueMask gather = maskOf(Queue::Compute) | maskOf(Queue::AllGather);
  EXPECT_EQ(ruled.rate(Queue::Compute, gather), 819);
  EXPECT_EQ(ruled.rate(Queue::AllGather, gather), 1024);
  // Two queues on one link are one party.
  EXPECT_EQ(ruled.rate(Queue::Compute, gather | maskOf(Queue::Reduce)), 819);
  // all_reduce, between nodes, is another: 1 / (1 + 1/4 + 1/4).
  EXPECT_EQ(ruled.rate(Queue::Compute, gather | maskOf(Queue::AllReduce)), 682);
  EXPECT_EQ(ruled.rate(Queue::AllReduce, gather), 512);
  // Copies to the host: no rule.
  EXPECT_EQ(ruled.rate(Queue::D2H, kAll), 1024);
}

TEST_F(AnalyticCostTest, AQueueWithoutALinkSlowsNobody) {
  Cluster cpu = loadOrFail("cpu-2core");
  QueueLinks links;
  AnalyticCost cost(cpu, links);
  EXPECT_EQ(cost.rate(Queue::Compute, kAll), kFullRate);
}

TEST_F(AnalyticCostTest, OverlapGainsNothingOnTwoCores) {
  Cluster cpu = loadOrFail("cpu-2core");
  GroupPlacement pair = placeOrFail(cpu, 2, 2, 1);
  AnalyticCost cost(cpu, getQueueLinks(cpu, pair, pair));
  QueueMask active = maskOf(Queue::Compute);
  for (Queue other : {Queue::AllGather, Queue::Reduce, Queue::AllReduce}) {
    active |= maskOf(other);
    // All on one link: it and compute have half of the cores each.
    EXPECT_EQ(cost.rate(Queue::Compute, active), 512);
    EXPECT_EQ(cost.rate(other, active), 512);
  }
}

TEST_F(AnalyticCostTest, RatesFallAsMoreRuns) {
  for (const char *name : kClusterNames) {
    Cluster ready = loadOrFail(name);
    int64_t world = std::min<int64_t>(32, ready.nodes * ready.gpusPerNode);
    for (int64_t shard = 1; shard <= world; shard *= 2) {
      GroupPlacement first = placeOrFail(ready, world, shard, 1);
      GroupPlacement second = placeOrFail(ready, world, world / shard, shard);
      AnalyticCost cost(ready, getQueueLinks(ready, first, second));
      for (unsigned queue = 0; queue < kNumQueues; ++queue) {
        EXPECT_EQ(cost.rate(Queue(queue), 0), kFullRate);
        EXPECT_EQ(cost.rate(Queue(queue), maskOf(Queue(queue))), kFullRate);
        for (unsigned active = 0; active <= kAll; ++active)
          for (unsigned more = 0; more < kNumQueues; ++more) {
            int before = cost.rate(Queue(queue), active);
            int after = cost.rate(Queue(queue), active | (1u << more));
            EXPECT_LE(after, before);
            EXPECT_GE(after, 1);
          }
      }
    }
  }
}

} // namespace
