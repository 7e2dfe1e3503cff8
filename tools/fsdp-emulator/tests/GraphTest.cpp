//===- GraphTest.cpp - Captures, graphs, and mistakes in them -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StreamFixture.h"
#include "driver/Extension.h"

#include <functional>
#include <gmock/gmock.h>
#include <set>
#include <thread>

using namespace fsdp::emulator;
using namespace fsdp::emulator::test;
using testing::HasSubstr;

namespace {

class Graphs : public Streams {
protected:
  void SetUp() override {
    Streams::SetUp();
    testing::internal::CaptureStderr();
  }
  void TearDown() override {
    // What a test does not look at.
    testing::internal::GetCapturedStderr();
  }
  std::string printed() {
    std::string text = testing::internal::GetCapturedStderr();
    testing::internal::CaptureStderr();
    return text;
  }
  std::string finish() {
    cuda::Result result = cuCtxSynchronize();
    const char *name = nullptr;
    cuGetErrorName(result, &name);
    return std::string(name) + "\n" + printed();
  }
  /// Ends the capture of the first stream and returns what can be launched.
  cuda::GraphExec end() {
    EXPECT_CU(cuStreamEndCapture(streams[0], &graph));
    return instantiate(graph);
  }
  cuda::Result endCapture() { return cuStreamEndCapture(streams[0], &graph); }

  /// A fork and a join: write and copy in the second stream.
  void capture() {
    ASSERT_CU(cuStreamBeginCapture_v2(streams[0], 1));
    ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
    order(streams[0], streams[1]);
    ASSERT_CU(launch(copy, 1, 64, {first, second}, streams[1]));
  }
  cuda::GraphExec instantiate(cuda::Graph graph) {
    cuda::GraphExec exec = nullptr;
    EXPECT_CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
  }

  cuda::Graph graph = nullptr;
};

TEST_F(Graphs, ForksAndJoins) {
  capture();
  order(streams[1], streams[0]);
  int status = 0;
  ASSERT_CU(cuStreamIsCapturing(streams[1], &status));
  EXPECT_EQ(cuda::Capturing, status);
  ASSERT_CU(cuStreamEndCapture(streams[0], &graph));
  size_t count = 0;
  ASSERT_CU(cuGraphGetNodes(graph, nullptr, &count));
  EXPECT_EQ(2u, count);
  // Nothing has run.
  ASSERT_CU(cuMemsetD32_v2(first, 5, 256));
  ASSERT_CU(cuMemsetD32_v2(second, 5, 256));
  EXPECT_EQ(5u, download<uint32_t>(second, 64)[63]);
  cuda::GraphExec exec = instantiate(graph);
  ASSERT_CU(cuGraphDestroy(graph));
  for (int i = 0; i < 3; ++i)
    ASSERT_CU(cuGraphLaunch(exec, streams[2]));
  ASSERT_CU(launch(write, 1, 64, {second}, streams[2]));
  EXPECT_EQ("CUDA_SUCCESS\n", finish());
  EXPECT_EQ(63u, download<uint32_t>(second, 64)[63]);
  ASSERT_CU(cuGraphExecDestroy(exec));
}

TEST_F(Graphs, RacesInsideAreFound) {
  ASSERT_CU(cuMemsetD32_v2(first, 0, 256));
  ASSERT_CU(cuStreamBeginCapture_v2(streams[0], 1));
  order(streams[0], streams[1]);
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  ASSERT_CU(launch(copy, 1, 64, {first, second}, streams[1]));
  order(streams[1], streams[0]);
  ASSERT_CU(cuStreamEndCapture(streams[0], &graph));
  ASSERT_CU(cuGraphLaunch(instantiate(graph), streams[2]));
  EXPECT_THAT(finish(), HasSubstr("expected an order between operations"));
}

TEST_F(Graphs, RacesWithOtherStreamsAreFound) {
  capture();
  order(streams[1], streams[0]);
  ASSERT_CU(cuStreamEndCapture(streams[0], &graph));
  ASSERT_CU(cuGraphLaunch(instantiate(graph), streams[2]));
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  EXPECT_THAT(finish(), HasSubstr("expected an order between operations"));
}

TEST_F(Graphs, WhatIsNotJoinedIsRefused) {
  capture();
  EXPECT_EQ(cuda::StreamCaptureUnjoined, endCapture());
  EXPECT_THAT(printed(), HasSubstr("expected the stream to wait for all"));
  // All of them have left it.
  EXPECT_CU(cuStreamSynchronize(streams[0]));
  EXPECT_CU(cuStreamSynchronize(streams[1]));
}

TEST_F(Graphs, CallsThatWaitAreRefused) {
  struct {
    const char *name;
    cuda::Result code;
    std::function<cuda::Result()> call;
  } const calls[] = {
      {"a captured stream", cuda::StreamCaptureUnsupported,
       [&] { return cuStreamSynchronize(streams[0]); }},
      {"a query", cuda::StreamCaptureUnsupported,
       [&] { return cuStreamQuery(streams[0]); }},
      {"another stream", cuda::StreamCaptureUnsupported,
       [&] { return cuStreamSynchronize(streams[2]); }},
      {"the context", cuda::StreamCaptureUnsupported,
       [] { return cuCtxSynchronize(); }},
      {"a copy", cuda::StreamCaptureUnsupported,
       [&] { return cuMemsetD32_v2(first, 0, 256); }},
      {"memory", cuda::StreamCaptureUnsupported,
       [&] { return cuMemAlloc_v2(&second, 4); }},
      {"pinned memory", cuda::StreamCaptureUnsupported,
       [] {
         void *pointer = nullptr;
         return cuMemHostAlloc(&pointer, 4, 0);
       }},
      {"code", cuda::StreamCaptureUnsupported,
       [] {
         cuda::Module module = nullptr;
         return cuModuleLoadData(&module, kernelOf("").c_str());
       }},
      {"the capture's event", cuda::CapturedEvent,
       [&] {
         EXPECT_CU(cuEventRecord(event, streams[0]));
         return cuEventSynchronize(event);
       }},
      {"an event of outside", cuda::StreamCaptureIsolation,
       [&] {
         EXPECT_CU(cuEventRecord(event, streams[1]));
         return cuStreamWaitEvent(streams[0], event, 0);
       }},
      {"another capture", cuda::IllegalState,
       [&] {
         return cuStreamBeginCapture_v2(streams[0], cuda::CaptureThreadLocal);
       }},
  };
  for (const auto &[name, code, call] : calls) {
    SCOPED_TRACE(name);
    ASSERT_CU(cuStreamBeginCapture_v2(streams[0], cuda::CaptureThreadLocal));
    EXPECT_EQ(code, call());
    int status = 0;
    EXPECT_CU(cuStreamIsCapturing(streams[0], &status));
    EXPECT_EQ(cuda::Invalidated, status);
    // Whatever comes then.
    EXPECT_EQ(cuda::StreamCaptureInvalidated,
              launch(write, 1, 64, {first}, streams[0]));
    EXPECT_EQ(cuda::StreamCaptureInvalidated, endCapture());
    EXPECT_EQ(nullptr, graph);
  }
}

/// Nobody knows what devices make of such a node.
TEST_F(Graphs, FillsOfTheHostsMemoryAreRefused) {
  void *host = nullptr;
  ASSERT_CU(cuMemHostAlloc(&host, 64, 0));
  auto address = reinterpret_cast<cuda::DevicePointer>(host);
  ASSERT_CU(cuMemsetD8Async(address, 1, 4, streams[0]));
  ASSERT_CU(cuStreamSynchronize(streams[0]));
  ASSERT_CU(cuStreamBeginCapture_v2(streams[0], 2));
  EXPECT_EQ(cuda::StreamCaptureUnsupported,
            cuMemsetD8Async(address, 1, 4, streams[0]));
  EXPECT_EQ(cuda::StreamCaptureInvalidated, endCapture());
  ASSERT_CU(cuMemFreeHost(host));
}

/// What a library launches first loads code, which is no call of the program's.
TEST_F(Graphs, CodeThatLibrariesLoad) {
  for (int mode : {0, 1, 2}) {
    std::string name = "kernel " + std::to_string(mode);
    ASSERT_CU(cuStreamBeginCapture_v2(streams[0], mode));
    EXPECT_EQ(mode == 2 ? cuda::Success : cuda::StreamCaptureUnsupported,
              fsdpEmulatorLoadCode(name.c_str()));
    EXPECT_EQ(mode == 2 ? cuda::Success : cuda::StreamCaptureInvalidated,
              endCapture());
    // Afterwards it is there, or is loaded now.
    EXPECT_EQ(cuda::Success, fsdpEmulatorLoadCode(name.c_str()));
    ASSERT_CU(cuStreamBeginCapture_v2(streams[0], mode));
    EXPECT_EQ(cuda::Success, fsdpEmulatorLoadCode(name.c_str()));
    EXPECT_EQ(cuda::Success, endCapture());
  }
}

/// Nodes have the priorities of their streams if that is asked for.
TEST_F(Graphs, PrioritiesOfNodes) {
  cuda::Stream high = nullptr;
  ASSERT_CU(cuStreamCreateWithPriority(&high, 1, -5));
  ASSERT_CU(cuStreamBeginCapture_v2(streams[0], 2));
  order(streams[0], high);
  ASSERT_CU(launch(write, 1, 64, {first}, high));
  order(high, streams[0]);
  ASSERT_CU(cuStreamEndCapture(streams[0], &graph));
  for (unsigned long long flags : {0, 8}) {
    cuda::GraphExec exec = nullptr;
    ASSERT_CU(cuGraphInstantiateWithFlags(&exec, graph, flags));
    ASSERT_CU(cuGraphLaunch(exec, streams[0]));
    std::string text = finish();
    EXPECT_EQ(flags == 0,
              text.find("instantiated without them") != std::string::npos)
        << text;
    ASSERT_CU(cuGraphExecDestroy(exec));
  }
}

/// An event that was recorded in a capture does not keep the graph's nodes.
TEST_F(Graphs, NodesEndWithTheGraph) {
  static int alive = 0;
  alive = 1;
  ASSERT_CU(cuStreamBeginCapture_v2(streams[0], 2));
  ASSERT_CU(fsdpEmulatorIssue(
      streams[0], "work", [](void *) { return 1; }, &alive,
      [](void *data) { *static_cast<int *>(data) = 0; }, nullptr, 0,
      /*turn=*/0));
  order(streams[0], streams[1]);
  order(streams[1], streams[0]);
  cuda::GraphExec exec = end();
  ASSERT_CU(cuGraphDestroy(graph));
  EXPECT_EQ(1, alive);
  ASSERT_CU(cuGraphExecDestroy(exec));
  EXPECT_EQ(0, alive);
}

TEST_F(Graphs, ModesSayWhoIsForbiddenWhat) {
  struct {
    cuda::CaptureMode mode;
    bool mine, others;
  } const cases[] = {{cuda::CaptureGlobal, false, false},
                     {cuda::CaptureThreadLocal, false, true},
                     {cuda::CaptureRelaxed, true, true}};
  auto allocates = [] {
    cuda::DevicePointer pointer = 0;
    return cuMemAlloc_v2(&pointer, 4) == cuda::Success;
  };
  for (const auto &[mode, mine, others] : cases) {
    SCOPED_TRACE(int(mode));
    ASSERT_CU(cuStreamBeginCapture_v2(streams[0], mode));
    bool can = false;
    std::thread([&] {
      cuda::Context context = nullptr;
      can = !cuDevicePrimaryCtxRetain(&context, 0) &&
            !cuCtxSetCurrent(context) && allocates();
    }).join();
    EXPECT_EQ(others, can);
    EXPECT_EQ(mine, allocates());
    EXPECT_EQ(mine ? cuda::Success : cuda::StreamCaptureInvalidated,
              endCapture());
  }
  // A library asks to be forbidden nothing for a while.
  ASSERT_CU(cuStreamBeginCapture_v2(streams[0], cuda::CaptureThreadLocal));
  int mode = cuda::CaptureRelaxed;
  ASSERT_CU(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(cuda::CaptureGlobal, mode);
  EXPECT_TRUE(allocates());
  ASSERT_CU(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_CU(endCapture());
}

TEST_F(Graphs, OneThreadBeginsAndEnds) {
  ASSERT_CU(cuStreamBeginCapture_v2(streams[0], cuda::CaptureThreadLocal));
  cuda::Result result = cuda::Success;
  std::thread([&] {
    cuda::Context context = nullptr;
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    result = endCapture();
  }).join();
  EXPECT_EQ(cuda::StreamCaptureWrongThread, result);
  EXPECT_CU(endCapture());
  EXPECT_EQ(cuda::IllegalState, endCapture());
}

TEST_F(Graphs, StreamsThatAreNotItsOwn) {
  capture();
  EXPECT_EQ(cuda::StreamCaptureUnmatched,
            cuStreamEndCapture(streams[1], &graph));
  EXPECT_EQ(cuda::StreamCaptureInvalidated, endCapture());
  // Two captures that would become one.
  ASSERT_CU(cuStreamBeginCapture_v2(streams[0], cuda::CaptureThreadLocal));
  ASSERT_CU(cuStreamBeginCapture_v2(streams[1], cuda::CaptureThreadLocal));
  ASSERT_CU(cuEventRecord(event, streams[0]));
  EXPECT_EQ(cuda::StreamCaptureMerge, cuStreamWaitEvent(streams[1], event, 0));
  EXPECT_EQ(cuda::StreamCaptureInvalidated, endCapture());
  EXPECT_EQ(cuda::StreamCaptureInvalidated,
            cuStreamEndCapture(streams[1], &graph));
  // An event that a capture has left behind.
  EXPECT_EQ(cuda::CapturedEvent, cuStreamWaitEvent(streams[2], event, 0));
  EXPECT_CU(cuEventRecord(event, streams[0]));
  EXPECT_CU(cuStreamWaitEvent(streams[2], event, 0));
}

TEST_F(Graphs, TheLegacyStreamAndBlockingOnes) {
  cuda::Stream blocking = nullptr;
  ASSERT_CU(cuStreamCreate(&blocking, 0));
  ASSERT_CU(cuStreamBeginCapture_v2(blocking, cuda::CaptureRelaxed));
  EXPECT_EQ(cuda::StreamCaptureImplicit,
            launch(write, 1, 64, {first}, nullptr));
  EXPECT_EQ(cuda::StreamCaptureInvalidated,
            cuStreamEndCapture(blocking, &graph));
  printed();
  // Of streams that do not wait for it, it takes no notice.
  ASSERT_CU(cuStreamBeginCapture_v2(streams[0], cuda::CaptureRelaxed));
  EXPECT_CU(launch(write, 1, 64, {first}, nullptr));
  EXPECT_CU(cuMemsetD32_v2(second, 0, 256));
  EXPECT_CU(endCapture());
  EXPECT_EQ("CUDA_SUCCESS\n", finish());
}

/// Parameters are copied when they are captured; memory is read when the graph
/// runs.
TEST_F(Graphs, WhatIsKeptAndWhatIsRead) {
  void *pinned = nullptr;
  ASSERT_CU(cuMemHostAlloc(&pinned, 256, 0));
  auto *numbers = static_cast<uint32_t *>(pinned);
  ASSERT_CU(cuStreamBeginCapture_v2(streams[0], cuda::CaptureThreadLocal));
  ASSERT_CU(cuMemcpyHtoDAsync_v2(first, numbers, 256, streams[0]));
  {
    std::vector<cuda::DevicePointer> pointers = {first, second};
    ASSERT_CU(launch(copy, 1, 64, pointers, streams[0]));
    pointers.assign(2, 0);
  }
  cuda::GraphExec exec = end();
  for (uint32_t round = 1; round < 4; ++round) {
    std::fill_n(numbers, 64, round);
    ASSERT_CU(cuGraphLaunch(exec, streams[1]));
    ASSERT_EQ("CUDA_SUCCESS\n", finish());
    EXPECT_EQ(round, download<uint32_t>(second, 64)[63]);
  }
}

TEST_F(Graphs, AJoinThatIsMissing) {
  // The first stream goes on beside the second and is joined by the third.
  capture();
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  order(streams[1], streams[0]);
  ASSERT_CU(cuGraphLaunch(end(), streams[2]));
  EXPECT_THAT(finish(), HasSubstr("expected an order between operations"));
}

TEST_F(Graphs, ADependencyBetweenBranchesThatIsMissing) {
  for (bool isThere : {true, false}) {
    EmulatorTest::SetUp();
    for (cuda::Stream &stream : streams)
      ASSERT_CU(cuStreamCreate(&stream, cuda::streamNonBlocking));
    ASSERT_CU(cuEventCreate(&event, cuda::eventDisableTiming));
    first = allocate(1024), second = allocate(1024);
    write = load(kernelOf("add.s64 %rd10, %rd0, %rd9;\n"
                          "st.global.b32 [%rd10], %r3;\n",
                          1));
    ASSERT_CU(cuStreamBeginCapture_v2(streams[0], cuda::CaptureThreadLocal));
    order(streams[0], streams[1]);
    order(streams[0], streams[2]);
    ASSERT_CU(launch(write, 1, 64, {first}, streams[1]));
    if (isThere)
      order(streams[1], streams[2]);
    ASSERT_CU(cuMemcpyDtoDAsync_v2(second, first, 256, streams[2]));
    order(streams[1], streams[0]);
    order(streams[2], streams[0]);
    ASSERT_CU(cuGraphLaunch(end(), streams[0]));
    std::string text = finish();
    if (isThere)
      EXPECT_EQ("CUDA_SUCCESS\n", text);
    else
      EXPECT_THAT(text, HasSubstr("expected an order between operations"));
  }
}

/// Branches come in any order, and each behind what it depends on.
TEST_F(Graphs, OrdersVary) {
  std::string order;
  struct Call {
    std::string *order;
    char name;
  } calls[] = {{&order, 'a'}, {&order, 'b'}, {&order, 'c'}, {&order, 'd'}};
  auto append = [](void *data) {
    auto *call = static_cast<Call *>(data);
    *call->order += call->name;
  };
  ASSERT_CU(cuStreamBeginCapture_v2(streams[0], cuda::CaptureThreadLocal));
  ASSERT_CU(cuLaunchHostFunc(streams[0], append, &calls[0]));
  this->order(streams[0], streams[1]);
  ASSERT_CU(cuLaunchHostFunc(streams[1], append, &calls[1]));
  ASSERT_CU(cuLaunchHostFunc(streams[0], append, &calls[2]));
  this->order(streams[1], streams[0]);
  ASSERT_CU(cuLaunchHostFunc(streams[0], append, &calls[3]));
  cuda::GraphExec exec = end();
  EXPECT_EQ("", order);
  std::set<std::string> orders;
  for (int round = 0; round < 20; ++round) {
    order.clear();
    ASSERT_CU(cuGraphLaunch(exec, streams[2]));
    ASSERT_EQ("CUDA_SUCCESS\n", finish());
    orders.insert(order);
  }
  EXPECT_EQ((std::set<std::string>{"abcd", "acbd"}), orders);
}

TEST_F(Graphs, KernelsWhoseModuleIsGone) {
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  std::string text = kernelOf("st.global.b32 [%rd0], %r3;\n", 1);
  ASSERT_CU(cuModuleLoadData(&module, text.c_str()));
  ASSERT_CU(cuModuleGetFunction(&function, module, "k"));
  ASSERT_CU(cuStreamBeginCapture_v2(streams[0], cuda::CaptureThreadLocal));
  ASSERT_CU(launch(function, 1, 1, {first}, streams[0]));
  cuda::GraphExec exec = end();
  ASSERT_CU(cuGraphLaunch(exec, streams[0]));
  ASSERT_CU(cuModuleUnload(module));
  ASSERT_CU(cuGraphLaunch(exec, streams[0]));
  EXPECT_THAT(finish(), HasSubstr("expected a module that is loaded"));
}

TEST_F(Graphs, TakeMemory) {
  capture();
  order(streams[1], streams[0]);
  size_t before = 0, during = 0, after = 0, total = 0;
  ASSERT_CU(cuMemGetInfo_v2(&before, &total));
  cuda::GraphExec exec = end();
  ASSERT_CU(cuMemGetInfo_v2(&during, &total));
  ASSERT_CU(cuGraphExecDestroy(exec));
  ASSERT_CU(cuMemGetInfo_v2(&after, &total));
  EXPECT_LT(during, before);
  EXPECT_EQ(before, after);
}

} // namespace
