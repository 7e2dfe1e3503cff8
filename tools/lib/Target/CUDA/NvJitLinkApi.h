//===- NvJitLinkApi.h - The part of nvJitLink that is used ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declarations with the binary interface of nvJitLink.h of CUDA 12 and 13, with
// which they are compared where a toolkit is installed.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_TARGET_CUDA_NVJITLINKAPI_H
#define FSDP_LIB_TARGET_CUDA_NVJITLINKAPI_H

#include <cstddef>
#include <cstdint>

namespace mlir::fsdp::nvjitlink {

using Error = int;
using Handle = struct LinkObject *;

constexpr Error success = 0;
constexpr int inputPtx = 2;

/// X(name, symbol, parameters): a member, the library's symbol.
#define FSDP_NVJITLINK_FUNCTIONS(X)                                            \
  X(create, nvJitLinkCreate,                                                   \
    (Handle * handle, uint32_t optionCount, const char *const *options))       \
  X(destroy, nvJitLinkDestroy, (Handle * handle))                              \
  X(addData, nvJitLinkAddData,                                                 \
    (Handle handle, int type, const void *data, size_t bytes,                  \
     const char *name))                                                        \
  X(complete, nvJitLinkComplete, (Handle handle))                              \
  X(getCubinSize, nvJitLinkGetLinkedCubinSize,                                 \
    (Handle handle, size_t * bytes))                                           \
  X(getCubin, nvJitLinkGetLinkedCubin, (Handle handle, void *cubin))           \
  X(getErrorLogSize, nvJitLinkGetErrorLogSize,                                 \
    (Handle handle, size_t * bytes))                                           \
  X(getErrorLog, nvJitLinkGetErrorLog, (Handle handle, char *log))

struct Api {
#define FSDP_NVJITLINK_MEMBER(name, symbol, parameters)                        \
  Error(*name) parameters = nullptr;
  FSDP_NVJITLINK_FUNCTIONS(FSDP_NVJITLINK_MEMBER)
#undef FSDP_NVJITLINK_MEMBER
};

} // namespace mlir::fsdp::nvjitlink

#endif // FSDP_LIB_TARGET_CUDA_NVJITLINKAPI_H
