//===- StreamTest.cpp - Streams, events, races between them ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StreamFixture.h"

#include "driver/Extension.h"

#include <gmock/gmock.h>
#include <set>

using namespace fsdp::emulator;
using namespace fsdp::emulator::test;
using testing::HasSubstr;

namespace {

TEST_F(Streams, OrderedByEvents) {
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  order(streams[0], streams[1]);
  ASSERT_CU(launch(copy, 1, 64, {first, second}, streams[1]));
  EXPECT_EQ("CUDA_SUCCESS\n", finish());
  EXPECT_EQ(63u, download<uint32_t>(second, 64)[63]);
}

TEST_F(Streams, OrderedByTheHost) {
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  ASSERT_CU(cuStreamSynchronize(streams[0]));
  ASSERT_CU(launch(copy, 1, 64, {first, second}, streams[1]));
  EXPECT_EQ("CUDA_SUCCESS\n", finish());
}

TEST_F(Streams, WriteAndRead) {
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  ASSERT_CU(cuStreamSynchronize(streams[0]));
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  ASSERT_CU(launch(copy, 1, 64, {first, second}, streams[1]));
  std::string text = finish();
  EXPECT_THAT(text, HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
  EXPECT_THAT(text, HasSubstr("expected an order between operations that use "
                              "the same bytes, got none between k (operation"));
}

TEST_F(Streams, ReadAndWrite) {
  ASSERT_CU(cuMemsetD32_v2(first, 0, 256));
  ASSERT_CU(launch(copy, 1, 64, {first, second}, streams[0]));
  ASSERT_CU(launch(write, 1, 64, {first}, streams[1]));
  EXPECT_THAT(finish(), HasSubstr("expected an order between operations"));
}

TEST_F(Streams, AWriterIsBehindAllReaders) {
  ASSERT_CU(cuMemsetD32_v2(first, 0, 256));
  cuda::DevicePointer third = allocate(1024);
  ASSERT_CU(launch(copy, 1, 64, {first, second}, streams[0]));
  ASSERT_CU(launch(copy, 1, 64, {first, third}, streams[1]));
  // Behind one reader alone.
  order(streams[1], streams[2]);
  ASSERT_CU(launch(write, 1, 64, {first}, streams[2]));
  EXPECT_THAT(finish(), HasSubstr("expected an order between operations"));
}

TEST_F(Streams, AWriterBehindBothReaders) {
  ASSERT_CU(cuMemsetD32_v2(first, 0, 256));
  cuda::DevicePointer third = allocate(1024);
  ASSERT_CU(launch(copy, 1, 64, {first, second}, streams[0]));
  ASSERT_CU(launch(copy, 1, 64, {first, third}, streams[1]));
  order(streams[0], streams[2]);
  order(streams[1], streams[2]);
  ASSERT_CU(launch(write, 1, 64, {first}, streams[2]));
  EXPECT_EQ("CUDA_SUCCESS\n", finish());
}

TEST_F(Streams, CopiesRaceToo) {
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  ASSERT_CU(cuMemcpyDtoDAsync_v2(second, first, 256, streams[1]));
  EXPECT_THAT(finish(), HasSubstr("cuMemcpyDtoDAsync_v2 (operation"));
}

TEST_F(Streams, FillsRaceToo) {
  ASSERT_CU(cuMemsetD8Async(first, 0, 256, streams[0]));
  ASSERT_CU(cuMemsetD8Async(first + 255, 0, 256, streams[1]));
  EXPECT_THAT(finish(), HasSubstr("which writes 256 bytes from byte"));
}

TEST_F(Streams, NeighboursDoNotRace) {
  ASSERT_CU(cuMemsetD8Async(first, 1, 2, streams[0]));
  ASSERT_CU(cuMemsetD8Async(first + 2, 2, 2, streams[1]));
  ASSERT_CU(launch(write, 1, 64, {first + 4}, streams[2]));
  EXPECT_EQ("CUDA_SUCCESS\n", finish());
}

/// Work that other ranks take part in, whatever memory it uses.
TEST_F(Streams, WorkOfATurnNeedsAnOrder) {
  auto issue = [&](int stream, unsigned long long turn) {
    ASSERT_CU(fsdpEmulatorIssue(
        streams[stream], "exchange", [](void *) { return 1; }, nullptr, nullptr,
        nullptr, 0, turn));
  };
  issue(0, 1);
  order(streams[0], streams[1]);
  issue(1, 1);
  // Of another turn, and of none.
  issue(2, 2);
  issue(0, 0);
  EXPECT_EQ("CUDA_SUCCESS\n", finish());
  issue(0, 1);
  issue(1, 1);
  EXPECT_THAT(finish(),
              HasSubstr("expected an order between operations that other ranks "
                        "take part in, got none between exchange (operation"));
}

TEST_F(Streams, AnEventOrdersWhatWasThereWhenItWasRecorded) {
  ASSERT_CU(cuEventRecord(event, streams[0]));
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  ASSERT_CU(cuStreamWaitEvent(streams[1], event, 0));
  ASSERT_CU(cuMemsetD8Async(first, 0, 256, streams[1]));
  EXPECT_THAT(finish(), HasSubstr("expected an order between operations"));
}

TEST_F(Streams, TheLegacyStreamWaitsForBlockingOnes) {
  cuda::Stream blocking = nullptr;
  ASSERT_CU(cuStreamCreate(&blocking, 0));
  ASSERT_CU(launch(write, 1, 64, {first}, blocking));
  ASSERT_CU(launch(copy, 1, 64, {first, second}, nullptr));
  ASSERT_CU(launch(write, 1, 64, {second}, blocking));
  EXPECT_EQ("CUDA_SUCCESS\n", finish());
}

TEST_F(Streams, TheLegacyStreamIgnoresOthers) {
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  ASSERT_CU(launch(write, 1, 64, {first}, nullptr));
  EXPECT_THAT(finish(), HasSubstr("expected an order between operations"));
}

TEST_F(Streams, NothingRunsBeforeTheHostWaits) {
  std::vector<int> order;
  auto append = [](void *data) {
    static_cast<std::vector<int> *>(data)->push_back(1);
  };
  ASSERT_CU(cuLaunchHostFunc(streams[0], append, &order));
  EXPECT_TRUE(order.empty());
  ASSERT_CU(cuStreamSynchronize(streams[0]));
  EXPECT_EQ(1u, order.size());
  EXPECT_EQ(cuda::Success, cuStreamQuery(streams[0]));
}

TEST_F(Streams, QueriesMakeProgress) {
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  ASSERT_CU(cuEventRecord(event, streams[0]));
  EXPECT_EQ(cuda::NotReady, cuStreamQuery(streams[0]));
  int queries = 0;
  while (cuEventQuery(event) == cuda::NotReady)
    ASSERT_LT(++queries, 100);
  EXPECT_CU(cuStreamSynchronize(streams[0]));
}

/// Streams that wait for nobody run in any order.
TEST_F(Streams, OrdersVary) {
  std::set<std::string> orders;
  struct Call {
    std::string *order;
    char name;
  };
  auto append = [](void *data) {
    auto *call = static_cast<Call *>(data);
    *call->order += call->name;
  };
  for (int round = 0; round < 40; ++round) {
    std::string order;
    Call calls[] = {{&order, 'a'}, {&order, 'b'}, {&order, 'c'}};
    for (int i = 0; i < 3; ++i)
      ASSERT_CU(cuLaunchHostFunc(streams[i], append, &calls[i]));
    ASSERT_CU(cuCtxSynchronize());
    orders.insert(order);
  }
  EXPECT_EQ(6u, orders.size());
}

TEST_F(Streams, HostFunctionsMayNotCallTheDriver) {
  cuda::Result result = cuda::Success;
  auto call = [](void *data) {
    *static_cast<cuda::Result *>(data) = cuCtxSynchronize();
  };
  ASSERT_CU(cuLaunchHostFunc(streams[0], call, &result));
  testing::internal::CaptureStderr();
  ASSERT_CU(cuCtxSynchronize());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("expected no calls from a function of "
                        "cuLaunchHostFunc"));
  EXPECT_EQ(cuda::NotPermitted, result);
}

TEST_F(Streams, DestroyedHandlesAreKnown) {
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  // What it was given is done all the same.
  ASSERT_CU(cuStreamDestroy_v2(streams[0]));
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuda::InvalidHandle, launch(write, 1, 64, {first}, streams[0]));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("cuLaunchKernel: expected a stream, got 0x"));
  ASSERT_CU(cuCtxSynchronize());
  EXPECT_EQ(63u, download<uint32_t>(first, 64)[63]);
}

TEST_F(Streams, EventsTakeTime) {
  cuda::Event begin = nullptr, end = nullptr;
  ASSERT_CU(cuEventCreate(&begin, 0));
  ASSERT_CU(cuEventCreate(&end, 0));
  ASSERT_CU(cuEventRecord(begin, streams[0]));
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  ASSERT_CU(cuEventRecord(end, streams[0]));
  float milliseconds = -1;
  EXPECT_EQ(cuda::NotReady, cuEventElapsedTime_v2(&milliseconds, begin, end));
  ASSERT_CU(cuEventSynchronize(end));
  ASSERT_CU(cuEventElapsedTime_v2(&milliseconds, begin, end));
  EXPECT_GT(milliseconds, 0);
}

} // namespace
