//===- SettingsTest.cpp - The environment, and what ends a process --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Each statement runs in a process of its own, which reads the environment
// anew.
//
//===----------------------------------------------------------------------===//

#include "Harness.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <gmock/gmock.h>

using namespace fsdp::emulator;
using namespace fsdp::emulator::test;
using testing::HasSubstr;

namespace {

/// Exits with 0 if it is so.
[[noreturn]] void finish(bool isRight) { std::exit(isRight ? 0 : 1); }

void set(const char *name, const std::string &value) {
  setenv((std::string("FSDP_EMULATOR_") + name).c_str(), value.c_str(), 1);
}

bool begin() {
  cuda::Context context = nullptr;
  return !cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) &&
         !cuCtxSetCurrent(context);
}

cuda::Result runKernel(const std::string &body,
                       cuda::DevicePointer pointer = 0) {
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  std::string text = kernelOf(body, 1);
  if (cuda::Result result = cuModuleLoadData(&module, text.c_str()))
    return result;
  cuModuleGetFunction(&function, module, "k");
  void *parameters[] = {&pointer};
  cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
  return cuCtxSynchronize();
}

class SettingsDeathTest : public testing::Test {
protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

/// `body` calls finish(true).
template <typename Body>
void expectRight(Body body) {
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}
/// `body` makes the emulator end the process.
template <typename Body>
void expectEnd(Body body, const std::string &message) {
  EXPECT_EXIT(body(), testing::ExitedWithCode(70), message);
}

TEST_F(SettingsDeathTest, Devices) {
  expectRight([&] {
    set("DEVICES", "3");
    set("CAPABILITY", "8.0");
    set("DRIVER", "12040");
    set("MEMORY", "1000000");
    int count = 0, major = 0, version = 0;
    size_t bytes = 0;
    bool hasBegun = begin();
    cuDeviceGetCount(&count);
    cuDeviceGetAttribute(&major, cuda::ComputeCapabilityMajor, 2);
    cuDriverGetVersion(&version);
    cuDeviceTotalMem_v2(&bytes, 1);
    finish(hasBegun && count == 3 && major == 8 && version == 12040 &&
           bytes == 1000000);
  });
  expectRight([&] {
    set("DEVICES", "0");
    finish(cuInit(0) == cuda::NoDevice);
  });
  expectRight([&] {
    set("MEMORY", "1000");
    cuda::DevicePointer pointer = 0;
    finish(begin() && !cuMemAlloc_v2(&pointer, 600) &&
           cuMemAlloc_v2(&pointer, 600) == cuda::OutOfMemory);
  });
  // sm_90 on a device of 8.0.
  expectRight([&] {
    set("CAPABILITY", "8.0");
    finish(begin() && runKernel("") == cuda::NoBinaryForGpu);
  });
  expectRight([&] {
    set("DRIVER", "11080");
    finish(begin() && runKernel("") == cuda::UnsupportedPtxVersion);
  });
}

TEST_F(SettingsDeathTest, ChecksCanBeTurnedOff) {
  std::string reads = "ld.global.b32 %r10, [%rd0];\n";
  expectRight([&] {
    set("UNINITIALIZED", "0");
    cuda::DevicePointer pointer = 0;
    uint32_t value = 0;
    bool isRight = begin() && !cuMemAlloc_v2(&pointer, 64) &&
                   !runKernel(reads, pointer) &&
                   !cuMemcpyDtoH_v2(&value, pointer, 4);
    finish(isRight && value == 0xffffffff);
  });
  expectRight([&] {
    set("RACES", "0");
    cuda::DevicePointer pointer = 0;
    cuda::Stream streams[2] = {};
    bool isRight = begin() && !cuMemAlloc_v2(&pointer, 64);
    for (cuda::Stream &stream : streams) {
      cuStreamCreate(&stream, cuda::streamNonBlocking);
      cuMemsetD8Async(pointer, 0, 64, stream);
    }
    finish(isRight && !cuCtxSynchronize());
  });
}

TEST_F(SettingsDeathTest, Approximations) {
  for (auto [name, bits] : {std::pair("low", 0x40b504f1),
                            {"rounded", 0x40b504f3},
                            {"high", 0x40b504f5}})
    expectRight([name = name, bits = bits] {
      set("APPROXIMATIONS", name);
      cuda::DevicePointer memory = 0;
      int32_t result = 0;
      bool isDone = begin() && !cuMemAlloc_v2(&memory, 4096) &&
                    !runKernel("add.s64 %rd10, %rd0, %rd9;\n"
                               "ex2.approx.f32 %f1, 0f40200000;\n"
                               "st.global.f32 [%rd10], %f1;\n",
                               memory) &&
                    !cuMemcpyDtoH_v2(&result, memory, 4);
      finish(isDone && result == bits);
    });
}

TEST_F(SettingsDeathTest, Faults) {
  expectRight([&] {
    set("FAULT", "cuMemAlloc_v2:2:2,cuCtxSynchronize:1:719");
    cuda::DevicePointer pointer = 0;
    bool isRight = begin() && !cuMemAlloc_v2(&pointer, 4) &&
                   cuMemAlloc_v2(&pointer, 4) == cuda::OutOfMemory &&
                   !cuMemAlloc_v2(&pointer, 4);
    isRight &= cuCtxSynchronize() == cuda::LaunchFailed;
    // That one stays.
    finish(isRight && cuMemAlloc_v2(&pointer, 4) == cuda::LaunchFailed);
  });
}

TEST_F(SettingsDeathTest, CallsThatDoNothing) {
  expectRight([&] {
    set("SKIP", "cuMemsetD32_v2:2");
    cuda::DevicePointer pointer = 0;
    uint32_t value = 0;
    bool isRight = begin() && !cuMemAlloc_v2(&pointer, 4) &&
                   !cuMemsetD32_v2(pointer, 1, 1) &&
                   !cuMemsetD32_v2(pointer, 2, 1) &&
                   !cuMemcpyDtoH_v2(&value, pointer, 4) && value == 1 &&
                   !cuMemsetD32_v2(pointer, 3, 1);
    finish(isRight && !cuMemcpyDtoH_v2(&value, pointer, 4) && value == 3);
  });
}

/// A wait that does nothing is told apart where other waits imply it.
TEST_F(SettingsDeathTest, WaitsThatDoNothing) {
  // Stream 1 waits for two points of stream 0, of which the later one, which is
  // the first wait, implies the other.
  auto waits = [](const char *skipped, bool isCaptured) {
    set("SKIP", std::string("cuStreamWaitEvent:") + skipped);
    cuda::DevicePointer pointer = 0;
    cuda::Stream streams[2] = {};
    cuda::Event events[3] = {};
    bool isRight = begin() && !cuMemAlloc_v2(&pointer, 8);
    for (cuda::Stream &stream : streams)
      isRight &= !cuStreamCreate(&stream, cuda::streamNonBlocking);
    for (cuda::Event &event : events)
      isRight &= !cuEventCreate(&event, cuda::eventDisableTiming);
    if (isCaptured)
      isRight &= !cuStreamBeginCapture_v2(streams[0], cuda::CaptureGlobal);
    for (unsigned i = 0; i < 2; ++i)
      isRight &= !cuMemsetD8Async(pointer + 4 * i, 7, 4, streams[0]) &&
                 !cuEventRecord(events[i], streams[0]);
    for (unsigned i = 0; i < 2; ++i)
      isRight &= !cuStreamWaitEvent(streams[1], events[1 - i], 0);
    isRight &= !cuMemsetD8Async(pointer, 8, 4, streams[1]) &&
               !cuEventRecord(events[2], streams[1]) &&
               !cuStreamWaitEvent(streams[0], events[2], 0);
    if (isCaptured) {
      cuda::Graph graph = nullptr;
      isRight &= !cuStreamEndCapture(streams[0], &graph);
    }
    finish(isRight && !cuCtxSynchronize());
  };
  const char *implied = "other waits imply the call that did nothing";
  for (bool isCaptured : {false, true})
    EXPECT_EXIT(waits("2", isCaptured), testing::ExitedWithCode(0), implied);
  EXPECT_EXIT(waits("1", false), testing::ExitedWithCode(0),
              "call 1 does nothing, as FSDP_EMULATOR_SKIP asks\n$");
}

TEST_F(SettingsDeathTest, CallsThatWaitForCopies) {
  expectRight([&] {
    set("HOLD", "cuMemsetD8Async:2:2:8");
    cuda::DevicePointer pointer = 0;
    uint64_t pair = 1;
    cuda::Stream stream = nullptr, copies = nullptr;
    bool isRight = begin() && !cuMemAlloc_v2(&pointer, 64) &&
                   !cuStreamCreate(&stream, cuda::streamNonBlocking) &&
                   !cuStreamCreate(&copies, cuda::streamNonBlocking);
    isRight &= !cuMemsetD8Async(pointer, 7, 4, stream) &&
               !cuStreamSynchronize(stream) &&
               !cuMemsetD8Async(pointer, 7, 4, stream);
    isRight &= !cuMemcpyHtoDAsync_v2(pointer + 8, &pair, 8, copies) &&
               !cuMemcpyHtoDAsync_v2(pointer + 8, &pair, 4, copies) &&
               !cuStreamSynchronize(copies) &&
               cuStreamQuery(stream) == cuda::NotReady;
    isRight &= !cuMemcpyHtoDAsync_v2(pointer + 8, &pair, 8, copies);
    finish(isRight && !cuStreamSynchronize(stream));
  });
  // Nothing else comes: neither for a host that waits nor for one that asks.
  for (bool waits : {true, false})
    expectRight([&] {
      set("HOLD", "cuMemsetD8Async:1:1:8");
      set("TIMEOUT", "0.1");
      cuda::DevicePointer pointer = 0;
      bool isRight = begin() && !cuMemAlloc_v2(&pointer, 64) &&
                     !cuMemsetD8Async(pointer, 7, 4, nullptr);
      cuda::Result answer = waits ? cuCtxSynchronize() : cuda::NotReady;
      while (answer == cuda::NotReady)
        answer = cuStreamQuery(nullptr);
      finish(isRight && answer == cuda::LaunchTimeout);
    });
}

TEST_F(SettingsDeathTest, MemoryOfContexts) {
  expectRight([&] {
    set("MEMORY", "1000");
    set("CONTEXT", "300");
    size_t free = 0, total = 0;
    finish(begin() && !cuMemGetInfo_v2(&free, &total) && free == 700 &&
           total == 1000);
  });
}

TEST_F(SettingsDeathTest, MemoryThatOthersOpen) {
  auto create = [](int handles, unsigned char rdma) {
    cuda::AllocationProperties wanted = {};
    wanted.type = cuda::allocationPinned;
    wanted.location = {cuda::locationDevice, 0};
    wanted.handleTypes = handles;
    wanted.flags.directRdma = rdma;
    cuda::AllocationHandle handle = 0;
    return cuMemCreate(&handle, size_t{2} << 20, &wanted, 0);
  };
  auto has = [](int attribute) {
    int value = -1;
    cuDeviceGetAttribute(&value, attribute, 0);
    return value;
  };
  expectRight([&] {
    bool hasBegun = begin();
    finish(hasBegun && has(cuda::HandleTypePosix) == 1 &&
           has(cuda::HandleTypeFabric) == 0 &&
           has(cuda::DirectRdmaWithVirtualMemory) == 1 && !create(1, 1) &&
           create(8, 0) == cuda::NotSupported);
  });
  expectRight([&] {
    set("SHARING", "none");
    bool hasBegun = begin();
    finish(hasBegun && has(cuda::HandleTypePosix) == 0 && !create(0, 0) &&
           create(1, 0) == cuda::NotSupported &&
           create(0, 1) == cuda::NotSupported);
  });
  expectRight([&] {
    set("SHARING", "file,fabric-denied");
    bool hasBegun = begin();
    finish(hasBegun && has(cuda::HandleTypeFabric) == 1 &&
           create(9, 0) == cuda::NotPermitted && !create(1, 0));
  });
  expectRight([&] {
    set("PEERS", "0");
    set("PRIORITIES", "0");
    int can = 1, least = 1, greatest = 1;
    bool hasBegun = begin();
    cuDeviceCanAccessPeer(&can, 0, 1);
    cuCtxGetStreamPriorityRange(&least, &greatest);
    finish(hasBegun && can == 0 && least == 0 && greatest == 0);
  });
}

TEST_F(SettingsDeathTest, Log) {
  std::string file = testing::TempDir() + "emulator-log";
  expectRight([&] {
    set("LOG", file);
    cuda::Stream stream = nullptr;
    cuda::Event event = nullptr;
    bool isRight = begin() && !cuStreamCreate(&stream, 1) &&
                   !cuEventCreate(&event, 2) && !cuEventRecord(event, stream);
    isRight &= cuEventQuery(event) == cuda::Success &&
               cuEventQuery(nullptr) == cuda::InvalidHandle;
    finish(isRight);
  });
  std::ifstream stream(file);
  std::string text((std::istreambuf_iterator<char>(stream)),
                   std::istreambuf_iterator<char>());
  std::remove(file.c_str());
  EXPECT_THAT(text, HasSubstr("0 cuEventCreate 0\n0 cuEventRecord 0\n"
                              "0 cuEventQuery 0\n0 cuEventQuery 400\n"));
}

TEST_F(SettingsDeathTest, Statistics) {
  std::string file = testing::TempDir() + "emulator-statistics";
  std::remove(file.c_str());
  expectRight([&] {
    set("STATS", file);
    cuda::DevicePointer pointer = 0;
    bool isRight = begin() && !cuMemAlloc_v2(&pointer, 4096);
    isRight &= !runKernel("add.s64 %rd10, %rd0, %rd9;\n"
                          "st.global.b32 [%rd10], %r3;\n"
                          "bar.sync 0;\nld.global.b32 %r10, [%rd10];\n"
                          "mul.wide.u32 %rd11, %r3, 64;\n"
                          "add.s64 %rd11, %rd11, %rd0;\n"
                          "st.global.b32 [%rd11+1024], %r3;\n",
                          pointer);
    finish(isRight);
  });
  std::ifstream stream(file);
  std::string text((std::istreambuf_iterator<char>(stream)),
                   std::istreambuf_iterator<char>());
  std::remove(file.c_str());
  EXPECT_THAT(text, HasSubstr("{\"kernel\": \"k\", \"device\": 0, "
                              "\"launches\": 1, \"dependent_launches\": 0, "
                              "\"warp_instructions\": 14, "
                              "\"lane_instructions\": 448, \"bytes_loaded\": "
                              "128, \"bytes_stored\": 256, \"requests\": 3, "
                              "\"sectors\": 40, \"atomics\": 0, "
                              "\"barriers\": 1, "));
  EXPECT_THAT(text, HasSubstr("{\"call\": \"cuLaunchKernel\", \"count\": 1}"));
}

TEST_F(SettingsDeathTest, BadValuesEndTheProcess) {
  auto endsWith = [](const char *name, const char *value, const char *message) {
    expectEnd(
        [&] {
          set(name, value);
          begin();
        },
        message);
  };
  endsWith("SEED", "x", "expected a number for FSDP_EMULATOR_SEED, got 'x'");
  endsWith("DEVICES", "65", "expected a number for FSDP_EMULATOR_DEVICES");
  endsWith("RACES", "2", "expected 0 or 1 for FSDP_EMULATOR_RACES");
  endsWith("APPROXIMATIONS", "2",
           "expected low, rounded or high for FSDP_EMULATOR_APPROXIMATIONS");
  endsWith("FAULT", "cuInit", "expected call:n:code for FSDP_EMULATOR_FAULT");
  endsWith("SKIP", "cuInit", "expected call:n, a number from 1 on, for");
  endsWith("HOLD", "cuInit:1:2", "expected call:n:copies:bytes, numbers from");
  endsWith("CAPABILITY", "nine", "expected major.minor");
  endsWith("SHARING", "files", "expected file, rdma, fabric, fabric-denied or");
}

/// Nothing of a call is silently skipped.
TEST_F(SettingsDeathTest, ArgumentsThatAreNotModeledEndTheProcess) {
  expectEnd(
      [&] {
        begin();
        int value = 0;
        cuDeviceGetAttribute(&value, 9999, 0);
      },
      "cuDeviceGetAttribute: expected arguments that the emulator models, got "
      "attribute 9999");
  expectEnd(
      [&] {
        begin();
        cuda::Event event = nullptr;
        cuEventCreate(&event, 4);
      },
      "cuEventCreate: .* got flags 4");
  expectEnd(
      [&] {
        begin();
        cuda::AllocationProperties properties = {};
        properties.type = 7;
        cuda::AllocationHandle memory = 0;
        cuMemCreate(&memory, 1 << 21, &properties, 0);
      },
      "cuMemCreate: .* got type 7");
  expectEnd(
      [&] {
        begin();
        cuda::Module module = nullptr;
        int options[] = {14};
        void *values[] = {nullptr};
        std::string text = kernelOf("");
        cuModuleLoadDataEx(&module, text.c_str(), 1, options, values);
      },
      "cuModuleLoadDataEx: .* got JIT option 14");
  expectEnd(
      [&] {
        begin();
        cuCtxSynchronize();
        cuStreamSynchronize(cuda::perThreadStream());
      },
      "CU_STREAM_PER_THREAD");
}

TEST_F(SettingsDeathTest, NothingWorksBeforeInit) {
  expectRight([&] {
    cuda::DevicePointer pointer = 0;
    cuda::Context context = nullptr;
    bool isRight =
        cuMemAlloc_v2(&pointer, 4) == cuda::NotInitialized &&
        cuDevicePrimaryCtxRetain(&context, 0) == cuda::NotInitialized;
    isRight &= !cuInit(0) && cuMemAlloc_v2(&pointer, 4) == cuda::InvalidContext;
    finish(isRight);
  });
}

/// A kernel launched after another one, by programmatic stream serialization.
cuda::Result launchDependent(bool isCaptured) {
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  std::string text = kernelOf("", 1);
  text.replace(text.find("sm_90"), 5, "sm_80");
  cuda::Stream stream = nullptr;
  cuStreamCreate(&stream, cuda::streamNonBlocking);
  if (cuda::Result result = cuModuleLoadData(&module, text.c_str()))
    return result;
  cuModuleGetFunction(&function, module, "k");
  cuda::DevicePointer pointer = 0;
  void *parameters[] = {&pointer};
  if (isCaptured)
    cuStreamBeginCapture_v2(stream, cuda::CaptureThreadLocal);
  cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr);
  cuda::LaunchAttribute attribute = {};
  attribute.id = cuda::attributeProgrammaticStreamSerialization;
  attribute.value.programmaticStreamSerialization = 1;
  cuda::LaunchConfig config = {1, 1, 1, 32, 1, 1, 0, stream, &attribute, 1};
  return cuLaunchKernelEx(&config, function, parameters, nullptr);
}

TEST_F(SettingsDeathTest, DependentLaunch) {
  expectRight([] {
    set("CAPABILITY", "8.0");
    finish(begin() && launchDependent(false) == cuda::NotSupported);
  });
  expectRight([] {
    set("DRIVER", "12020");
    finish(begin() && launchDependent(false) == cuda::Success);
  });
  expectRight([] {
    set("DRIVER", "12020");
    finish(begin() && launchDependent(true) == cuda::StreamCaptureUnsupported);
  });
  expectRight([] {
    set("DRIVER", "12030");
    finish(begin() && launchDependent(true) == cuda::Success);
  });
}

} // namespace
