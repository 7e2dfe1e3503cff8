//===- DependentLaunchTest.cpp - Programmatic dependent launch ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StreamFixture.h"

#include <gmock/gmock.h>

namespace fsdp::emulator::test {

using testing::HasSubstr;

namespace {

class DependentLaunch : public Streams {
protected:
  /// Launched after the call before, by programmatic stream serialization.
  cuda::Result launchDependent(cuda::Function function,
                               std::vector<cuda::DevicePointer> pointers,
                               cuda::Stream stream) {
    cuda::LaunchAttribute attribute = {};
    attribute.id = cuda::attributeProgrammaticStreamSerialization;
    attribute.value.programmaticStreamSerialization = 1;
    cuda::LaunchConfig config = {1, 1, 1, 64, 1, 1, 0, stream, &attribute, 1};
    std::vector<void *> parameters;
    for (cuda::DevicePointer &pointer : pointers)
      parameters.push_back(&pointer);
    return cuLaunchKernelEx(&config, function, parameters.data(), nullptr);
  }
  /// `copy` with lines before its first access, and before its end.
  cuda::Function copyWith(const std::string &first, const std::string &last) {
    return load(kernelOf("add.s64 %rd10, %rd0, %rd9;\n"
                         "add.s64 %rd11, %rd1, %rd9;\n" +
                             first +
                             "ld.global.b32 %r10, [%rd10];\n"
                             "st.global.b32 [%rd11], %r10;\n" +
                             last,
                         2));
  }
  const std::string launches = "griddepcontrol.launch_dependents;\n";
  const std::string waits = "griddepcontrol.wait;\n";
};

TEST_F(DependentLaunch, WaitsBeforeItsFirstAccess) {
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  cuda::Function waiting = copyWith(launches + waits, "");
  ASSERT_CU(launchDependent(waiting, {first, second}, streams[0]));
  EXPECT_EQ("CUDA_SUCCESS\n", finish());
  EXPECT_EQ(63u, download<uint32_t>(second, 64)[63]);
}

TEST_F(DependentLaunch, WithoutAWait) {
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  ASSERT_CU(launchDependent(copy, {first, second}, streams[0]));
  EXPECT_THAT(finish(),
              HasSubstr("expected griddepcontrol.wait before accesses to "
                        "global memory in a kernel that may begin before the "
                        "one before it has ended, got a load of 4 bytes"));
}

TEST_F(DependentLaunch, WithAWaitBehindAnAccess) {
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  ASSERT_CU(launchDependent(copyWith("", waits), {first, second}, streams[0]));
  EXPECT_THAT(finish(), HasSubstr("expected griddepcontrol.wait before"));
}

TEST_F(DependentLaunch, WhereSomeThreadsDoNotWait) {
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  cuda::Function some =
      copyWith("setp.lt.u32 %p1, %r3, 63;\n@%p1 griddepcontrol.wait;\n", "");
  ASSERT_CU(launchDependent(some, {first, second}, streams[0]));
  EXPECT_THAT(finish(), HasSubstr("thread (63,0,0)"));
}

TEST_F(DependentLaunch, AnAtomicBeforeTheWait) {
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  cuda::Function adds =
      load(kernelOf("atom.global.add.u32 %r10, [%rd0], 1;\n" + waits, 1));
  ASSERT_CU(launchDependent(adds, {first}, streams[0]));
  EXPECT_THAT(finish(), HasSubstr("got an atomic of 4 bytes"));
}

TEST_F(DependentLaunch, AKernelThatOnlyEnds) {
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  ASSERT_CU(launchDependent(load(kernelOf("", 1)), {first}, streams[0]));
  EXPECT_THAT(finish(), HasSubstr("got none until its end"));
}

TEST_F(DependentLaunch, SharedMemoryBeforeTheWait) {
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  cuda::Function shares = load(kernelOf("setp.lt.u32 %p1, %r3, 1;\n"
                                        "@%p1 st.shared.b32 [at], 5;\n" +
                                            waits +
                                            "bar.sync 0;\n"
                                            "ld.shared.b32 %r10, [at];\n"
                                            "st.global.b32 [%rd0], %r10;\n",
                                        1, ".shared .align 4 .b8 at[4];\n"));
  ASSERT_CU(launchDependent(shares, {first}, streams[0]));
  EXPECT_EQ("CUDA_SUCCESS\n", finish());
  EXPECT_EQ(5u, download<uint32_t>(first, 1)[0]);
}

TEST_F(DependentLaunch, InAGraph) {
  ASSERT_CU(cuStreamBeginCapture_v2(streams[0], cuda::CaptureThreadLocal));
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  ASSERT_CU(launchDependent(copy, {first, second}, streams[0]));
  cuda::Graph graph = nullptr;
  ASSERT_CU(cuStreamEndCapture(streams[0], &graph));
  cuda::GraphExec exec = nullptr;
  ASSERT_CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_CU(cuGraphLaunch(exec, streams[0]));
  EXPECT_THAT(finish(), HasSubstr("expected griddepcontrol.wait before"));
}

using DependentLaunchDeath = DependentLaunch;

TEST_F(DependentLaunchDeath, BehindNoKernel) {
  const std::string none = "got programmatic stream serialization where the "
                           "call before gave the stream no kernel";
  ASSERT_EXIT(launchDependent(copy, {first, second}, streams[0]),
              testing::ExitedWithCode(70), none);
  ASSERT_CU(launch(write, 1, 64, {first}, streams[0]));
  EXPECT_EXIT(
      {
        cuMemsetD8Async(second, 0, 256, streams[0]);
        launchDependent(copy, {first, second}, streams[0]);
      },
      testing::ExitedWithCode(70), none);
  EXPECT_EXIT(
      {
        order(streams[0], streams[1]);
        launchDependent(copy, {first, second}, streams[0]);
      },
      testing::ExitedWithCode(70), none);
  EXPECT_EXIT(
      {
        cuEventRecord(event, streams[1]);
        cuStreamWaitEvent(streams[0], event, 0);
        launchDependent(copy, {first, second}, streams[0]);
      },
      testing::ExitedWithCode(70), none);
}

TEST_F(DependentLaunch, OfAnEarlierTarget) {
  std::string text = kernelOf(waits, 1);
  text.replace(text.find("sm_90"), 5, "sm_80");
  cuda::Module module = nullptr;
  EXPECT_EQ(cuda::InvalidPtx, cuModuleLoadData(&module, text.c_str()));
}

} // namespace
} // namespace fsdp::emulator::test
