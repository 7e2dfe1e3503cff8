//===- Cuda.h - The part of the CUDA driver's interface that is emulated --===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Types and numbers as cuda.h has them; tests/HeaderTest.cpp compares them
// where there is a toolkit.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_DRIVER_CUDA_H
#define FSDP_EMULATOR_DRIVER_CUDA_H

#include <cstddef>
#include <cstdint>

namespace fsdp::emulator::cuda {

enum Result : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  InvalidPtx = 218,
  UnsupportedPtxVersion = 222,
  InvalidHandle = 400,
  IllegalState = 401,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchOutOfResources = 701,
  LaunchTimeout = 702,
  HostMemoryAlreadyRegistered = 712,
  HostMemoryNotRegistered = 713,
  MisalignedAddress = 716,
  InvalidAddressSpace = 717,
  LaunchFailed = 719,
  NotPermitted = 800,
  NotSupported = 801,
  StreamCaptureUnsupported = 900,
  StreamCaptureInvalidated = 901,
  StreamCaptureMerge = 902,
  StreamCaptureUnmatched = 903,
  StreamCaptureUnjoined = 904,
  StreamCaptureIsolation = 905,
  StreamCaptureImplicit = 906,
  CapturedEvent = 907,
  StreamCaptureWrongThread = 908,
};

using DeviceOrdinal = int;
using DevicePointer = unsigned long long;
using AllocationHandle = unsigned long long;
using Context = struct ContextHandle *;
using Module = struct ModuleHandle *;
using Library = struct LibraryHandle *;
using Kernel = struct KernelHandle *;
using Function = struct FunctionHandle *;
using Stream = struct StreamHandle *;
using Event = struct EventHandle *;
using Graph = struct GraphHandle *;
using GraphNode = struct GraphNodeHandle *;
using GraphExec = struct GraphExecHandle *;
using HostFunction = void (*)(void *data);

/// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
inline Stream legacyStream() { return reinterpret_cast<Stream>(1); }
inline Stream perThreadStream() { return reinterpret_cast<Stream>(2); }

struct Uuid {
  char bytes[16];
};

/// CUdevice_attribute, as far as the emulator has them.
enum DeviceAttribute : int {
  MaxThreadsPerBlock = 1,
  MaxBlockX = 2,
  MaxBlockY = 3,
  MaxBlockZ = 4,
  MaxGridX = 5,
  MaxGridY = 6,
  MaxGridZ = 7,
  MaxSharedPerBlock = 8,
  TotalConstantMemory = 9,
  WarpSize = 10,
  MaxRegistersPerBlock = 12,
  ClockRate = 13,
  MultiprocessorCount = 16,
  Integrated = 18,
  CanMapHostMemory = 19,
  ComputeMode = 20,
  ConcurrentKernels = 31,
  EccEnabled = 32,
  PciBusId = 33,
  PciDeviceId = 34,
  MemoryClockRate = 36,
  MemoryBusWidth = 37,
  L2CacheSize = 38,
  MaxThreadsPerMultiprocessor = 39,
  AsyncEngineCount = 40,
  UnifiedAddressing = 41,
  PciDomainId = 50,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  StreamPrioritiesSupported = 78,
  MaxSharedPerMultiprocessor = 81,
  MaxRegistersPerMultiprocessor = 82,
  ManagedMemory = 83,
  ConcurrentManagedAccess = 89,
  CanUseHostPointer = 91,
  CooperativeLaunch = 95,
  MaxSharedPerBlockOptIn = 97,
  VirtualMemoryManagement = 102,
  HandleTypePosix = 103,
  MaxBlocksPerMultiprocessor = 106,
  DirectRdmaWithVirtualMemory = 110,
  ReservedSharedPerBlock = 111,
  MemoryPools = 115,
  HandleTypeFabric = 128,
};

enum FunctionAttribute : int {
  FunctionMaxThreads = 0,
  FunctionSharedBytes = 1,
  FunctionConstantBytes = 2,
  FunctionLocalBytes = 3,
  FunctionRegisters = 4,
  FunctionPtxVersion = 5,
  FunctionBinaryVersion = 6,
  FunctionMaxDynamicShared = 8,
  FunctionCarveout = 9,
};

enum JitOption : int {
  JitMaxRegisters = 0,
  JitInfoLog = 3,
  JitInfoLogBytes = 4,
  JitErrorLog = 5,
  JitErrorLogBytes = 6,
  JitOptimizationLevel = 7,
  JitDebug = 11,
  JitVerbose = 12,
  JitLineInfo = 13,
};

constexpr unsigned streamNonBlocking = 1;
constexpr unsigned eventBlockingSync = 1, eventDisableTiming = 2;
constexpr unsigned hostPortable = 1, hostDeviceMap = 2, hostWriteCombined = 4;
constexpr int allocationPinned = 1, locationDevice = 1, accessReadWrite = 3;
constexpr int handleFile = 1, handleFabric = 8;

struct Location {
  int type;
  int id;
};
struct AllocationProperties {
  int type;
  int handleTypes;
  Location location;
  void *win32Metadata;
  struct {
    unsigned char compression, directRdma;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};
struct AccessDescriptor {
  Location location;
  int flags;
};
struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    char bytes[64];
    int programmaticStreamSerialization;
  } value;
};
constexpr int attributeProgrammaticStreamSerialization = 6;
struct LaunchConfig {
  unsigned gridX, gridY, gridZ;
  unsigned blockX, blockY, blockZ;
  unsigned sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};

enum CaptureStatus : int { NotCapturing = 0, Capturing = 1, Invalidated = 2 };
enum CaptureMode : int {
  CaptureGlobal = 0,
  CaptureThreadLocal = 1,
  CaptureRelaxed = 2
};

} // namespace fsdp::emulator::cuda

#endif // FSDP_EMULATOR_DRIVER_CUDA_H
