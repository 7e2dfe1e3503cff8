//===- CublasLtApi.h - cuBLASLt, opened at run time -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of cuBLASLt's binary interface that products use, as CUDA 12 and 13
// have it. test/cuda/HeadersTest.cpp compares it with the toolkit's cublasLt.h.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_BLAS_CUBLASLTAPI_H
#define FSDP_RT_DEVICES_CUDA_BLAS_CUBLASLTAPI_H

#include "core/Status.h"
#include "devices/cuda/driver/DriverApi.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::rt {

/// Types and numbers of cuBLASLt.
namespace lt {

/// cublasStatus_t.
using Error = int;
using Handle = struct HandleObject *;
using Operation = struct OperationObject *;
using Matrix = struct MatrixObject *;
using Preference = struct PreferenceObject *;

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspaceBytes;
  Error state;
  float waves;
  int reserved[4];
};

constexpr Error success = 0;
/// cudaDataType_t.
constexpr int real32 = 0, real64 = 1, real16 = 2, brain16 = 14;
/// cublasComputeType_t.
constexpr int compute32 = 68, compute64 = 70, computeTF32 = 77;
constexpr int plain = 0, transposed = 1;
constexpr int operationTransA = 3, operationTransB = 4, operationEpilogue = 7,
              operationBias = 8, operationMultiprocessors = 15,
              operationBiasType = 26;
constexpr uint32_t epilogueBias = 4;
constexpr int matrixBatchCount = 5, matrixBatchStride = 6, matrixBatchMode = 8;
/// Matrices of a batch by arrays of addresses (cuBLASLt 13).
constexpr uint32_t batchOfPointers = 1;
constexpr int preferWorkspaceBytes = 1, preferReductions = 3,
              preferAlignmentA = 5, preferAlignmentB = 6, preferAlignmentC = 7,
              preferAlignmentD = 8;
/// Partial sums of a product are added in its compute type.
constexpr uint32_t reduceInComputeType = 2;

} // namespace lt

#define FSDP_RT_CUBLASLT_FUNCTIONS(X)                                          \
  X(create, cublasLtCreate, lt::Error, (lt::Handle * handle))                  \
  X(destroy, cublasLtDestroy, lt::Error, (lt::Handle handle))                  \
  X(getVersion, cublasLtGetVersion, size_t, ())                                \
  X(getStatusName, cublasLtGetStatusName, const char *, (lt::Error error))     \
  X(getStatusString, cublasLtGetStatusString, const char *, (lt::Error error)) \
  X(operationCreate, cublasLtMatmulDescCreate, lt::Error,                      \
    (lt::Operation * operation, int compute, int scale))                       \
  X(operationDestroy, cublasLtMatmulDescDestroy, lt::Error,                    \
    (lt::Operation operation))                                                 \
  X(operationSet, cublasLtMatmulDescSetAttribute, lt::Error,                   \
    (lt::Operation operation, int attribute, const void *value, size_t bytes)) \
  X(matrixCreate, cublasLtMatrixLayoutCreate, lt::Error,                       \
    (lt::Matrix * matrix, int type, uint64_t rows, uint64_t columns,           \
     int64_t ld))                                                              \
  X(matrixDestroy, cublasLtMatrixLayoutDestroy, lt::Error,                     \
    (lt::Matrix matrix))                                                       \
  X(matrixSet, cublasLtMatrixLayoutSetAttribute, lt::Error,                    \
    (lt::Matrix matrix, int attribute, const void *value, size_t bytes))       \
  X(preferenceCreate, cublasLtMatmulPreferenceCreate, lt::Error,               \
    (lt::Preference * preference))                                             \
  X(preferenceDestroy, cublasLtMatmulPreferenceDestroy, lt::Error,             \
    (lt::Preference preference))                                               \
  X(preferenceSet, cublasLtMatmulPreferenceSetAttribute, lt::Error,            \
    (lt::Preference preference, int attribute, const void *value,              \
     size_t bytes))                                                            \
  X(getHeuristic, cublasLtMatmulAlgoGetHeuristic, lt::Error,                   \
    (lt::Handle handle, lt::Operation operation, lt::Matrix a, lt::Matrix b,   \
     lt::Matrix c, lt::Matrix d, lt::Preference preference, int wanted,        \
     lt::Heuristic *found, int *foundCount))                                   \
  X(algorithmCheck, cublasLtMatmulAlgoCheck, lt::Error,                        \
    (lt::Handle handle, lt::Operation operation, lt::Matrix a, lt::Matrix b,   \
     lt::Matrix c, lt::Matrix d, const lt::Algorithm *algorithm,               \
     lt::Heuristic *result))                                                   \
  X(matmul, cublasLtMatmul, lt::Error,                                         \
    (lt::Handle handle, lt::Operation operation, const void *alpha,            \
     const void *a, lt::Matrix aMatrix, const void *b, lt::Matrix bMatrix,     \
     const void *beta, const void *c, lt::Matrix cMatrix, void *d,             \
     lt::Matrix dMatrix, const lt::Algorithm *algorithm, void *workspace,      \
     size_t workspaceBytes, cu::Stream stream))

struct CublasLtApi {
  /// Opens libcublasLt.so.13, or .12, in `directories`, or the system's. Fails
  /// where it or one of the functions is missing.
  static Result<CublasLtApi> open(const std::vector<std::string> &directories);

  /// The process's, in cudaLibraryDirectories(), then where the wheels of a
  /// Python environment ($VIRTUAL_ENV) have it.
  static Result<const CublasLtApi *> ofProcess();

#define FSDP_RT_CUBLASLT_MEMBER(name, symbol, result, parameters)              \
  result(*name) parameters = nullptr;
  FSDP_RT_CUBLASLT_FUNCTIONS(FSDP_RT_CUBLASLT_MEMBER)
#undef FSDP_RT_CUBLASLT_MEMBER

  /// Success, or "cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED (...)".
  Status check(lt::Error error, const char *call) const;

  /// "13.1.0".
  std::string version() const;
  /// "cuBLASLt 13.1.0".
  std::string describe() const { return "cuBLASLt " + version(); }
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_BLAS_CUBLASLTAPI_H
