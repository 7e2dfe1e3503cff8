//===- Harness.h - Kernels of a few instructions, run through the driver --===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_TESTS_HARNESS_H
#define FSDP_EMULATOR_TESTS_HARNESS_H

#include "driver/Cuda.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace fsdp::emulator::test {

// The driver's functions, as a program sees them.
extern "C" {
#define FSDP_EMULATOR_DECLARE(name, parameters) cuda::Result name parameters
FSDP_EMULATOR_DECLARE(cuInit, (unsigned));
FSDP_EMULATOR_DECLARE(cuDriverGetVersion, (int *));
FSDP_EMULATOR_DECLARE(cuDeviceGetCount, (int *));
FSDP_EMULATOR_DECLARE(cuDeviceGet, (int *, int));
FSDP_EMULATOR_DECLARE(cuDeviceGetName, (char *, int, int));
FSDP_EMULATOR_DECLARE(cuDeviceGetAttribute, (int *, int, int));
FSDP_EMULATOR_DECLARE(cuDeviceCanAccessPeer, (int *, int, int));
FSDP_EMULATOR_DECLARE(cuCtxGetStreamPriorityRange, (int *, int *));
FSDP_EMULATOR_DECLARE(cuStreamCreateWithPriority,
                      (cuda::Stream *, unsigned, int));
FSDP_EMULATOR_DECLARE(cuDeviceTotalMem_v2, (size_t *, int));
FSDP_EMULATOR_DECLARE(cuDevicePrimaryCtxRetain, (cuda::Context *, int));
FSDP_EMULATOR_DECLARE(cuDevicePrimaryCtxReset_v2, (int));
FSDP_EMULATOR_DECLARE(cuCtxSetCurrent, (cuda::Context));
FSDP_EMULATOR_DECLARE(cuCtxSynchronize, ());
FSDP_EMULATOR_DECLARE(cuGetErrorName, (int, const char **));
FSDP_EMULATOR_DECLARE(cuGetErrorString, (int, const char **));
FSDP_EMULATOR_DECLARE(cuGetProcAddress_v2,
                      (const char *, void **, int, uint64_t, int *));
FSDP_EMULATOR_DECLARE(cuMemAlloc_v2, (cuda::DevicePointer *, size_t));
FSDP_EMULATOR_DECLARE(cuMemFree_v2, (cuda::DevicePointer));
FSDP_EMULATOR_DECLARE(cuMemGetInfo_v2, (size_t *, size_t *));
FSDP_EMULATOR_DECLARE(cuMemHostAlloc, (void **, size_t, unsigned));
FSDP_EMULATOR_DECLARE(cuMemFreeHost, (void *));
FSDP_EMULATOR_DECLARE(cuMemHostRegister_v2, (void *, size_t, unsigned));
FSDP_EMULATOR_DECLARE(cuMemHostUnregister, (void *));
FSDP_EMULATOR_DECLARE(cuMemGetAllocationGranularity,
                      (size_t *, const cuda::AllocationProperties *, int));
FSDP_EMULATOR_DECLARE(cuMemAddressReserve,
                      (cuda::DevicePointer *, size_t, size_t,
                       cuda::DevicePointer, unsigned long long));
FSDP_EMULATOR_DECLARE(cuMemAddressFree, (cuda::DevicePointer, size_t));
FSDP_EMULATOR_DECLARE(cuMemCreate,
                      (cuda::AllocationHandle *, size_t,
                       const cuda::AllocationProperties *, unsigned long long));
FSDP_EMULATOR_DECLARE(cuMemRelease, (cuda::AllocationHandle));
FSDP_EMULATOR_DECLARE(cuMemMap, (cuda::DevicePointer, size_t, size_t,
                                 cuda::AllocationHandle, unsigned long long));
FSDP_EMULATOR_DECLARE(cuMemUnmap, (cuda::DevicePointer, size_t));
FSDP_EMULATOR_DECLARE(cuMemSetAccess, (cuda::DevicePointer, size_t,
                                       const cuda::AccessDescriptor *, size_t));
FSDP_EMULATOR_DECLARE(cuMemcpyHtoD_v2,
                      (cuda::DevicePointer, const void *, size_t));
FSDP_EMULATOR_DECLARE(cuMemcpyDtoH_v2, (void *, cuda::DevicePointer, size_t));
FSDP_EMULATOR_DECLARE(cuMemcpyHtoDAsync_v2, (cuda::DevicePointer, const void *,
                                             size_t, cuda::Stream));
FSDP_EMULATOR_DECLARE(cuMemcpyDtoHAsync_v2,
                      (void *, cuda::DevicePointer, size_t, cuda::Stream));
FSDP_EMULATOR_DECLARE(cuMemcpyDtoDAsync_v2,
                      (cuda::DevicePointer, cuda::DevicePointer, size_t,
                       cuda::Stream));
FSDP_EMULATOR_DECLARE(cuMemsetD8Async, (cuda::DevicePointer, unsigned char,
                                        size_t, cuda::Stream));
FSDP_EMULATOR_DECLARE(cuMemsetD32_v2, (cuda::DevicePointer, unsigned, size_t));
FSDP_EMULATOR_DECLARE(cuModuleLoadData, (cuda::Module *, const void *));
FSDP_EMULATOR_DECLARE(cuModuleLoadDataEx,
                      (cuda::Module *, const void *, unsigned, int *, void **));
FSDP_EMULATOR_DECLARE(cuModuleUnload, (cuda::Module));
FSDP_EMULATOR_DECLARE(cuModuleGetFunction,
                      (cuda::Function *, cuda::Module, const char *));
FSDP_EMULATOR_DECLARE(cuModuleGetGlobal_v2, (cuda::DevicePointer *, size_t *,
                                             cuda::Module, const char *));
FSDP_EMULATOR_DECLARE(cuFuncGetAttribute, (int *, int, cuda::Function));
FSDP_EMULATOR_DECLARE(cuFuncSetAttribute, (cuda::Function, int, int));
FSDP_EMULATOR_DECLARE(cuLaunchKernel,
                      (cuda::Function, unsigned, unsigned, unsigned, unsigned,
                       unsigned, unsigned, unsigned, cuda::Stream, void **,
                       void **));
FSDP_EMULATOR_DECLARE(cuLaunchKernelEx, (const cuda::LaunchConfig *,
                                         cuda::Function, void **, void **));
FSDP_EMULATOR_DECLARE(cuLaunchHostFunc,
                      (cuda::Stream, cuda::HostFunction, void *));
FSDP_EMULATOR_DECLARE(cuStreamCreate, (cuda::Stream *, unsigned));
FSDP_EMULATOR_DECLARE(cuStreamDestroy_v2, (cuda::Stream));
FSDP_EMULATOR_DECLARE(cuStreamSynchronize, (cuda::Stream));
FSDP_EMULATOR_DECLARE(cuStreamQuery, (cuda::Stream));
FSDP_EMULATOR_DECLARE(cuStreamWaitEvent, (cuda::Stream, cuda::Event, unsigned));
FSDP_EMULATOR_DECLARE(cuStreamBeginCapture_v2, (cuda::Stream, int));
FSDP_EMULATOR_DECLARE(cuStreamEndCapture, (cuda::Stream, cuda::Graph *));
FSDP_EMULATOR_DECLARE(cuStreamIsCapturing, (cuda::Stream, int *));
FSDP_EMULATOR_DECLARE(cuThreadExchangeStreamCaptureMode, (int *));
FSDP_EMULATOR_DECLARE(cuEventCreate, (cuda::Event *, unsigned));
FSDP_EMULATOR_DECLARE(cuEventDestroy_v2, (cuda::Event));
FSDP_EMULATOR_DECLARE(cuEventRecord, (cuda::Event, cuda::Stream));
FSDP_EMULATOR_DECLARE(cuEventQuery, (cuda::Event));
FSDP_EMULATOR_DECLARE(cuEventSynchronize, (cuda::Event));
FSDP_EMULATOR_DECLARE(cuEventElapsedTime_v2,
                      (float *, cuda::Event, cuda::Event));
FSDP_EMULATOR_DECLARE(cuGraphGetNodes,
                      (cuda::Graph, cuda::GraphNode *, size_t *));
FSDP_EMULATOR_DECLARE(cuGraphInstantiateWithFlags,
                      (cuda::GraphExec *, cuda::Graph, unsigned long long));
FSDP_EMULATOR_DECLARE(cuGraphLaunch, (cuda::GraphExec, cuda::Stream));
FSDP_EMULATOR_DECLARE(cuGraphDestroy, (cuda::Graph));
FSDP_EMULATOR_DECLARE(cuGraphExecDestroy, (cuda::GraphExec));
#undef FSDP_EMULATOR_DECLARE
}

#define ASSERT_CU(call) ASSERT_EQ(cuda::Success, (call))
#define EXPECT_CU(call) EXPECT_EQ(cuda::Success, (call))

/// `lines` as a module of PTX; without .version, the usual head before them.
std::string moduleOf(const std::string &lines);

/// A kernel over pointers p0, p1, .., which are in %rd0, %rd1, ..; `body` has
/// %r, %rd, %f (b32), %fd (b64), %h (b16) and %p to use from number 10 on, and
/// %r0 has the thread's index in its grid, %rd9 four times that.
std::string kernelOf(const std::string &body, unsigned pointers = 4,
                     const std::string &variables = "",
                     const std::string &directives = "");

/// A fresh context of device 0 for each test, whatever stopped the one before.
class EmulatorTest : public testing::Test {
protected:
  void SetUp() override;

  cuda::DevicePointer allocate(size_t bytes);
  template <typename T>
  cuda::DevicePointer upload(const std::vector<T> &values) {
    cuda::DevicePointer pointer = allocate(values.size() * sizeof(T));
    EXPECT_EQ(cuda::Success, cuMemcpyHtoD_v2(pointer, values.data(),
                                             values.size() * sizeof(T)));
    return pointer;
  }
  template <typename T>
  std::vector<T> download(cuda::DevicePointer pointer, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(cuda::Success,
              cuMemcpyDtoH_v2(values.data(), pointer, count * sizeof(T)));
    return values;
  }

  /// Kernel `k` of a module.
  cuda::Function load(const std::string &text);
  cuda::Result launch(cuda::Function function, unsigned grid, unsigned block,
                      const std::vector<cuda::DevicePointer> &pointers,
                      cuda::Stream stream = nullptr, unsigned shared = 0);

  /// Loads, launches and waits; returns the first error.
  cuda::Result run(const std::string &text, unsigned grid, unsigned block,
                   const std::vector<cuda::DevicePointer> &pointers,
                   unsigned shared = 0);
  /// The same; what the emulator printed, behind the name of the error.
  std::string messageOf(const std::string &text, unsigned grid, unsigned block,
                        const std::vector<cuda::DevicePointer> &pointers,
                        unsigned shared = 0);
};

} // namespace fsdp::emulator::test

#endif // FSDP_EMULATOR_TESTS_HARNESS_H
