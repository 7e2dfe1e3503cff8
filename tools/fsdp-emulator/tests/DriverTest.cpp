//===- DriverTest.cpp - Devices, memory, modules, functions ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Harness.h"

#include "driver/Extension.h"

#include <gmock/gmock.h>
#include <thread>

using namespace fsdp::emulator;
using namespace fsdp::emulator::test;
using testing::HasSubstr;

namespace {

class Driver : public EmulatorTest {
protected:
  /// Expects a call to be refused with a message, and the context to go on.
  template <typename Call>
  void expectRefused(cuda::Result error, const std::string &message,
                     Call call) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(error, call());
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(message));
    EXPECT_CU(cuCtxSynchronize());
  }
};

TEST_F(Driver, Devices) {
  int count = 0, device = -1, value = 0;
  ASSERT_CU(cuDeviceGetCount(&count));
  EXPECT_EQ(8, count);
  ASSERT_CU(cuDeviceGet(&device, 7));
  EXPECT_EQ(7, device);
  expectRefused(cuda::InvalidDevice, "expected one of 8 devices, got 8",
                [&] { return cuDeviceGet(&device, 8); });
  char name[64];
  ASSERT_CU(cuDeviceGetName(name, sizeof name, 0));
  EXPECT_STREQ("Emulated sm_90", name);
  ASSERT_CU(cuDeviceGetAttribute(&value, cuda::ComputeCapabilityMajor, 0));
  EXPECT_EQ(9, value);
  ASSERT_CU(cuDeviceGetAttribute(&value, cuda::MaxSharedPerBlockOptIn, 0));
  EXPECT_EQ(232448, value);
  const char *text = nullptr;
  ASSERT_CU(cuGetErrorString(700, &text));
  EXPECT_STREQ("an illegal memory access was encountered", text);
  EXPECT_EQ(cuda::InvalidValue, cuGetErrorName(12345, &text));
}

TEST_F(Driver, FunctionsByName) {
  void *function = nullptr;
  int status = -1;
  ASSERT_CU(cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, &status));
  EXPECT_EQ(reinterpret_cast<void *>(&cuMemAlloc_v2), function);
  EXPECT_EQ(0, status);
  EXPECT_EQ(cuda::NotFound, cuGetProcAddress_v2("cuTexObjectCreate", &function,
                                                12000, 0, &status));
  EXPECT_EQ(1, status);
}

TEST_F(Driver, MemoryIsCounted) {
  size_t free = 0, total = 0, then = 0;
  ASSERT_CU(cuMemGetInfo_v2(&free, &total));
  EXPECT_EQ(free, total);
  cuda::DevicePointer pointer = allocate(1000);
  ASSERT_CU(cuMemGetInfo_v2(&then, &total));
  EXPECT_EQ(free - 1000, then);
  ASSERT_CU(cuMemFree_v2(pointer));
  ASSERT_CU(cuMemGetInfo_v2(&then, &total));
  EXPECT_EQ(free, then);
  expectRefused(cuda::OutOfMemory, "cuMemAlloc_v2: expected at most",
                [&] { return cuMemAlloc_v2(&pointer, total + 1); });
  expectRefused(cuda::InvalidValue, "expected what cuMemAlloc gave",
                [&] { return cuMemFree_v2(pointer); });
}

TEST_F(Driver, FreedMemoryIsOutOfBounds) {
  cuda::DevicePointer pointer = allocate(64);
  ASSERT_CU(cuMemFree_v2(pointer));
  EXPECT_THAT(
      messageOf(kernelOf("st.global.b32 [%rd0], %r3;\n", 1), 1, 1, {pointer}),
      HasSubstr("expected bytes of an allocation"));
}

TEST_F(Driver, CopiesStayInside) {
  cuda::DevicePointer pointer = allocate(64);
  std::vector<uint8_t> host(128);
  expectRefused(cuda::InvalidValue,
                "cuMemcpyHtoD_v2: a copy: expected bytes of an allocation, got",
                [&] { return cuMemcpyHtoD_v2(pointer, host.data(), 65); });
  expectRefused(cuda::InvalidValue, "byte 64 of an allocation of 64",
                [&] { return cuMemcpyDtoH_v2(host.data(), pointer + 32, 33); });
}

TEST_F(Driver, UnwrittenBytesAreNoZeros) {
  cuda::DevicePointer pointer = allocate(8);
  uint32_t value = 5;
  ASSERT_CU(cuMemcpyHtoD_v2(pointer, &value, 4));
  EXPECT_EQ((std::vector<uint32_t>{5, 0xffffffff}),
            download<uint32_t>(pointer, 2));
  // Copies between buffers copy that, too.
  cuda::DevicePointer other = upload(std::vector<uint32_t>{1, 2});
  ASSERT_CU(cuMemcpyDtoDAsync_v2(other, pointer, 8, nullptr));
  EXPECT_THAT(
      messageOf(kernelOf("ld.global.b32 %r10, [%rd0+4];\n", 1), 1, 1, {other}),
      HasSubstr("expected bytes that were written before"));
}

TEST_F(Driver, PageableMemoryIsReadAtOnce) {
  cuda::DevicePointer pointer = allocate(4);
  uint32_t value = 5, result = 0;
  ASSERT_CU(cuMemcpyHtoDAsync_v2(pointer, &value, 4, nullptr));
  value = 6;
  // And written before the call returns.
  ASSERT_CU(cuMemcpyDtoHAsync_v2(&result, pointer, 4, nullptr));
  EXPECT_EQ(5u, result);
}

TEST_F(Driver, PinnedMemoryIsReadLater) {
  cuda::DevicePointer pointer = allocate(4);
  void *pinned = nullptr;
  ASSERT_CU(cuMemHostAlloc(&pinned, 4096, cuda::hostPortable));
  auto *values = static_cast<uint32_t *>(pinned);
  values[0] = 5;
  values[1] = 0;
  ASSERT_CU(cuMemcpyHtoDAsync_v2(pointer, values, 4, nullptr));
  values[0] = 6;
  ASSERT_CU(cuMemcpyDtoHAsync_v2(values + 1, pointer, 4, nullptr));
  EXPECT_EQ(0u, values[1]);
  ASSERT_CU(cuCtxSynchronize());
  EXPECT_EQ(6u, values[1]);
  // Kernels may use it.
  auto address = reinterpret_cast<cuda::DevicePointer>(pinned);
  ASSERT_CU(run(kernelOf("ld.global.b32 %r10, [%rd0];\n"
                         "st.global.b32 [%rd0+8], %r10;\n",
                         1),
                1, 1, {address}));
  EXPECT_EQ(6u, values[2]);
  // And so may fills.
  ASSERT_CU(cuMemsetD8Async(address + 8, 1, 4, nullptr));
  ASSERT_CU(cuCtxSynchronize());
  EXPECT_EQ(0x01010101u, values[2]);
  uint32_t own = 0;
  EXPECT_EQ(cuda::InvalidValue,
            cuMemsetD8Async(reinterpret_cast<cuda::DevicePointer>(&own), 1, 4,
                            nullptr));
  ASSERT_CU(cuMemFreeHost(pinned));
  EXPECT_EQ(cuda::InvalidValue, cuMemFreeHost(pinned));
}

TEST_F(Driver, RegisteredMemoryIsPinned) {
  std::vector<uint32_t> values(1024, 7);
  ASSERT_CU(cuMemHostRegister_v2(values.data(), 4096, cuda::hostPortable));
  EXPECT_EQ(cuda::HostMemoryAlreadyRegistered,
            cuMemHostRegister_v2(values.data(), 4096, 0));
  auto address = reinterpret_cast<cuda::DevicePointer>(values.data());
  ASSERT_CU(
      run(kernelOf("st.global.b32 [%rd0+4092], 9;\n", 1), 1, 1, {address}));
  EXPECT_EQ(9u, values[1023]);
  ASSERT_CU(cuMemHostUnregister(values.data()));
  EXPECT_EQ(cuda::HostMemoryNotRegistered, cuMemHostUnregister(values.data()));
}

class VirtualMemory : public Driver {
protected:
  void SetUp() override {
    Driver::SetUp();
    properties.type = cuda::allocationPinned;
    properties.location = {cuda::locationDevice, 0};
    ASSERT_CU(cuMemGetAllocationGranularity(&granularity, &properties, 0));
    ASSERT_CU(cuMemAddressReserve(&range, 2 * granularity, 0, 0, 0));
    ASSERT_CU(cuMemCreate(&memory, granularity, &properties, 0));
    access = {properties.location, cuda::accessReadWrite};
  }

  cuda::AllocationProperties properties = {};
  cuda::AccessDescriptor access = {};
  size_t granularity = 0;
  cuda::DevicePointer range = 0;
  cuda::AllocationHandle memory = 0;
};

TEST_F(VirtualMemory, IsMapped) {
  ASSERT_CU(cuMemMap(range, granularity, 0, memory, 0));
  ASSERT_CU(cuMemMap(range + granularity, granularity, 0, memory, 0));
  ASSERT_CU(cuMemSetAccess(range, 2 * granularity, &access, 1));
  ASSERT_CU(cuMemRelease(memory));
  // Both are the same bytes.
  std::vector<uint32_t> values = {1, 2, 3};
  ASSERT_CU(cuMemcpyHtoD_v2(range + 64, values.data(), 12));
  EXPECT_EQ(values, download<uint32_t>(range + granularity + 64, 3));
  // A copy across the border.
  cuda::DevicePointer other = allocate(16);
  ASSERT_CU(cuMemsetD8Async(range + granularity - 8, 9, 16, nullptr));
  ASSERT_CU(cuMemcpyDtoDAsync_v2(other, range + granularity - 8, 16, nullptr));
  EXPECT_EQ(std::vector<uint8_t>(16, 9), download<uint8_t>(other, 16));
  size_t free = 0, total = 0;
  ASSERT_CU(cuMemGetInfo_v2(&free, &total));
  EXPECT_EQ(total - granularity - 16, free);
  EXPECT_EQ(cuda::InvalidValue, cuMemAddressFree(range, 2 * granularity));
  ASSERT_CU(cuMemUnmap(range, 2 * granularity));
  ASSERT_CU(cuMemGetInfo_v2(&free, &total));
  EXPECT_EQ(total - 16, free);
  ASSERT_CU(cuMemAddressFree(range, 2 * granularity));
}

TEST_F(VirtualMemory, WantsAccess) {
  ASSERT_CU(cuMemMap(range, granularity, 0, memory, 0));
  EXPECT_THAT(
      messageOf(kernelOf("st.global.b32 [%rd0], %r3;\n", 1), 1, 1, {range}),
      HasSubstr("which no cuMemSetAccess made accessible"));
}

TEST_F(VirtualMemory, IsChecked) {
  expectRefused(cuda::InvalidValue, "expected a multiple of 2097152",
                [&] { return cuMemCreate(&memory, 4096, &properties, 0); });
  expectRefused(cuda::InvalidValue, "expected reserved addresses", [&] {
    return cuMemMap(range + 2 * granularity, granularity, 0, memory, 0);
  });
  ASSERT_CU(cuMemMap(range, granularity, 0, memory, 0));
  expectRefused(cuda::InvalidValue, "expected addresses without memory",
                [&] { return cuMemMap(range, granularity, 0, memory, 0); });
  expectRefused(cuda::InvalidValue, "bytes that are mapped", [&] {
    return cuMemSetAccess(range, 2 * granularity, &access, 1);
  });
  // What is mapped nowhere is out of bounds, though it is reserved.
  ASSERT_CU(cuMemSetAccess(range, granularity, &access, 1));
  EXPECT_THAT(messageOf(kernelOf("st.global.b32 [%rd0], %r3;\n", 1), 1, 1,
                        {range + granularity}),
              HasSubstr("expected bytes of an allocation"));
}

TEST_F(Driver, Modules) {
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  std::string text = kernelOf("ld.global.b32 %r10, [v];\n"
                              "st.global.b32 [%rd0], %r10;\n",
                              1, ".visible .global .align 4 .u32 v[2][3];\n");
  ASSERT_CU(cuModuleLoadData(&module, text.c_str()));
  ASSERT_CU(cuModuleGetFunction(&function, module, "k"));
  EXPECT_EQ(cuda::NotFound, cuModuleGetFunction(&function, module, "other"));
  cuda::DevicePointer variable = 0, to = allocate(4);
  size_t bytes = 0;
  ASSERT_CU(cuModuleGetGlobal_v2(&variable, &bytes, module, "v"));
  EXPECT_EQ(24u, bytes);
  uint32_t value = 77;
  ASSERT_CU(cuMemcpyHtoD_v2(variable, &value, 4));
  ASSERT_CU(cuModuleGetFunction(&function, module, "k"));
  ASSERT_CU(launch(function, 1, 1, {to}));
  EXPECT_EQ(77u, download<uint32_t>(to, 1)[0]);
  ASSERT_CU(cuModuleUnload(module));
  EXPECT_EQ(cuda::InvalidHandle, cuModuleUnload(module));
}

TEST_F(Driver, ErrorsOfModulesAreLogged) {
  char log[200] = "";
  int options[] = {cuda::JitErrorLog, cuda::JitErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(uintptr_t{sizeof log})};
  cuda::Module module = nullptr;
  std::string text = kernelOf("frobnicate;\n");
  expectRefused(cuda::InvalidPtx, "frobnicate", [&] {
    return cuModuleLoadDataEx(&module, text.c_str(), 2, options, values);
  });
  EXPECT_THAT(log, HasSubstr("PTX line 20: expected an instruction"));
}

TEST_F(Driver, SharedMemoryBeyondTheUsualIsAskedFor) {
  std::string text =
      kernelOf("st.shared.b32 [fixed], 1;\n", 0,
               ".shared .align 4 .b8 fixed[1024];\n", ".maxntid 256, 2, 1");
  cuda::Function function = load(text);
  int value = 0;
  ASSERT_CU(cuFuncGetAttribute(&value, cuda::FunctionSharedBytes, function));
  EXPECT_EQ(1024, value);
  ASSERT_CU(cuFuncGetAttribute(&value, cuda::FunctionMaxThreads, function));
  EXPECT_EQ(512, value);
  EXPECT_EQ(cuda::InvalidValue,
            launch(function, 1, 32, {}, nullptr, 100 * 1024));
  ASSERT_CU(
      cuFuncSetAttribute(function, cuda::FunctionMaxDynamicShared, 100 * 1024));
  ASSERT_CU(launch(function, 1, 32, {}, nullptr, 100 * 1024));
  EXPECT_EQ(cuda::InvalidValue,
            cuFuncSetAttribute(function, cuda::FunctionMaxDynamicShared,
                               232448 - 1023));
  ASSERT_CU(cuFuncSetAttribute(function, cuda::FunctionMaxDynamicShared,
                               232448 - 1024));
  ASSERT_CU(cuCtxSynchronize());
}

TEST_F(Driver, NullPointersAreRefused) {
  expectRefused(cuda::InvalidValue, "expected pointer, got null",
                [] { return cuMemAlloc_v2(nullptr, 4); });
  expectRefused(cuda::InvalidValue, "expected stream, got null",
                [] { return cuStreamCreate(nullptr, 0); });
  cuda::Module module = nullptr;
  expectRefused(cuda::InvalidValue, "expected image, got null",
                [&] { return cuModuleLoadData(&module, nullptr); });
}

/// Ranks that are threads.
TEST_F(Driver, ThreadsHaveContextsOfTheirOwn) {
  std::vector<uint32_t> sums(3);
  std::string text = kernelOf("red.global.add.u32 [%rd0], %r3;\n", 1);
  auto work = [&](int ordinal) {
    cuda::Context context = nullptr;
    cuDevicePrimaryCtxRetain(&context, ordinal);
    cuCtxSetCurrent(context);
    cuda::DevicePointer pointer = 0;
    cuMemAlloc_v2(&pointer, 4);
    cuMemsetD32_v2(pointer, 0, 1);
    cuda::Function function = load(text);
    for (int i = 0; i < 50; ++i)
      launch(function, 1, 64, {pointer});
    cuMemcpyDtoH_v2(&sums[ordinal], pointer, 4);
  };
  std::vector<std::thread> threads;
  for (int ordinal = 0; ordinal < 3; ++ordinal)
    threads.emplace_back(work, ordinal);
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(std::vector<uint32_t>(3, 50 * 2016), sums);
}

/// Doubles of libraries wait in streams, and their accesses have an order.
TEST_F(Driver, WorkOfOtherLibraries) {
  cuda::DevicePointer pointer = upload(std::vector<uint32_t>{1, 2});
  struct State {
    int polls = 0;
    uint32_t *values;
  } state;
  state.values = static_cast<uint32_t *>(fsdpEmulatorHostPointer(pointer, 8));
  ASSERT_NE(nullptr, state.values);
  EXPECT_EQ(nullptr, fsdpEmulatorHostPointer(pointer, 9));
  EXPECT_EQ(0, fsdpEmulatorDevice());
  auto poll = [](void *data) {
    auto *waiting = static_cast<State *>(data);
    if (++waiting->polls < 3)
      return 0;
    waiting->values[1] = 9;
    return 1;
  };
  cuda::Stream streams[2] = {};
  for (cuda::Stream &stream : streams)
    ASSERT_CU(cuStreamCreate(&stream, cuda::streamNonBlocking));
  FsdpEmulatorRange range = {pointer, 8, 1};
  ASSERT_EQ(0, fsdpEmulatorIssue(streams[0], "gather", poll, &state, nullptr,
                                 &range, 1, /*turn=*/0));
  ASSERT_CU(cuStreamSynchronize(streams[0]));
  EXPECT_EQ(3, state.polls);
  EXPECT_EQ(9u, download<uint32_t>(pointer, 2)[1]);
  ASSERT_EQ(0, fsdpEmulatorIssue(streams[0], "gather", poll, &state, nullptr,
                                 &range, 1, /*turn=*/0));
  ASSERT_CU(cuMemsetD8Async(pointer, 0, 4, streams[1]));
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuda::LaunchFailed, cuCtxSynchronize());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("gather"));
}

} // namespace
