//===- HeaderTest.cpp - The emulator's numbers are those of cuda.h --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Compiled where there is a CUDA toolkit.
//
//===----------------------------------------------------------------------===//

#include "driver/Cuda.h"

#include <cuda.h>

using namespace fsdp::emulator;

#define SAME(ours, theirs)                                                     \
  static_assert(static_cast<long>(cuda::ours) == static_cast<long>(theirs))

SAME(OutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME(NotInitialized, CUDA_ERROR_NOT_INITIALIZED);
SAME(NoDevice, CUDA_ERROR_NO_DEVICE);
SAME(InvalidDevice, CUDA_ERROR_INVALID_DEVICE);
SAME(InvalidContext, CUDA_ERROR_INVALID_CONTEXT);
SAME(NoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(InvalidPtx, CUDA_ERROR_INVALID_PTX);
SAME(UnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(InvalidHandle, CUDA_ERROR_INVALID_HANDLE);
SAME(IllegalState, CUDA_ERROR_ILLEGAL_STATE);
SAME(NotFound, CUDA_ERROR_NOT_FOUND);
SAME(NotReady, CUDA_ERROR_NOT_READY);
SAME(IllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(LaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME(LaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(HostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SAME(HostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
SAME(MisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(InvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME(LaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
SAME(NotPermitted, CUDA_ERROR_NOT_PERMITTED);
SAME(NotSupported, CUDA_ERROR_NOT_SUPPORTED);
SAME(StreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(StreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(StreamCaptureMerge, CUDA_ERROR_STREAM_CAPTURE_MERGE);
SAME(StreamCaptureUnmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
SAME(StreamCaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
SAME(StreamCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
SAME(StreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(CapturedEvent, CUDA_ERROR_CAPTURED_EVENT);
SAME(StreamCaptureWrongThread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);

SAME(MaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(MaxGridZ, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
SAME(MaxSharedPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
SAME(WarpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
SAME(MultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(ConcurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
SAME(L2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(AsyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
SAME(UnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME(ComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(ComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(MaxSharedPerBlockOptIn,
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(VirtualMemoryManagement,
     CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(HandleTypePosix,
     CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME(ReservedSharedPerBlock,
     CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
SAME(MemoryPools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);

SAME(FunctionMaxThreads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(FunctionBinaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
SAME(FunctionMaxDynamicShared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(FunctionCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
SAME(JitErrorLog, CU_JIT_ERROR_LOG_BUFFER);
SAME(JitErrorLogBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(JitOptimizationLevel, CU_JIT_OPTIMIZATION_LEVEL);
SAME(JitLineInfo, CU_JIT_GENERATE_LINE_INFO);

SAME(streamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME(eventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME(hostPortable, CU_MEMHOSTALLOC_PORTABLE);
SAME(hostWriteCombined, CU_MEMHOSTALLOC_WRITECOMBINED);
SAME(allocationPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(locationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(accessReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(Capturing, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(Invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(CaptureGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(CaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(CaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(attributeProgrammaticStreamSerialization,
     CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);

#define SAME_PLACE(ours, field, theirs, other)                                 \
  static_assert(offsetof(cuda::ours, field) == offsetof(theirs, other))

static_assert(sizeof(cuda::AllocationProperties) ==
              sizeof(CUmemAllocationProp));
SAME_PLACE(AllocationProperties, handleTypes, CUmemAllocationProp,
           requestedHandleTypes);
SAME_PLACE(AllocationProperties, location, CUmemAllocationProp, location);
SAME_PLACE(AllocationProperties, flags, CUmemAllocationProp, allocFlags);
static_assert(sizeof(cuda::AccessDescriptor) == sizeof(CUmemAccessDesc));
SAME_PLACE(AccessDescriptor, flags, CUmemAccessDesc, flags);
static_assert(sizeof(cuda::LaunchConfig) == sizeof(CUlaunchConfig));
SAME_PLACE(LaunchConfig, sharedBytes, CUlaunchConfig, sharedMemBytes);
SAME_PLACE(LaunchConfig, stream, CUlaunchConfig, hStream);
SAME_PLACE(LaunchConfig, attributeCount, CUlaunchConfig, numAttrs);
static_assert(sizeof(cuda::LaunchAttribute) == sizeof(CUlaunchAttribute));
SAME_PLACE(LaunchAttribute, value, CUlaunchAttribute, value);
static_assert(sizeof(cuda::Uuid) == sizeof(CUuuid));
