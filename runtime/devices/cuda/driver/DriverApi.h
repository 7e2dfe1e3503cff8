//===- DriverApi.h - The CUDA driver, opened at run time --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of the driver's binary interface that the device uses, as far as it
// has been the same since CUDA 12.0. test/cuda/HeadersTest.cpp compares it with
// the toolkit's cuda.h.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_DRIVERAPI_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_DRIVERAPI_H

#include "core/Status.h"

#include <cstddef>
#include <string>
#include <vector>

namespace fsdp::rt {

/// Types and numbers of the driver.
namespace cu {

/// CUresult.
using Error = int;
using Device = int;
using Pointer = unsigned long long;
using AllocationHandle = unsigned long long;
using Context = struct ContextObject *;
using Module = struct ModuleObject *;
using Function = struct FunctionObject *;
using Stream = struct StreamObject *;
using Event = struct EventObject *;
using Graph = struct GraphObject *;
using GraphExec = struct GraphExecObject *;
using HostFunction = void (*)(void *data);

constexpr Error success = 0, notReady = 600;

constexpr int attributeMaxGridX = 5, attributeMultiprocessors = 16,
              attributeMajor = 75, attributeMinor = 76,
              attributeMaxSharedOptIn = 97, attributeVirtualMemory = 102,
              attributeFileHandles = 103, attributeDirectRdma = 110,
              attributeFabricHandles = 128;
constexpr int functionMaxThreads = 0, functionSharedBytes = 1,
              functionMaxDynamicShared = 8;
constexpr unsigned streamNonBlocking = 1, eventDefault = 0,
                   eventDisableTiming = 2, hostPortable = 1;
constexpr int captureRelaxed = 2;
/// Nodes have the priorities of the streams that they were captured from, not
/// that of the stream in which the graph is launched.
constexpr unsigned long long graphNodePriorities = 8;
constexpr int launchProgrammaticStreamSerialization = 6;
constexpr int jitErrorLog = 5, jitErrorLogBytes = 6;
constexpr int allocationPinned = 1, locationDevice = 1, accessReadWrite = 3,
              granularityMinimum = 0;
/// CUmemAllocationHandleType, bits.
constexpr int handleFile = 1, handleFabric = 8;

struct Location {
  int type;
  int id;
};
struct AllocationProperties {
  int type;
  int handleTypes;
  Location location;
  void *reserved;
  struct {
    unsigned char compression, directRdma;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};
struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    char bytes[64];
    int programmaticStreamSerialization;
  } value;
};
struct LaunchConfig {
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};
struct Uuid {
  char bytes[16];
};
struct Access {
  Location location;
  int flags;
};

} // namespace cu

/// X(name, symbol, parameters): a member, the library's symbol.
#define FSDP_RT_CUDA_FUNCTIONS(X)                                              \
  X(init, cuInit, (unsigned flags))                                            \
  X(driverGetVersion, cuDriverGetVersion, (int *version))                      \
  X(getErrorName, cuGetErrorName, (cu::Error error, const char **text))        \
  X(getErrorString, cuGetErrorString, (cu::Error error, const char **text))    \
  X(deviceGetCount, cuDeviceGetCount, (int *count))                            \
  X(deviceGet, cuDeviceGet, (cu::Device * device, int ordinal))                \
  X(deviceGetName, cuDeviceGetName,                                            \
    (char *name, int bytes, cu::Device device))                                \
  X(deviceGetUuid, cuDeviceGetUuid_v2, (cu::Uuid * uuid, cu::Device device))   \
  X(deviceGetAttribute, cuDeviceGetAttribute,                                  \
    (int *value, int attribute, cu::Device device))                            \
  X(deviceCanAccessPeer, cuDeviceCanAccessPeer,                                \
    (int *can, cu::Device device, cu::Device peer))                            \
  X(contextRetain, cuDevicePrimaryCtxRetain,                                   \
    (cu::Context * context, cu::Device device))                                \
  X(contextRelease, cuDevicePrimaryCtxRelease_v2, (cu::Device device))         \
  X(contextSetCurrent, cuCtxSetCurrent, (cu::Context context))                 \
  X(contextSynchronize, cuCtxSynchronize, ())                                  \
  X(memGetInfo, cuMemGetInfo_v2, (size_t *free, size_t *total))                \
  X(memGetGranularity, cuMemGetAllocationGranularity,                          \
    (size_t *bytes, const cu::AllocationProperties *what, int option))         \
  X(memReserve, cuMemAddressReserve,                                           \
    (cu::Pointer * pointer, size_t bytes, size_t alignment,                    \
     cu::Pointer wanted, unsigned long long flags))                            \
  X(memFreeReserved, cuMemAddressFree, (cu::Pointer pointer, size_t bytes))    \
  X(memCreate, cuMemCreate,                                                    \
    (cu::AllocationHandle * handle, size_t bytes,                              \
     const cu::AllocationProperties *what, unsigned long long flags))          \
  X(memRelease, cuMemRelease, (cu::AllocationHandle handle))                   \
  X(memMap, cuMemMap,                                                          \
    (cu::Pointer pointer, size_t bytes, size_t offset,                         \
     cu::AllocationHandle handle, unsigned long long flags))                   \
  X(memUnmap, cuMemUnmap, (cu::Pointer pointer, size_t bytes))                 \
  X(memSetAccess, cuMemSetAccess,                                              \
    (cu::Pointer pointer, size_t bytes, const cu::Access *access,              \
     size_t count))                                                            \
  X(hostAlloc, cuMemHostAlloc, (void **pointer, size_t bytes, unsigned flags)) \
  X(hostFree, cuMemFreeHost, (void *pointer))                                  \
  X(copyToDevice, cuMemcpyHtoDAsync_v2,                                        \
    (cu::Pointer dst, const void *src, size_t bytes, cu::Stream stream))       \
  X(copyToHost, cuMemcpyDtoHAsync_v2,                                          \
    (void *dst, cu::Pointer src, size_t bytes, cu::Stream stream))             \
  X(copyOnDevice, cuMemcpyDtoDAsync_v2,                                        \
    (cu::Pointer dst, cu::Pointer src, size_t bytes, cu::Stream stream))       \
  X(fillBytes, cuMemsetD8Async,                                                \
    (cu::Pointer dst, unsigned char value, size_t bytes, cu::Stream stream))   \
  X(getPriorityRange, cuCtxGetStreamPriorityRange,                             \
    (int *lowest, int *highest))                                               \
  X(streamCreate, cuStreamCreate, (cu::Stream * stream, unsigned flags))       \
  X(streamCreateWithPriority, cuStreamCreateWithPriority,                      \
    (cu::Stream * stream, unsigned flags, int priority))                       \
  X(streamDestroy, cuStreamDestroy_v2, (cu::Stream stream))                    \
  X(streamQuery, cuStreamQuery, (cu::Stream stream))                           \
  X(streamSynchronize, cuStreamSynchronize, (cu::Stream stream))               \
  X(streamWaitEvent, cuStreamWaitEvent,                                        \
    (cu::Stream stream, cu::Event event, unsigned flags))                      \
  X(streamBeginCapture, cuStreamBeginCapture_v2,                               \
    (cu::Stream stream, int mode))                                             \
  X(streamEndCapture, cuStreamEndCapture,                                      \
    (cu::Stream stream, cu::Graph * graph))                                    \
  X(graphInstantiate, cuGraphInstantiateWithFlags,                             \
    (cu::GraphExec * exec, cu::Graph graph, unsigned long long flags))         \
  X(graphUpload, cuGraphUpload, (cu::GraphExec exec, cu::Stream stream))       \
  X(graphLaunch, cuGraphLaunch, (cu::GraphExec exec, cu::Stream stream))       \
  X(graphDestroy, cuGraphDestroy, (cu::Graph graph))                           \
  X(graphExecDestroy, cuGraphExecDestroy, (cu::GraphExec exec))                \
  X(launchHostFunction, cuLaunchHostFunc,                                      \
    (cu::Stream stream, cu::HostFunction function, void *data))                \
  X(eventCreate, cuEventCreate, (cu::Event * event, unsigned flags))           \
  X(eventDestroy, cuEventDestroy_v2, (cu::Event event))                        \
  X(eventRecord, cuEventRecord, (cu::Event event, cu::Stream stream))          \
  X(eventQuery, cuEventQuery, (cu::Event event))                               \
  X(eventSynchronize, cuEventSynchronize, (cu::Event event))                   \
  X(eventElapsedTime, cuEventElapsedTime,                                      \
    (float *milliseconds, cu::Event begin, cu::Event end))                     \
  X(moduleLoad, cuModuleLoadDataEx,                                            \
    (cu::Module * module, const void *image, unsigned optionCount,             \
     int *options, void **values))                                             \
  X(moduleUnload, cuModuleUnload, (cu::Module module))                         \
  X(moduleGetFunction, cuModuleGetFunction,                                    \
    (cu::Function * function, cu::Module module, const char *name))            \
  X(functionGetAttribute, cuFuncGetAttribute,                                  \
    (int *value, int attribute, cu::Function function))                        \
  X(functionSetAttribute, cuFuncSetAttribute,                                  \
    (cu::Function function, int attribute, int value))                         \
  X(launch, cuLaunchKernel,                                                    \
    (cu::Function function, unsigned gridX, unsigned gridY, unsigned gridZ,    \
     unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,  \
     cu::Stream stream, void **parameters, void **extra))                      \
  X(launchWith, cuLaunchKernelEx,                                              \
    (const cu::LaunchConfig *config, cu::Function function, void **parameters, \
     void **extra))

/// The driver's functions. All may be called from any thread whose current
/// context is the device's.
struct DriverApi {
  /// Versions below are refused: 1000 * major + 10 * minor of CUDA.
  static constexpr int leastVersion = 12000;
  /// From this one on, a kernel of a graph may begin before the one before it
  /// has ended: edges of graphs have types.
  static constexpr int typedEdgesVersion = 12030;
  /// From this one on, memory may have handles for other hosts.
  static constexpr int fabricVersion = 12030;

  /// Opens libcuda.so.1 in `directories`, or the system's, and initialises it.
  /// Fails where it, one of the functions, a device or a recent driver is
  /// missing.
  static Result<DriverApi> open(const std::vector<std::string> &directories);

  /// The process's, in cudaLibraryDirectories(): opened by the first call; the
  /// same failure every time.
  static Result<const DriverApi *> ofProcess();

#define FSDP_RT_CUDA_MEMBER(name, symbol, parameters)                          \
  cu::Error(*name) parameters = nullptr;
  FSDP_RT_CUDA_FUNCTIONS(FSDP_RT_CUDA_MEMBER)
#undef FSDP_RT_CUDA_MEMBER

  int version = 0;
  int deviceCount = 0;

  /// "a driver of CUDA 13.0".
  std::string describe() const;

  /// Success, or "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  Status check(cu::Error error, const char *call) const;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_DRIVERAPI_H
