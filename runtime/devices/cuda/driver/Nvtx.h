//===- Nvtx.h - Ranges that profilers show ----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NVTX 3 is a protocol and no library: a profiler names a library in
// NVTX_INJECTION64_PATH, which the program opens and to which it offers tables
// of pointers to functions. The profiler's library sets those of the functions
// that it wants to be called. HeadersTest.cpp compares what is declared here
// with NVIDIA's headers.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_NVTX_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_NVTX_H

#include "core/Status.h"

#include <cstddef>
#include <cstdint>

namespace fsdp::rt {

namespace nvtx {

constexpr uint32_t version = 3;
constexpr int32_t asciiMessage = 1;

/// nvtxEventAttributes_t.
struct EventAttributes {
  uint16_t version, size;
  uint32_t category;
  int32_t colorType;
  uint32_t color;
  int32_t payloadType, reserved;
  uint64_t payload;
  int32_t messageType;
  const char *message;
};

using Domain = void *;
using CreateDomain = Domain (*)(const char *name);
using PushRange = int (*)(Domain domain, const EventAttributes *attributes);
using PopRange = int (*)(Domain domain);

/// Modules (NvtxCallbackModule) from 1 on, and how many functions each has,
/// counted from 1.
constexpr unsigned numModules = 7;
constexpr unsigned core2 = 5;
constexpr unsigned numFunctions[numModules] = {0, 16, 9, 15, 7, 16, 7};
/// Functions of module core2 (NvtxCallbackIdCore2).
constexpr unsigned domainRangePush = 4, domainRangePop = 5, domainCreate = 12;

using Function = void (*)();
/// Where a module's functions are set, by their numbers; null at 0 and after
/// the last.
using FunctionTable = Function **;

/// NvtxExportTableID, and what the tables hold.
constexpr uint32_t callbacksTable = 1, versionTable = 3;
struct Callbacks {
  size_t size;
  /// Returns 1, or 0 where there is no such module.
  int (*getModuleFunctionTable)(int module, FunctionTable *table,
                                unsigned *count);
};
struct VersionInfo {
  size_t size;
  uint32_t version, reserved;
  void (*setInjectionVersion)(uint32_t version);
};

using GetExportTable = const void *(*)(uint32_t table);
/// InitializeInjectionNvtx2 of the profiler's library: 0 is failure.
using Initialize = int (*)(GetExportTable getExportTable);

} // namespace nvtx

/// The process's ranges, in the domain "fsdp". Where no profiler is attached
/// they cost a comparison. Ranges of a thread are a stack.
class Nvtx {
public:
  static const Nvtx &ofProcess();

  bool isAttached() const { return push_ != nullptr; }
  /// Why the library of NVTX_INJECTION64_PATH is not attached.
  const Status &failure() const { return failure_; }

  void push(const char *name) const;
  void pop() const;

private:
  Nvtx();
  Status attach(const char *path);

  nvtx::PushRange push_ = nullptr;
  nvtx::PopRange pop_ = nullptr;
  nvtx::Domain domain_ = nullptr;
  Status failure_;
};

/// A range from here to the end of its life, on one thread.
class NvtxRange {
public:
  explicit NvtxRange(const char *name) : nvtx_(Nvtx::ofProcess()) {
    if (nvtx_.isAttached())
      nvtx_.push(name);
  }
  ~NvtxRange() {
    if (nvtx_.isAttached())
      nvtx_.pop();
  }
  NvtxRange(const NvtxRange &) = delete;
  NvtxRange &operator=(const NvtxRange &) = delete;

private:
  const Nvtx &nvtx_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_NVTX_H
