//===- StreamFixture.h - Three streams and what they may do ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_TESTS_STREAMFIXTURE_H
#define FSDP_EMULATOR_TESTS_STREAMFIXTURE_H

#include "Harness.h"

namespace fsdp::emulator::test {

class Streams : public EmulatorTest {
protected:
  void SetUp() override {
    EmulatorTest::SetUp();
    for (cuda::Stream &stream : streams)
      ASSERT_CU(cuStreamCreate(&stream, cuda::streamNonBlocking));
    ASSERT_CU(cuEventCreate(&event, cuda::eventDisableTiming));
    write = load(kernelOf("add.s64 %rd10, %rd0, %rd9;\n"
                          "st.global.b32 [%rd10], %r3;\n",
                          1));
    copy = load(kernelOf("add.s64 %rd10, %rd0, %rd9;\n"
                         "add.s64 %rd11, %rd1, %rd9;\n"
                         "ld.global.b32 %r10, [%rd10];\n"
                         "st.global.b32 [%rd11], %r10;\n",
                         2));
    first = allocate(1024);
    second = allocate(1024);
  }

  /// Stream `to` waits for what `from` was given.
  void order(cuda::Stream from, cuda::Stream to) {
    ASSERT_CU(cuEventRecord(event, from));
    ASSERT_CU(cuStreamWaitEvent(to, event, 0));
  }
  /// The error of the device, and what it said.
  std::string finish() {
    testing::internal::CaptureStderr();
    cuda::Result result = cuCtxSynchronize();
    const char *name = nullptr;
    cuGetErrorName(result, &name);
    return std::string(name) + "\n" + testing::internal::GetCapturedStderr();
  }

  cuda::Stream streams[3] = {};
  cuda::Event event = nullptr;
  cuda::Function write = nullptr, copy = nullptr;
  cuda::DevicePointer first = 0, second = 0;
};

} // namespace fsdp::emulator::test

#endif // FSDP_EMULATOR_TESTS_STREAMFIXTURE_H
