//===- DeviceCalls.cpp - Calls about devices and contexts -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "driver/Platform.h"

#include <cstdio>
#include <cstring>
#include <iterator>

using namespace fsdp::emulator;

static Device &findDevice(cuda::DeviceOrdinal ordinal) {
  Platform &platform = Platform::get();
  if (!platform.isInitialized)
    throw Refusal(cuda::NotInitialized, "expected cuInit before, got none");
  if (ordinal < 0 || ordinal >= platform.settings.devices)
    throw Refusal(cuda::InvalidDevice,
                  "expected one of " +
                      std::to_string(platform.settings.devices) +
                      " devices, got " + std::to_string(ordinal));
  return *platform.devices[ordinal];
}

/// A context is its device: there are primary ones alone.
static cuda::Context contextOf(Device *device) {
  return reinterpret_cast<cuda::Context>(device);
}

FSDP_EMULATOR_API cuInit(unsigned flags) {
  return runCall(__func__, [&] {
    Platform &platform = Platform::get();
    if (flags != 0)
      throw Refusal(cuda::InvalidValue,
                    "expected flags 0, got " + std::to_string(flags));
    if (platform.settings.devices == 0)
      return cuda::NoDevice;
    platform.isInitialized = true;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuDriverGetVersion(int *version) {
  return runCall(__func__, [&] {
    expectPointer(version, "version");
    *version = Platform::get().settings.driverVersion;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuDeviceGetCount(int *count) {
  return runCall(__func__, [&] {
    expectPointer(count, "count");
    if (!Platform::get().isInitialized)
      return cuda::NotInitialized;
    *count = Platform::get().settings.devices;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuDeviceGet(cuda::DeviceOrdinal *device, int ordinal) {
  return runCall(__func__, [&] {
    expectPointer(device, "device");
    *device = findDevice(ordinal).ordinal;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuDeviceGetName(char *name, int bytes,
                                  cuda::DeviceOrdinal ordinal) {
  return runCall(__func__, [&] {
    expectPointer(name, "name");
    const Settings &settings = findDevice(ordinal).settings;
    if (bytes <= 0)
      return cuda::InvalidValue;
    std::snprintf(name, static_cast<size_t>(bytes), "Emulated sm_%u%u",
                  settings.capabilityMajor, settings.capabilityMinor);
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuDeviceTotalMem_v2(size_t *bytes,
                                      cuda::DeviceOrdinal ordinal) {
  return runCall(__func__, [&] {
    expectPointer(bytes, "bytes");
    *bytes = findDevice(ordinal).settings.memoryBytes;
    return cuda::Success;
  });
}

static cuda::Result getUuid(const char *call, cuda::Uuid *uuid,
                            cuda::DeviceOrdinal ordinal) {
  return runCall(call, [&] {
    expectPointer(uuid, "uuid");
    Device &device = findDevice(ordinal);
    std::memcpy(uuid->bytes, "fsdp emulator  ", 16);
    uuid->bytes[15] = static_cast<char>(device.settings.cards[device.ordinal]);
    return cuda::Success;
  });
}
FSDP_EMULATOR_API cuDeviceGetUuid(cuda::Uuid *uuid,
                                  cuda::DeviceOrdinal ordinal) {
  return getUuid(__func__, uuid, ordinal);
}
FSDP_EMULATOR_API cuDeviceGetUuid_v2(cuda::Uuid *uuid,
                                     cuda::DeviceOrdinal ordinal) {
  return getUuid(__func__, uuid, ordinal);
}

FSDP_EMULATOR_API cuDeviceGetPCIBusId(char *text, int bytes,
                                      cuda::DeviceOrdinal ordinal) {
  return runCall(__func__, [&] {
    expectPointer(text, "text");
    if (bytes < 13)
      return cuda::InvalidValue;
    std::snprintf(text, static_cast<size_t>(bytes), "0000:%02X:00.0",
                  findDevice(ordinal).ordinal + 1);
    return cuda::Success;
  });
}

namespace {

struct AttributeRow {
  int attribute;
  int value;
};

/// What an H100 SXM answers, where it does not depend on settings.
constexpr AttributeRow attributes[] = {
    {cuda::MaxThreadsPerBlock, 1024},
    {cuda::MaxBlockX, 1024},
    {cuda::MaxBlockY, 1024},
    {cuda::MaxBlockZ, 64},
    {cuda::MaxGridX, 0x7fffffff},
    {cuda::MaxGridY, 65535},
    {cuda::MaxGridZ, 65535},
    {cuda::MaxSharedPerBlock, 49152},
    {cuda::TotalConstantMemory, 65536},
    {cuda::WarpSize, 32},
    {cuda::MaxRegistersPerBlock, 65536},
    {cuda::ClockRate, 1980000},
    {cuda::MultiprocessorCount, 132},
    {cuda::Integrated, 0},
    {cuda::CanMapHostMemory, 1},
    {cuda::ComputeMode, 0},
    {cuda::ConcurrentKernels, 1},
    {cuda::EccEnabled, 1},
    {cuda::PciDeviceId, 0},
    {cuda::MemoryClockRate, 2619000},
    {cuda::MemoryBusWidth, 5120},
    {cuda::L2CacheSize, 52428800},
    {cuda::MaxThreadsPerMultiprocessor, 2048},
    {cuda::AsyncEngineCount, 3},
    {cuda::UnifiedAddressing, 1},
    {cuda::PciDomainId, 0},
    {cuda::StreamPrioritiesSupported, 1},
    {cuda::MaxSharedPerMultiprocessor, 233472},
    {cuda::MaxRegistersPerMultiprocessor, 65536},
    {cuda::ManagedMemory, 0},
    {cuda::ConcurrentManagedAccess, 0},
    {cuda::CanUseHostPointer, 1},
    {cuda::CooperativeLaunch, 0},
    {cuda::MaxSharedPerBlockOptIn, 232448},
    {cuda::VirtualMemoryManagement, 1},
    {cuda::MaxBlocksPerMultiprocessor, 32},
    {cuda::ReservedSharedPerBlock, 1024},
    {cuda::MemoryPools, 0},
};

} // namespace

FSDP_EMULATOR_API cuDeviceGetAttribute(int *value, int attribute,
                                       cuda::DeviceOrdinal ordinal) {
  return runCall(__func__, [&] {
    expectPointer(value, "value");
    const Device &device = findDevice(ordinal);
    if (attribute == cuda::ComputeCapabilityMajor)
      *value = static_cast<int>(device.settings.capabilityMajor);
    else if (attribute == cuda::ComputeCapabilityMinor)
      *value = static_cast<int>(device.settings.capabilityMinor);
    else if (attribute == cuda::PciBusId)
      *value = ordinal + 1;
    else if (attribute == cuda::HandleTypePosix)
      *value = device.settings.sharing.hasFiles;
    else if (attribute == cuda::HandleTypeFabric)
      *value = device.settings.sharing.hasFabric;
    else if (attribute == cuda::DirectRdmaWithVirtualMemory)
      *value = device.settings.sharing.hasRdma;
    else {
      for (const AttributeRow &row : attributes)
        if (row.attribute == attribute) {
          *value = row.value;
          return cuda::Success;
        }
      failUnmodeled("cuDeviceGetAttribute",
                    "attribute " + std::to_string(attribute));
    }
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuDeviceCanAccessPeer(int *canAccess,
                                        cuda::DeviceOrdinal first,
                                        cuda::DeviceOrdinal second) {
  return runCall(__func__, [&] {
    expectPointer(canAccess, "canAccess");
    const Device &device = findDevice(first);
    findDevice(second);
    *canAccess = first != second && device.settings.arePeers;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuDevicePrimaryCtxRetain(cuda::Context *context,
                                           cuda::DeviceOrdinal ordinal) {
  return runCall(__func__, [&] {
    expectPointer(context, "context");
    *context = contextOf(&findDevice(ordinal));
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuDevicePrimaryCtxRelease_v2(cuda::DeviceOrdinal ordinal) {
  return runCall(__func__, [&] {
    findDevice(ordinal);
    return cuda::Success;
  });
}
FSDP_EMULATOR_API cuDevicePrimaryCtxRelease(cuda::DeviceOrdinal ordinal) {
  return cuDevicePrimaryCtxRelease_v2(ordinal);
}

/// Handles and memory of the device are of no use behind it; its error is gone.
FSDP_EMULATOR_API cuDevicePrimaryCtxReset_v2(cuda::DeviceOrdinal ordinal) {
  return runCall(__func__, [&] {
    Device &device = findDevice(ordinal);
    std::lock_guard<std::mutex> lock(device.mutex);
    dropCaptures(device);
    device.reset();
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuDevicePrimaryCtxGetState(cuda::DeviceOrdinal ordinal,
                                             unsigned *flags, int *isActive) {
  return runCall(__func__, [&] {
    expectPointer(flags, "flags");
    expectPointer(isActive, "isActive");
    findDevice(ordinal);
    *flags = 0;
    *isActive = 1;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuCtxSetCurrent(cuda::Context context) {
  return runCall(__func__, [&] {
    auto *device = reinterpret_cast<Device *>(context);
    for (const auto &known : Platform::get().devices)
      if (known.get() == device || !device) {
        setCurrentDevice(device);
        return cuda::Success;
      }
    throw Refusal(cuda::InvalidContext,
                  "expected a context, got " +
                      hexOf(reinterpret_cast<uint64_t>(context)));
  });
}

FSDP_EMULATOR_API cuCtxGetCurrent(cuda::Context *context) {
  return runCall(__func__, [&] {
    expectPointer(context, "context");
    *context = contextOf(currentDevice());
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuCtxGetDevice(cuda::DeviceOrdinal *ordinal) {
  return runCall(__func__, [&] {
    expectPointer(ordinal, "device");
    if (!currentDevice())
      throw Refusal(cuda::InvalidContext, "expected a current context");
    *ordinal = currentDevice()->ordinal;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  return runOnDevice(__func__, [&](Device &device) {
    if (least)
      *least = 0;
    if (greatest)
      *greatest = -device.settings.priorities;
    return cuda::Success;
  });
}

FSDP_EMULATOR_API cuCtxSynchronize() {
  return runOnDevice(__func__, [&](Device &device) {
    expectNoCapture(device);
    expectSafe();
    device.synchronizeAll();
    return cuda::Success;
  });
}

namespace {

struct ResultRow {
  int code;
  const char *name;
  const char *text;
};

constexpr ResultRow results[] = {
    {cuda::Success, "CUDA_SUCCESS", "no error"},
    {cuda::InvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {cuda::OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {cuda::NotInitialized, "CUDA_ERROR_NOT_INITIALIZED",
     "initialization error"},
    {cuda::NoDevice, "CUDA_ERROR_NO_DEVICE",
     "no CUDA-capable device is detected"},
    {cuda::InvalidDevice, "CUDA_ERROR_INVALID_DEVICE",
     "invalid device ordinal"},
    {cuda::InvalidContext, "CUDA_ERROR_INVALID_CONTEXT",
     "invalid device context"},
    {cuda::NoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {cuda::InvalidPtx, "CUDA_ERROR_INVALID_PTX",
     "a PTX JIT compilation failed"},
    {cuda::UnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {cuda::InvalidHandle, "CUDA_ERROR_INVALID_HANDLE",
     "invalid resource handle"},
    {cuda::IllegalState, "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {cuda::NotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {cuda::NotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {cuda::IllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {cuda::LaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {cuda::LaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT",
     "the launch timed out and was terminated"},
    {cuda::HostMemoryAlreadyRegistered,
     "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {cuda::HostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {cuda::MisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS",
     "misaligned address"},
    {cuda::InvalidAddressSpace, "CUDA_ERROR_INVALID_ADDRESS_SPACE",
     "operation not supported on global/shared address space"},
    {cuda::LaunchFailed, "CUDA_ERROR_LAUNCH_FAILED",
     "unspecified launch failure"},
    {cuda::NotPermitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {cuda::NotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {cuda::StreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {cuda::StreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {cuda::StreamCaptureMerge, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {cuda::StreamCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {cuda::StreamCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {cuda::StreamCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {cuda::StreamCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking "
     "stream"},
    {cuda::CapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing "
     "stream"},
    {cuda::StreamCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another "
     "thread"},
};

const ResultRow *findResult(int code) {
  for (const ResultRow &row : results)
    if (row.code == code)
      return &row;
  return nullptr;
}

} // namespace

// These work without cuInit and behind errors.

FSDP_EMULATOR_API cuGetErrorName(int code, const char **text) {
  const ResultRow *row = findResult(code);
  if (text)
    *text = row ? row->name : nullptr;
  return row && text ? cuda::Success : cuda::InvalidValue;
}

FSDP_EMULATOR_API cuGetErrorString(int code, const char **text) {
  const ResultRow *row = findResult(code);
  if (text)
    *text = row ? row->text : nullptr;
  return row && text ? cuda::Success : cuda::InvalidValue;
}
