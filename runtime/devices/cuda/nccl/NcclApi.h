//===- NcclApi.h - NCCL, opened at run time ---------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of NCCL's binary interface that transfers use, which is the same
// since version 2.19.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_NCCL_NCCLAPI_H
#define FSDP_RT_DEVICES_CUDA_NCCL_NCCLAPI_H

#include "core/Dtype.h"
#include "core/Status.h"
#include "devices/cuda/driver/DriverApi.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt {

/// Types and numbers of NCCL.
namespace nccl {

/// ncclResult_t.
using Error = int;
using Comm = struct CommObject *;

struct UniqueId {
  char bytes[128];
};

/// ncclConfig_t, as version 2.19 has it: a library takes as much as `bytes`
/// says, and its own defaults for what an older `version` does not have.
struct Config {
  size_t bytes = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21900;
  int blocking = 0;
  int cgaClusterSize = undefined, minCtas = undefined, maxCtas = undefined;
  const char *netName = nullptr;
  int splitShare = undefined;

  static constexpr int undefined = INT32_MIN;
};

constexpr Error success = 0, inProgress = 7;
/// ncclDataType_t.
constexpr int int8 = 0, uint8 = 1, int32 = 2, int64 = 4, float16 = 6,
              float32 = 7, float64 = 8, bfloat16 = 9;
constexpr int sum = 0;
/// ncclScalarResidence_t: the scalar is read by the call.
constexpr int scalarOfHost = 1;

/// Bytes of an element of an ncclDataType_t above.
int64_t sizeOf(int type);

/// None where it adds up no such elements.
std::optional<int> typeOf(Dtype dtype);

} // namespace nccl

#define FSDP_RT_NCCL_FUNCTIONS(X)                                              \
  X(getVersion, ncclGetVersion, nccl::Error, (int *version))                   \
  X(getErrorString, ncclGetErrorString, const char *, (nccl::Error error))     \
  X(getLastError, ncclGetLastError, const char *, (nccl::Comm comm))           \
  X(getUniqueId, ncclGetUniqueId, nccl::Error, (nccl::UniqueId * id))          \
  X(commInit, ncclCommInitRankConfig, nccl::Error,                             \
    (nccl::Comm * comm, int ranks, nccl::UniqueId id, int rank,                \
     nccl::Config *config))                                                    \
  X(commGetAsyncError, ncclCommGetAsyncError, nccl::Error,                     \
    (nccl::Comm comm, nccl::Error * error))                                    \
  X(commFinalize, ncclCommFinalize, nccl::Error, (nccl::Comm comm))            \
  X(commDestroy, ncclCommDestroy, nccl::Error, (nccl::Comm comm))              \
  X(commAbort, ncclCommAbort, nccl::Error, (nccl::Comm comm))                  \
  X(groupStart, ncclGroupStart, nccl::Error, ())                               \
  X(groupEnd, ncclGroupEnd, nccl::Error, ())                                   \
  X(allGather, ncclAllGather, nccl::Error,                                     \
    (const void *src, void *dst, size_t count, int type, nccl::Comm comm,      \
     cu::Stream stream))                                                       \
  X(reduceScatter, ncclReduceScatter, nccl::Error,                             \
    (const void *src, void *dst, size_t count, int type, int reduction,        \
     nccl::Comm comm, cu::Stream stream))                                      \
  X(allReduce, ncclAllReduce, nccl::Error,                                     \
    (const void *src, void *dst, size_t count, int type, int reduction,        \
     nccl::Comm comm, cu::Stream stream))                                      \
  X(createMean, ncclRedOpCreatePreMulSum, nccl::Error,                         \
    (int *operation, void *scalar, int type, int residence, nccl::Comm comm))  \
  X(send, ncclSend, nccl::Error,                                               \
    (const void *src, size_t count, int type, int peer, nccl::Comm comm,       \
     cu::Stream stream))                                                       \
  X(receive, ncclRecv, nccl::Error,                                            \
    (void *dst, size_t count, int type, int peer, nccl::Comm comm,             \
     cu::Stream stream))

struct NcclApi {
  /// Versions below are refused: 10000 * major + 100 * minor + patch.
  static constexpr int leastVersion = 21900;
  /// From here on the library itself can keep the order in which work of
  /// several communicators is issued.
  static constexpr int leastOrderingVersion = 22600;

  /// From here on ranks may share a GPU, if a variable of its environment says
  /// so.
  static constexpr int leastSharingVersion = 23000;

  /// Opens libnccl.so.2 in `directories`, or the system's. Fails where it or
  /// one of the functions is missing, or old.
  static Result<NcclApi> open(const std::vector<std::string> &directories);

  /// The process's, in cudaWheelDirectories().
  static Result<const NcclApi *> ofProcess();

#define FSDP_RT_NCCL_MEMBER(name, symbol, result, parameters)                  \
  result(*name) parameters = nullptr;
  FSDP_RT_NCCL_FUNCTIONS(FSDP_RT_NCCL_MEMBER)
#undef FSDP_RT_NCCL_MEMBER

  int version = 0;

  /// Success, also of what is in progress; or "ncclGroupEnd: unhandled cuda
  /// error (last error: ..)".
  Status check(nccl::Error error, const char *call,
               nccl::Comm comm = nullptr) const;

  /// "NCCL 2.28.9".
  std::string describe() const;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_NCCL_NCCLAPI_H
