//===- CudaGraphTest.cpp - Programs as CUDA graphs ------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaTest.h"

#include "Backends.h"
#include "devices/cuda/run/CudaDevice.h"

#include <cstdlib>
#include <numeric>

namespace fsdp::test {
namespace {

using rt::Status;

constexpr int64_t count = 256, bytes = count * 4;

/// A program with everything that a graph may hold: kernels, a product, a sum
/// that is divided, a check, a guard, copies to the host and back on queues of
/// their own, one of them behind the other.
class Program {
public:
  enum Place { x, y, sum, flag, back, mean, product, spare };
  static int64_t at(Place place) { return place * 2048; }

  static TestRankOptions options() {
    TestRankOptions wanted;
    wanted.arenaBytes = 32 << 10;
    wanted.hostBytes = 8 << 10;
    wanted.groups = {{0}};
    wanted.events = 4;
    wanted.queues = {FSDP_RT_QUEUE_REDUCE, FSDP_RT_QUEUE_D2H,
                     FSDP_RT_QUEUE_H2D};
    return wanted;
  }

  Program() {
    matmul.name = "product";
    matmul.a = at(x);
    matmul.b = at(y);
    matmul.c = at(product);
    matmul.m = matmul.n = matmul.k = 16;
    matmul.lda = matmul.ldb = matmul.ldc = 16;
    std::fill_n(matmul.batch, 4, 1);
    matmul.alpha = 0.5;
    matmul.dtype = FSDP_RT_F32;
  }
  Program(const Program &) = delete;

  int32_t call(fsdp_rt_context *ctx) const {
    const int32_t codes[] = {fsdp_rt_launch(ctx, &add.desc),
                             fsdp_rt_start(ctx, &offload),
                             fsdp_rt_launch(ctx, &twiceBack.desc),
                             fsdp_rt_start(ctx, &reload),
                             fsdp_rt_start(ctx, &reduce),
                             fsdp_rt_launch(ctx, &positive.desc),
                             fsdp_rt_check(ctx, &check),
                             fsdp_rt_matmul(ctx, &matmul),
                             fsdp_rt_guard(ctx, &guard),
                             waitFor(ctx, 0),
                             waitFor(ctx, 2),
                             fsdp_rt_copy(ctx, &clear),
                             fsdp_rt_start(ctx, &offloadAgain),
                             waitFor(ctx, 1),
                             fsdp_rt_launch(ctx, &twiceBack.desc),
                             waitFor(ctx, 3),
                             fsdp_rt_copy(ctx, &clear)};
    for (int32_t code : codes)
      if (code)
        return code;
    return 0;
  }

  CudaLaunch add{"add", {{"add", 2, 128}}, {at(x), at(y), at(sum)}};
  CudaLaunch twiceBack{"twice", {{"double_it", 2, 128}}, {at(back)}};
  CudaLaunch positive{"positive", {{"positive", 1, 1}}, {at(x), at(flag)}};
  fsdp_rt_check_desc check = {"x is not positive", at(flag)};
  fsdp_rt_matmul_desc matmul = {};
  fsdp_rt_copy_desc clear = {"clear", -1, at(sum), bytes};
  fsdp_rt_host_copy_desc out = {"out", at(sum), 0, bytes},
                         in = {"in", 0, at(back), bytes},
                         outAgain = {"out", at(sum), 4096, bytes};
  const void *outs[1] = {&out}, *ins[1] = {&in}, *outsAgain[1] = {&outAgain};
  fsdp_rt_collective_desc average = {"average", at(sum), at(mean),   count,
                                     3,         0,       FSDP_RT_F32};
  const void *averages[1] = {&average};
  int64_t after[1] = {0};
  fsdp_rt_start_desc offload = {
      "offload",         outs,   1, nullptr, 0, 0, FSDP_RT_OFFLOAD,
      FSDP_RT_QUEUE_D2H, nullptr};
  fsdp_rt_start_desc reload = {
      "reload",          ins,    1, after, 1, 1, FSDP_RT_RELOAD,
      FSDP_RT_QUEUE_H2D, nullptr};
  fsdp_rt_start_desc reduce = {"reduce",
                               averages,
                               1,
                               nullptr,
                               0,
                               2,
                               FSDP_RT_ALL_REDUCE,
                               FSDP_RT_QUEUE_REDUCE,
                               nullptr};
  fsdp_rt_start_desc offloadAgain = {
      "offload",       outsAgain,         1,      nullptr, 0, 3,
      FSDP_RT_OFFLOAD, FSDP_RT_QUEUE_D2H, nullptr};
  fsdp_rt_guarded_desc buffer = {"spare", at(spare),          512,
                                 256,     FSDP_RT_GUARD_FILL, FSDP_RT_DEVICE},
                       begun = {"spare", at(spare),           512,
                                256,     FSDP_RT_GUARD_BEGIN, FSDP_RT_DEVICE};
  const fsdp_rt_guarded_desc *buffers[2] = {&buffer, &begun};
  fsdp_rt_guard_desc guard = {"guard", buffers, 2};
};

std::vector<float> numbers(float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

rt::Result<std::unique_ptr<rt::hal::Executable>> load(TestRank &rank,
                                                      const Program &program) {
  static const Program *current;
  current = &program;
  fsdp_rt_program step = {
      "step", [](fsdp_rt_context *ctx) { return current->call(ctx); }, nullptr};
  return rank.executor().load(step);
}

/// What is in both memories.
struct State {
  std::vector<char> device, host;
  bool operator==(const State &other) const {
    return device == other.device && host == other.host;
  }
};

Status read(TestRank &rank, State &state) {
  state.device.resize(Program::at(Program::spare));
  state.host.resize(8 << 10);
  if (Status s = rank.memory().download(0, state.device.data(),
                                        int64_t(state.device.size())))
    return s;
  return rank.executor()
      .device()
      .memory(FSDP_RT_HOST)
      .download(0, state.host.data(), int64_t(state.host.size()));
}

Status clearAll(TestRank &rank) {
  std::vector<char> zeros(32 << 10);
  if (Status s = put(rank, 0, zeros))
    return s;
  return rank.executor()
      .device()
      .memory(FSDP_RT_HOST)
      .upload(0, zeros.data(), 8 << 10);
}

/// The states behind runs of one executable with other inputs each.
std::vector<State> statesOf(const char *graph) {
  setenv("FSDP_TEST_GRAPH", graph, 1);
  std::vector<State> states;
  EXPECT_CUDA_OK(onCuda(Program::options(), [&](TestRank &rank) -> Status {
    Program program;
    if (Status s = clearAll(rank))
      return s;
    auto loaded = load(rank, program);
    if (!loaded.isOk())
      return loaded.status();
    // Nothing has run.
    if (Status s = read(rank, states.emplace_back()))
      return s;
    EXPECT_EQ(states[0].device, std::vector<char>(states[0].device.size(), 0));
    for (int run = 0; run < 4; ++run) {
      if (Status s = put(rank, Program::at(Program::x),
                         numbers(1 + 0.37f * float(run))))
        return s;
      if (Status s =
              put(rank, Program::at(Program::y), numbers(100.25f - float(run))))
        return s;
      if (Status s = rank.executor().step(**loaded))
        return s;
      if (Status s = read(rank, states.emplace_back()))
        return s;
    }
    return Status::ok();
  }));
  unsetenv("FSDP_TEST_GRAPH");
  return states;
}

TEST(CudaGraph, RunsHaveTheBitsOfThoseThatAreIssuedCallByCall) {
  std::vector<State> graph = statesOf("on"), eager = statesOf("off");
  ASSERT_EQ(graph.size(), 5u);
  EXPECT_EQ(graph == eager, true);
  for (size_t run = 1; run < graph.size(); ++run)
    EXPECT_EQ(graph[run] == graph[run - 1], false) << run;
}

/// The mistakes that FSDP_EMULATOR_SKIP plants into this program are looked for
/// by waits_test.py.
TEST(CudaGraph, OneRunOfTheProgram) {
  EXPECT_CUDA_OK(onCuda(Program::options(), [](TestRank &rank) -> Status {
    Program program;
    if (Status s = clearAll(rank))
      return s;
    if (Status s = put(rank, Program::at(Program::x), numbers(1)))
      return s;
    auto loaded = load(rank, program);
    return loaded.isOk() ? rank.executor().step(**loaded) : loaded.status();
  }));
}

TEST(CudaGraph, ChecksThatFailInALaterRun) {
  Status status = onCuda(Program::options(), [](TestRank &rank) -> Status {
    Program program;
    if (Status s = clearAll(rank))
      return s;
    auto loaded = load(rank, program);
    if (!loaded.isOk())
      return loaded.status();
    for (int run = 1; run < 5; ++run) {
      rank.executor().setCheckNote("run " + std::to_string(run));
      if (Status s = put(rank, Program::at(Program::x),
                         numbers(run == 3 ? -1.f : 1.f)))
        return s;
      if (Status s = rank.executor().step(**loaded))
        return s;
    }
    return Status::ok();
  });
  EXPECT_HAS(status.message(), "x is not positive; run 3");
}

/// Driver's calls that allocate or wait, counted.
int forbidden = 0, launches = 0, others = 0;
rt::DriverApi driver;

template <auto Member, typename... P>
struct Counted {
  static inline int *counter = nullptr;
  static rt::cu::Error call(P... parameters) {
    ++*counter;
    return (driver.*Member)(parameters...);
  }
};
template <auto Member, typename... P>
void countCalls(rt::DriverApi &api, int &counter,
                rt::cu::Error (*rt::DriverApi::*)(P...)) {
  Counted<Member, P...>::counter = &counter;
  api.*Member = Counted<Member, P...>::call;
}
#define COUNT(name, counter)                                                   \
  countCalls<&rt::DriverApi::name>(counting, counter, &rt::DriverApi::name)

TEST(CudaGraph, ARunIsOneLaunch) {
  auto process = rt::DriverApi::ofProcess();
  ASSERT_TRUE(process.isOk()) << process.status().message();
  driver = **process;
  rt::DriverApi counting = driver;
  COUNT(memCreate, forbidden);
  COUNT(memMap, forbidden);
  COUNT(hostAlloc, forbidden);
  COUNT(streamCreate, forbidden);
  COUNT(eventCreate, forbidden);
  COUNT(moduleLoad, forbidden);
  COUNT(graphInstantiate, forbidden);
  COUNT(streamBeginCapture, forbidden);
  COUNT(streamSynchronize, forbidden);
  COUNT(streamQuery, forbidden);
  COUNT(contextSynchronize, forbidden);
  COUNT(graphLaunch, launches);
  COUNT(launch, others);
  COUNT(copyToHost, others);
  COUNT(copyToDevice, others);
  COUNT(copyOnDevice, others);
  COUNT(fillBytes, others);
  EXPECT_CUDA_OK(runLocally(1, [&](rt::World &world) -> Status {
    rt::hal::DeviceOptions wanted;
    wanted.layout = Program::options().layout();
    auto device = rt::CudaDevice::create(world, counting, wanted);
    if (!device.isOk())
      return device.status();
    TestDevice made;
    made.device = std::move(*device);
    auto rank = TestRank::create(world, Program::options(), std::move(made));
    if (!rank.isOk())
      return rank.status();
    Program program;
    if (Status s = clearAll(**rank))
      return s;
    if (Status s = put(**rank, Program::at(Program::x), numbers(1)))
      return s;
    auto loaded = load(**rank, program);
    if (!loaded.isOk())
      return loaded.status();
    rt::hal::Device &device_ = (*rank)->executor().device();
    rt::hal::RunRequest request;
    rt::hal::RunTimes times;
    for (int run = 0; run < 3; ++run) {
      forbidden = launches = others = 0;
      if (Status s = device_.execute(**loaded, request))
        return s;
      EXPECT_EQ(forbidden, 0);
      // Before it, what tells the device which run it is in.
      EXPECT_EQ(others, 1);
      EXPECT_EQ(launches, 1);
      if (Status s = device_.synchronize(times))
        return s;
    }
    return Status::ok();
  }));
}

/// `body` on a device by a driver that `change` has changed.
Status onChangedDriver(const std::function<void(rt::DriverApi &)> &change,
                       const std::string &graph,
                       const std::function<Status(TestRank &)> &body) {
  auto process = rt::DriverApi::ofProcess();
  if (!process.isOk())
    return process.status();
  driver = **process;
  rt::DriverApi changed = driver;
  change(changed);
  return runLocally(1, [&](rt::World &world) -> Status {
    rt::hal::DeviceOptions wanted;
    wanted.layout = Program::options().layout();
    wanted.settings["graph"] = graph;
    auto device = rt::CudaDevice::create(world, changed, wanted);
    if (!device.isOk())
      return device.status();
    TestDevice made;
    made.device = std::move(*device);
    auto rank = TestRank::create(world, Program::options(), std::move(made));
    return rank.isOk() ? body(**rank) : rank.status();
  });
}

/// The first launch of a product loads code: captures have to be relaxed. (In a
/// process of its own, since a process loads it once.)
TEST(CudaGraphLoads, LibrariesLoadCodeInACapture) {
  auto loadIn = [](int mode, const std::string &graph,
                   std::vector<std::string> &notes) {
    static int wanted;
    wanted = mode;
    return onChangedDriver(
        [](rt::DriverApi &api) {
          api.streamBeginCapture = [](rt::cu::Stream stream, int) {
            return driver.streamBeginCapture(stream, wanted);
          };
        },
        graph,
        [&](TestRank &rank) -> Status {
          Program program;
          if (Status s = clearAll(rank))
            return s;
          if (Status s = put(rank, Program::at(Program::x), numbers(1)))
            return s;
          auto loaded = load(rank, program);
          if (!loaded.isOk())
            return loaded.status();
          notes = rank.executor().device().facts().notes;
          return rank.executor().step(**loaded);
        });
  };
  std::vector<std::string> notes;
  constexpr int threadLocal = 1;
  EXPECT_HAS(loadIn(threadLocal, "on", notes).message(),
             "as one CUDA graph, which --graph off does without: matmul "
             "'product': cublasLtMatmul: ");
  EXPECT_CUDA_OK(loadIn(threadLocal, "auto", notes));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_HAS(notes[0], "program 'step' is no CUDA graph");
}

TEST(CudaGraph, ACaptureLoadsWhatLibrariesNeed) {
  EXPECT_CUDA_OK(onChangedDriver(
      [](rt::DriverApi &) {}, "on",
      [](TestRank &rank) -> Status {
        Program program;
        auto loaded = load(rank, program);
        EXPECT_EQ(rank.executor().device().facts().notes.size(), 0u);
        return loaded.status();
      }));
}

/// What other ranks wait for begins before what this one computes.
TEST(CudaGraph, StreamsOfTransfersComeFirst) {
  static std::vector<int> priorities;
  priorities.clear();
  EXPECT_CUDA_OK(onChangedDriver(
      [](rt::DriverApi &api) {
        api.streamCreateWithPriority = [](rt::cu::Stream *stream,
                                          unsigned flags, int priority) {
          priorities.push_back(priority);
          return driver.streamCreateWithPriority(stream, flags, priority);
        };
      },
      "on", [](TestRank &) { return Status::ok(); }));
  // Copies, then three queues, then compute.
  EXPECT_EQ(priorities, (std::vector<int>{0, -5, -5, -5, 0}));
}

/// A driver that has none is used all the same.
TEST(CudaGraph, StreamsWithoutPriorities) {
  EXPECT_CUDA_OK(onChangedDriver(
      [](rt::DriverApi &api) {
        api.getPriorityRange = [](int *lowest, int *highest) {
          return *lowest = *highest = 0;
        };
        api.streamCreateWithPriority = [](rt::cu::Stream *, unsigned, int) {
          return 801;
        };
      },
      "on", [](TestRank &) { return Status::ok(); }));
}

TEST(CudaGraph, CannotBeHadBesideBlocking) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  auto create = [] {
    return onCuda(Program::options(), [](TestRank &) { return Status::ok(); });
  };
  EXPECT_CUDA_OK(create());
  setenv("FSDP_TEST_GRAPH", "on", 1);
  EXPECT_HAS(create().message(),
             "--graph: expected auto or off beside CUDA_LAUNCH_BLOCKING=1");
  unsetenv("FSDP_TEST_GRAPH");
  unsetenv("CUDA_LAUNCH_BLOCKING");
}

} // namespace
} // namespace fsdp::test
