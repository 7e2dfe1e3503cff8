//===- NcclDoubleTest.cpp - The double of NCCL by itself ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Without the runtime's transfers: what is found where ranks disagree, how work
// that waits ends, and what is refused. Each case has a process of its own.
//
//===----------------------------------------------------------------------===//

#include "CudaTest.h"

#include "Backends.h"
#include "devices/cuda/driver/CudaContext.h"
#include "devices/cuda/driver/CudaGraph.h"
#include "devices/cuda/driver/CudaMemory.h"
#include "devices/cuda/driver/Library.h"
#include "devices/cuda/nccl/NcclApi.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace fsdp::test {
namespace {

using rt::Status;
namespace cu = rt::cu;
namespace nccl = rt::nccl;

constexpr int64_t memoryBytes = 1 << 16;

/// A rank with a device and a stream.
struct Rank {
  rt::World &world;
  const rt::DriverApi &driver;
  const rt::NcclApi &api;
  rt::CudaContext &context;
  rt::DeviceArena &memory;
  rt::CudaCopies &copies;
  cu::Stream stream;

  int number() const { return world.rank(); }
  void *at(int64_t offset) const {
    return reinterpret_cast<void *>(memory.base() + cu::Pointer(offset));
  }
  nccl::Error wait(cu::Stream of) const {
    for (;;)
      if (cu::Error error = driver.streamQuery(of); error != cu::notReady)
        return error;
  }
  nccl::Error wait() const { return wait(stream); }
  std::string lastError(nccl::Comm comm) const {
    return api.getLastError(comm);
  }
  /// Of `size` ranks from 0 on, which differ in nothing but the id.
  nccl::Error join(nccl::Comm &comm, const nccl::UniqueId &id, int size,
                   bool isBlocking = true) const {
    nccl::Config config;
    config.blocking = isBlocking;
    return api.commInit(&comm, size, id, number(), &config);
  }
};

#define CALL(expression) EXPECT_EQ(expression, nccl::success)

/// Which devices each rank gives access to its memory, beside its own.
enum class Peers { All, None };

void onRanks(int ranks, const std::function<void(Rank &)> &body,
             Peers peers = Peers::All) {
  Status status = runLocally(ranks, [&](rt::World &world) -> Status {
    auto driver = rt::DriverApi::ofProcess();
    if (!driver.isOk())
      return driver.status();
    auto api = rt::NcclApi::ofProcess();
    if (!api.isOk())
      return api.status();
    auto context = rt::CudaContext::create(**driver, world.rank());
    if (!context.isOk())
      return context.status();
    std::vector<int> others;
    for (int other = 0; other < ranks && peers == Peers::All; ++other)
      if (other != world.rank())
        others.push_back(other);
    if (Status s = (*context)->setPeers(others))
      return s;
    auto stream = rt::CudaStream::create(**context);
    if (!stream.isOk())
      return stream.status();
    auto copies = rt::CudaCopies::create(**context);
    if (!copies.isOk())
      return copies.status();
    auto memory =
        rt::DeviceArena::map(**context, **copies, memoryBytes, "an arena");
    if (!memory.isOk())
      return memory.status();
    Rank rank = {world,    **driver, **api,        **context,
                 **memory, **copies, stream->get()};
    body(rank);
    // What others still do may need this rank.
    auto everyone = world.openChannel(allRanks(world));
    return everyone.isOk() ? (*everyone)->barrier() : everyone.status();
  });
  EXPECT_CUDA_OK(status);
}

/// The same on all ranks.
nccl::UniqueId newId(Rank &rank) {
  nccl::UniqueId id = {};
  auto channel = rank.world.openChannel(allRanks(rank.world));
  EXPECT_TRUE(channel.isOk());
  if (rank.number() == 0)
    CALL(rank.api.getUniqueId(&id));
  EXPECT_CUDA_OK((*channel)->broadcast(&id, &id, sizeof(id), 0));
  return id;
}

void put(Rank &rank, int64_t offset, const std::vector<float> &values) {
  EXPECT_CUDA_OK(rank.memory.upload(offset, values.data(),
                                    int64_t(values.size() * sizeof(float))));
  // What any stream is given later comes behind it.
  EXPECT_CUDA_OK(rank.copies.orderBefore(rank.stream));
  CALL(rank.wait());
}
std::vector<float> get(Rank &rank, int64_t offset, size_t count) {
  std::vector<float> values(count);
  EXPECT_CUDA_OK(rank.memory.download(offset, values.data(),
                                      int64_t(count * sizeof(float))));
  return values;
}

/// Of the lines that ranks wrote, those with all of `parts`.
int countLines(const std::string &path, const std::vector<std::string> &parts) {
  std::ifstream file(path);
  int count = 0;
  for (std::string line; std::getline(file, line);)
    count += std::all_of(parts.begin(), parts.end(), [&](const auto &part) {
      return line.find(part) != std::string::npos;
    });
  return count;
}

/// Two nodes of two ranks: of a ring, ranks 1 and 3 send to the other node.
TEST(NcclDouble, TrafficBetweenNodes) {
  std::string path =
      testing::TempDir() + "nccl-traffic-" + std::to_string(getpid());
  setenv("FSDP_NCCL_TRAFFIC", path.c_str(), 1);
  setenv("FSDP_NCCL_NODE_DEVICES", "2", 1);
  constexpr int n = 4;
  onRanks(n, [](Rank &rank) {
    nccl::Comm comm = nullptr;
    CALL(rank.join(comm, newId(rank), n));
    put(rank, 0, std::vector<float>(64));
    CALL(rank.api.allGather(rank.at(0), rank.at(256), 4, nccl::float32, comm,
                            rank.stream));
    CALL(rank.api.reduceScatter(rank.at(0), rank.at(512), 2, nccl::float32,
                                nccl::sum, comm, rank.stream));
    CALL(rank.api.allReduce(rank.at(0), rank.at(768), 5, nccl::float32,
                            nccl::sum, comm, rank.stream));
    // 12 bytes to a rank of the node, and 20 to one of the other.
    int mate = rank.number() ^ 1, other = rank.number() ^ 2;
    CALL(rank.api.groupStart());
    CALL(rank.api.send(rank.at(0), 12, nccl::uint8, mate, comm, rank.stream));
    CALL(rank.api.send(rank.at(0), 20, nccl::uint8, other, comm, rank.stream));
    CALL(rank.api.receive(rank.at(1024), 12, nccl::uint8, mate, comm,
                          rank.stream));
    CALL(rank.api.receive(rank.at(2048), 20, nccl::uint8, other, comm,
                          rank.stream));
    CALL(rank.api.groupEnd());
    CALL(rank.wait());
    CALL(rank.api.commDestroy(comm));
  });
  // Three steps of 16 and of 8 bytes; six of two elements.
  std::string sends = "\"send\": {\"calls\": 2, \"within\": 12, "
                      "\"between\": 20}";
  EXPECT_EQ(countLines(path, {"\"ranks\": 4", sends}), n);
  EXPECT_EQ(countLines(path, {"\"all_gather\": {\"calls\": 1, \"within\": 48, "
                              "\"between\": 0}",
                              "\"reduce_scatter\": {\"calls\": 1, "
                              "\"within\": 24, \"between\": 0}",
                              "\"all_reduce\": {\"calls\": 1, \"within\": "
                              "48, \"between\": 0}"}),
            2);
  EXPECT_EQ(countLines(path, {"\"all_gather\": {\"calls\": 1, \"within\": 0, "
                              "\"between\": 48}",
                              "\"reduce_scatter\": {\"calls\": 1, "
                              "\"within\": 0, \"between\": 24}",
                              "\"all_reduce\": {\"calls\": 1, \"within\": 0, "
                              "\"between\": 48}"}),
            2);
  std::remove(path.c_str());
}

TEST(NcclDouble, Collectives) {
  constexpr int n = 4;
  onRanks(n, [](Rank &rank) {
    nccl::Comm comm = nullptr;
    CALL(rank.join(comm, newId(rank), n));
    float mine = float(rank.number() + 1);
    put(rank, 0, {mine, 10 * mine, 100 * mine, 1000 * mine});
    CALL(rank.api.allGather(rank.at(0), rank.at(256), 4, nccl::float32, comm,
                            rank.stream));
    CALL(rank.api.reduceScatter(rank.at(0), rank.at(512), 1, nccl::float32,
                                nccl::sum, comm, rank.stream));
    CALL(rank.api.allReduce(rank.at(0), rank.at(768), 4, nccl::float32,
                            nccl::sum, comm, rank.stream));
    // To the next rank and from the one before.
    int next = (rank.number() + 1) % n, before = (rank.number() + n - 1) % n;
    CALL(rank.api.groupStart());
    CALL(rank.api.send(rank.at(0), 4, nccl::float32, next, comm, rank.stream));
    CALL(rank.api.receive(rank.at(1024), 4, nccl::float32, before, comm,
                          rank.stream));
    CALL(rank.api.groupEnd());
    CALL(rank.wait());
    std::vector<float> gathered = get(rank, 256, 16);
    for (int i = 0; i < n; ++i)
      EXPECT_EQ(gathered[size_t(4 * i + 1)], 10 * float(i + 1));
    float unit = 1;
    for (int i = 0; i < rank.number(); ++i)
      unit *= 10;
    EXPECT_EQ(get(rank, 512, 1)[0], 10 * unit);
    EXPECT_EQ(get(rank, 768, 4)[2], 1000);
    EXPECT_EQ(get(rank, 1024, 4)[0], float(before + 1));
    CALL(rank.api.commDestroy(comm));
  });
}

/// Two ranks that call different things: both hear of both.
void expectDifference(
    const std::function<nccl::Error(Rank &, nccl::Comm)> &call,
    const std::string &first, const std::string &second) {
  onRanks(2, [&](Rank &rank) {
    nccl::Comm comm = nullptr;
    CALL(rank.join(comm, newId(rank), 2));
    put(rank, 0, std::vector<float>(64, 1));
    CALL(call(rank, comm));
    EXPECT_NE(rank.wait(), cu::success);
    nccl::Error error = nccl::success;
    CALL(rank.api.commGetAsyncError(comm, &error));
    EXPECT_NE(error, nccl::success);
    std::string message = rank.lastError(comm);
    EXPECT_HAS(message, first + " on rank 0");
    EXPECT_HAS(message, second + " on rank 1");
    CALL(rank.api.commAbort(comm));
  });
}

TEST(NcclDouble, CountsThatDiffer) {
  expectDifference(
      [](Rank &rank, nccl::Comm comm) {
        return rank.api.allGather(rank.at(0), rank.at(1024),
                                  size_t(8 + rank.number()), nccl::float32,
                                  comm, rank.stream);
      },
      "all_gather of 8 float32 (number 0)",
      "all_gather of 9 float32 (number 0)");
}

TEST(NcclDouble, KindsThatDiffer) {
  expectDifference(
      [](Rank &rank, nccl::Comm comm) {
        return rank.number() == 0
                   ? rank.api.allReduce(rank.at(0), rank.at(1024), 8,
                                        nccl::float32, nccl::sum, comm,
                                        rank.stream)
                   : rank.api.allGather(rank.at(0), rank.at(1024), 8,
                                        nccl::float32, comm, rank.stream);
      },
      "all_reduce of 8 float32 (number 0)",
      "all_gather of 8 float32 (number 0)");
}

TEST(NcclDouble, TypesThatDiffer) {
  expectDifference(
      [](Rank &rank, nccl::Comm comm) {
        return rank.api.allGather(rank.at(0), rank.at(1024), 8,
                                  rank.number() == 0 ? nccl::float32
                                                     : nccl::int32,
                                  comm, rank.stream);
      },
      "all_gather of 8 float32 (number 0)", "all_gather of 8 int32 (number 0)");
}

/// In the order of the communicator, whatever streams they are on.
TEST(NcclDouble, OrdersThatDiffer) {
  expectDifference(
      [](Rank &rank, nccl::Comm comm) {
        for (size_t i = 0; i < 2; ++i)
          CALL(rank.api.allGather(rank.at(0), rank.at(int64_t(1024 + 1024 * i)),
                                  (i == 0) == (rank.number() == 0) ? size_t(4)
                                                                   : size_t(8),
                                  nccl::float32, comm, rank.stream));
        return nccl::success;
      },
      "all_gather of 4 float32 (number 0)",
      "all_gather of 8 float32 (number 0)");
}

TEST(NcclDouble, ARankThatNeverComes) {
  setenv("FSDP_NCCL_TIMEOUT", "0.5", 1);
  onRanks(3, [](Rank &rank) {
    nccl::Comm comm = nullptr;
    CALL(rank.join(comm, newId(rank), 3));
    put(rank, 0, {1});
    if (rank.number() == 1)
      return;
    CALL(rank.api.allGather(rank.at(0), rank.at(1024), 1, nccl::float32, comm,
                            rank.stream));
    EXPECT_NE(rank.wait(), cu::success);
    EXPECT_HAS(rank.lastError(comm),
               "expected all ranks in all_gather of 1 float32 within ");
    EXPECT_HAS(rank.lastError(comm), "got none of rank 1");
  });
}

TEST(NcclDouble, ARankThatNeverJoins) {
  setenv("FSDP_NCCL_TIMEOUT", "0.5", 1);
  onRanks(2, [](Rank &rank) {
    nccl::UniqueId id = newId(rank);
    if (rank.number() == 1)
      return;
    nccl::Comm comm = nullptr;
    EXPECT_NE(rank.join(comm, id, 2), nccl::success);
    EXPECT_HAS(rank.lastError(comm), "got none of rank 1");
  });
}

TEST(NcclDouble, OneDeviceForTwoRanks) {
  onRanks(2, [](Rank &rank) {
    nccl::UniqueId id = newId(rank);
    auto context = rt::CudaContext::create(rank.driver, 0);
    ASSERT_TRUE(context.isOk());
    nccl::Comm comm = nullptr;
    EXPECT_NE(rank.join(comm, id, 2), nccl::success);
    EXPECT_HAS(rank.lastError(comm), "Duplicate GPU detected : rank ");
    CALL(rank.context.makeCurrent().isOk() ? 0 : 1);
  });
}

TEST(NcclDouble, SizesThatDiffer) {
  onRanks(2, [](Rank &rank) {
    nccl::UniqueId id = newId(rank);
    nccl::Comm comm = nullptr;
    EXPECT_NE(rank.join(comm, id, 2 + rank.number()), nccl::success);
    EXPECT_HAS(rank.lastError(comm), "ranks, as rank ");
  });
}

/// As on devices: the others go on waiting, until they abort as well.
TEST(NcclDouble, AbortEndsTheRanksOwnWork) {
  onRanks(2, [](Rank &rank) {
    nccl::Comm comm = nullptr;
    CALL(rank.join(comm, newId(rank), 2));
    put(rank, 0, {1});
    if (rank.number() == 0)
      CALL(rank.api.allGather(rank.at(0), rank.at(1024), 1, nccl::float32, comm,
                              rank.stream));
    if (rank.number() == 1)
      CALL(rank.api.commAbort(comm));
    for (int i = 0; rank.number() == 0 && i < 100; ++i)
      EXPECT_EQ(rank.driver.streamQuery(rank.stream), cu::notReady);
    if (rank.number() == 0)
      CALL(rank.api.commAbort(comm));
    CALL(rank.wait());
    // Nobody has it any more.
    EXPECT_NE(rank.api.allGather(rank.at(0), rank.at(1024), 1, nccl::float32,
                                 comm, rank.stream),
              nccl::success);
  });
}

/// A graph of one all_gather, from its capture on.
class GatherGraph {
public:
  GatherGraph(Rank &rank, nccl::Comm comm) {
    auto made =
        rt::CudaGraph::capture(rank.context, rank.stream, [&]() -> Status {
          return rank.api.check(rank.api.allGather(rank.at(0), rank.at(1024), 1,
                                                   nccl::float32, comm,
                                                   rank.stream),
                                "ncclAllGather", comm);
        });
    EXPECT_CUDA_OK(made.status());
    if (made.isOk())
      graph_.emplace(std::move(*made));
  }
  rt::CudaGraph &get() { return *graph_; }

private:
  std::optional<rt::CudaGraph> graph_;
};

/// A thread that ends a communicator; its destructor waits for it.
class Ending {
public:
  Ending(Rank &rank, const std::function<void()> &body)
      : thread_([this, &rank, body] {
          EXPECT_CUDA_OK(rank.context.makeCurrent());
          hasBegun_ = true;
          body();
          hasEnded_ = true;
        }) {
    while (!hasBegun_)
      std::this_thread::yield();
  }
  ~Ending() { thread_.join(); }
  bool hasEnded() const { return hasEnded_; }

private:
  std::atomic<bool> hasBegun_{false}, hasEnded_{false};
  std::thread thread_;
};

/// NCCL counts captured work, and ends nothing while there is some.
TEST(NcclDouble, AbortsWaitForGraphs) {
  onRanks(2, [](Rank &rank) {
    nccl::Comm comm = nullptr;
    CALL(rank.join(comm, newId(rank), 2));
    put(rank, 0, {float(rank.number())});
    GatherGraph graph(rank, comm);
    EXPECT_CUDA_OK(graph.get().launch(rank.stream));
    CALL(rank.wait());
    Ending abort(rank, [&] { CALL(rank.api.commAbort(comm)); });
    auto everyone = rank.world.openChannel(allRanks(rank.world));
    ASSERT_TRUE(everyone.isOk());
    auto countEnded = [&] {
      int32_t ended = abort.hasEnded();
      EXPECT_CUDA_OK((*everyone)->allReduce(&ended, &ended, 1, FSDP_RT_I32, 1));
      return ended;
    };
    // Of one process's ranks the last one waits for the graphs of all.
    while (countEnded() == 0) {
    }
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      EXPECT_EQ(countEnded(), 1);
    }
    graph.get().destroy();
  });
}

TEST(NcclDouble, TheEndWaitsForGraphs) {
  onRanks(1, [](Rank &rank) {
    nccl::Comm comm = nullptr;
    CALL(rank.join(comm, newId(rank), 1));
    put(rank, 0, {1});
    GatherGraph graph(rank, comm);
    Ending end(rank, [&] {
      CALL(rank.api.commFinalize(comm));
      CALL(rank.api.commDestroy(comm));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(end.hasEnded());
    graph.get().destroy();
  });
}

TEST(NcclDouble, MemoryThatPeersCannotAccess) {
  onRanks(
      2,
      [](Rank &rank) {
        nccl::Comm comm = nullptr;
        CALL(rank.join(comm, newId(rank), 2));
        put(rank, 0, {1});
        CALL(rank.api.allGather(rank.at(0), rank.at(1024), 1, nccl::float32,
                                comm, rank.stream));
        EXPECT_NE(rank.wait(), cu::success);
        EXPECT_HAS(rank.lastError(comm), "expected access to buffers of");
        CALL(rank.api.commAbort(comm));
      },
      Peers::None);
}

/// As the driver would give it to a program that asks for nothing.
TEST(NcclDouble, MemoryThatNobodyElseCanOpen) {
  onRanks(1, [](Rank &rank) {
    cu::AllocationProperties properties = rank.context.allocation();
    EXPECT_EQ(properties.handleTypes, cu::handleFile);
    EXPECT_EQ(properties.flags.directRdma, 1);
    properties.handleTypes = 0;
    constexpr size_t page = size_t(2) << 20;
    cu::AllocationHandle handle = 0;
    cu::Pointer base = 0;
    const rt::DriverApi &driver = rank.driver;
    CALL(driver.memCreate(&handle, page, &properties, 0));
    CALL(driver.memReserve(&base, page, 0, 0, 0));
    CALL(driver.memMap(base, page, 0, handle, 0));
    cu::Access access = {properties.location, cu::accessReadWrite};
    CALL(driver.memSetAccess(base, page, &access, 1));
    nccl::Comm comm = nullptr;
    CALL(rank.join(comm, newId(rank), 1));
    auto made =
        rt::CudaGraph::capture(rank.context, rank.stream, [&]() -> Status {
          auto *there = reinterpret_cast<void *>(base);
          return rank.api.check(rank.api.allReduce(there, there, 1,
                                                   nccl::float32, nccl::sum,
                                                   comm, rank.stream),
                                "ncclAllReduce", comm);
        });
    EXPECT_HAS(made.status().message(), "expected memory that others can open");
    CALL(rank.api.commAbort(comm));
  });
}

TEST(NcclDouble, WorkThatIsPutOff) {
  onRanks(2, [](Rank &rank) {
    nccl::Comm comm = nullptr;
    EXPECT_EQ(rank.join(comm, newId(rank), 2, /*isBlocking=*/false),
              nccl::inProgress);
    auto settle = [&] {
      nccl::Error error = nccl::inProgress;
      int times = 0;
      for (; error == nccl::inProgress; ++times)
        CALL(rank.api.commGetAsyncError(comm, &error));
      CALL(error);
      return times;
    };
    settle();
    put(rank, 0, {float(rank.number())});
    auto gather = [&] {
      return rank.api.allGather(rank.at(0), rank.at(1024), 1, nccl::float32,
                                comm, rank.stream);
    };
    EXPECT_EQ(gather(), nccl::inProgress);
    // It is not on the stream yet, and nothing else may come before it.
    EXPECT_NE(gather(), nccl::success);
    EXPECT_EQ(rank.driver.streamQuery(rank.stream), cu::success);
    EXPECT_GT(settle(), 1);
    CALL(rank.wait());
    EXPECT_EQ(get(rank, 1024, 2)[1], 1);
    EXPECT_EQ(gather(), nccl::inProgress);
    EXPECT_GT(settle(), 1);
    CALL(rank.wait());
  });
}

/// Two communicators in one order on one rank and in another on the other: each
/// takes its device to itself, and nobody goes on.
TEST(NcclDouble, CommunicatorsInOrdersThatDiffer) {
  setenv("FSDP_NCCL_TIMEOUT", "0.5", 1);
  onRanks(2, [](Rank &rank) {
    nccl::Comm comms[2];
    for (nccl::Comm &comm : comms)
      CALL(rank.join(comm, newId(rank), 2));
    auto other = rt::CudaStream::create(rank.context);
    ASSERT_TRUE(other.isOk());
    put(rank, 0, {1});
    cu::Stream streams[] = {rank.stream, other->get()};
    for (int i = 0; i < 2; ++i) {
      int which = i ^ rank.number();
      CALL(rank.api.allGather(rank.at(0), rank.at(1024 + 1024 * which), 1,
                              nccl::float32, comms[which], streams[which]));
      // The first of each rank has begun.
      for (int times = 0; i == 0 && times < 10; ++times)
        EXPECT_EQ(rank.driver.streamQuery(streams[which]), cu::notReady);
    }
    EXPECT_NE(rank.wait(), cu::success);
    EXPECT_HAS(rank.lastError(comms[rank.number()]), "got none of rank ");
  });
}

/// Or in one order, which events or NCCL itself keep.
TEST(NcclDouble, CommunicatorsInTheOrderOfIssue) {
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
  onRanks(3, [](Rank &rank) {
    nccl::Comm comms[2];
    for (nccl::Comm &comm : comms)
      CALL(rank.join(comm, newId(rank), 3));
    auto other = rt::CudaStream::create(rank.context);
    ASSERT_TRUE(other.isOk());
    put(rank, 0, {1});
    for (int i = 0; i < 50; ++i)
      CALL(rank.api.allGather(rank.at(0), rank.at(1024 + 1024 * (i % 2)), 1,
                              nccl::float32, comms[i % 2],
                              i % 2 ? rank.stream : other->get()));
    CALL(rank.wait());
    CALL(rank.wait(other->get()));
  });
}

TEST(NcclDouble, OperandsThatOverlap) {
  onRanks(2, [](Rank &rank) {
    nccl::Comm comm = nullptr;
    CALL(rank.join(comm, newId(rank), 2));
    put(rank, 0, std::vector<float>(64, 1));
    auto gather = [&](int64_t src, int64_t dst) {
      return rank.api.allGather(rank.at(src), rank.at(dst), 4, nccl::float32,
                                comm, rank.stream);
    };
    EXPECT_NE(gather(4, 0), nccl::success);
    EXPECT_HAS(rank.lastError(comm), "operands that are apart or in place");
    // In place of this rank's part.
    CALL(gather(16 * rank.number(), 0));
    CALL(rank.wait());
    CALL(rank.api.groupStart());
    CALL(gather(0, 1024));
    CALL(gather(1024, 2048));
    EXPECT_NE(rank.api.groupEnd(), nccl::success);
    EXPECT_HAS(rank.lastError(comm), "calls of a group that can run in any "
                                     "order");
    CALL(rank.api.allReduce(rank.at(0), rank.at(0), 4, nccl::float32, nccl::sum,
                            comm, rank.stream));
    CALL(rank.wait());
    EXPECT_NE(gather(int64_t(1) << 32, 0), nccl::success);
  });
}

/// The driver's check of races knows what NCCL's work reads and writes.
TEST(NcclDouble, RacesWithOtherStreams) {
  onRanks(2, [](Rank &rank) {
    nccl::Comm comm = nullptr;
    CALL(rank.join(comm, newId(rank), 2));
    auto other = rt::CudaStream::create(rank.context);
    ASSERT_TRUE(other.isOk());
    put(rank, 0, {1});
    CALL(rank.api.allGather(rank.at(0), rank.at(1024), 1, nccl::float32, comm,
                            rank.stream));
    CALL(rank.driver.fillBytes(rank.memory.base() + 1024, 0, 8, other->get()));
    nccl::Error first = rank.wait(), second = rank.wait(other->get());
    EXPECT_TRUE(first != cu::success || second != cu::success);
    CALL(rank.api.commAbort(comm));
  });
}

TEST(NcclDouble, WhatIsNotModelledEndsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto call = [](int type, int reduction) {
    onRanks(1, [=](Rank &rank) {
      nccl::Comm comm = nullptr;
      CALL(rank.join(comm, newId(rank), 1));
      (void)rank.api.allReduce(rank.at(0), rank.at(1024), 4, type, reduction,
                               comm, rank.stream);
    });
  };
  EXPECT_EXIT(call(10, nccl::sum), testing::ExitedWithCode(70), "got type 10");
  EXPECT_EXIT(call(nccl::float32, 4), testing::ExitedWithCode(70),
              "got reduction 4");
  EXPECT_EXIT(
      {
        auto library = rt::Library::open("NCCL", {"libnccl.so.2"},
                                         rt::cudaLibraryDirectories());
        int (*split)() = nullptr;
        if (library->find("ncclCommSplit", split).isOk())
          split();
      },
      testing::ExitedWithCode(70), "got ncclCommSplit");
}

} // namespace
} // namespace fsdp::test
