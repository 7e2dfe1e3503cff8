//===- HeadersTest.cpp - Own declarations and the toolkit's ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The declarations in runtime/devices/cuda have the binary interface of those
// in cuda.h, cublasLt.h and nccl.h, where there is one. Most of this is checked
// when it is compiled.
//
//===----------------------------------------------------------------------===//

#include "Signatures.h"

#include "devices/cuda/blas/CublasLtApi.h"
#include "devices/cuda/driver/DriverApi.h"
#include "devices/cuda/nccl/NcclApi.h"

#include <cublasLt.h>
#include <cuda.h>
#include <gtest/gtest.h>
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

#include <cstddef>
#include <string>
#include <type_traits>

#ifdef NCCL_VERSION_CODE
namespace fsdp::test {
/// An id is passed as 128 bytes.
template <>
struct Passed<rt::nccl::UniqueId> {
  using Type = char[sizeof(rt::nccl::UniqueId)];
};
template <>
struct Passed<ncclUniqueId> {
  using Type = char[sizeof(ncclUniqueId)];
};
} // namespace fsdp::test
#endif

namespace fsdp::rt {
namespace {

using test::isSame;

#define CHECK(name, symbol, parameters)                                        \
  static_assert(isSame<decltype(DriverApi::name), decltype(&::symbol)>,        \
                #symbol);
FSDP_RT_CUDA_FUNCTIONS(CHECK)
#undef CHECK
#define CHECK(name, symbol, result, parameters)                                \
  static_assert(isSame<decltype(CublasLtApi::name), decltype(&::symbol)>,      \
                #symbol);
FSDP_RT_CUBLASLT_FUNCTIONS(CHECK)
#undef CHECK

#ifdef NCCL_VERSION_CODE
#define CHECK(name, symbol, result, parameters)                                \
  static_assert(isSame<decltype(NcclApi::name), decltype(&::symbol)>, #symbol);
FSDP_RT_NCCL_FUNCTIONS(CHECK)
#undef CHECK
static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(alignof(nccl::UniqueId) == alignof(ncclUniqueId));
static_assert(nccl::success == ncclSuccess);
static_assert(nccl::inProgress == ncclInProgress);
static_assert(nccl::int8 == ncclInt8);
static_assert(nccl::uint8 == ncclUint8);
static_assert(nccl::int32 == ncclInt32);
static_assert(nccl::int64 == ncclInt64);
static_assert(nccl::float16 == ncclFloat16);
static_assert(nccl::float32 == ncclFloat32);
static_assert(nccl::float64 == ncclFloat64);
static_assert(nccl::bfloat16 == ncclBfloat16);
static_assert(nccl::sum == ncclSum);
static_assert(nccl::scalarOfHost == ncclScalarHostImmediate);
static_assert(nccl::Config::undefined == NCCL_CONFIG_UNDEF_INT);
static_assert(sizeof(nccl::Config) <= sizeof(ncclConfig_t));
#define CHECK(mine, theirs)                                                    \
  static_assert(offsetof(nccl::Config, mine) == offsetof(ncclConfig_t, theirs))
CHECK(bytes, size);
CHECK(magic, magic);
CHECK(version, version);
CHECK(blocking, blocking);
CHECK(cgaClusterSize, cgaClusterSize);
CHECK(minCtas, minCTAs);
CHECK(maxCtas, maxCTAs);
CHECK(netName, netName);
CHECK(splitShare, splitShare);
#undef CHECK
#endif

static_assert(cu::success == CUDA_SUCCESS);
static_assert(cu::notReady == CUDA_ERROR_NOT_READY);
static_assert(cu::attributeMaxGridX == CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
static_assert(cu::attributeMultiprocessors ==
              CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(cu::attributeMajor ==
              CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(cu::attributeMinor ==
              CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(cu::attributeMaxSharedOptIn ==
              CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(cu::attributeVirtualMemory ==
              CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(cu::functionMaxThreads ==
              CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
static_assert(cu::functionSharedBytes == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
static_assert(cu::functionMaxDynamicShared ==
              CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(cu::streamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(cu::eventDefault == CU_EVENT_DEFAULT);
static_assert(cu::eventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(cu::hostPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(cu::captureRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(cu::graphNodePriorities ==
              CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
static_assert(cu::attributeFileHandles ==
              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
static_assert(cu::attributeDirectRdma ==
              CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
static_assert(cu::handleFile == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
#if CUDA_VERSION >= 12030
static_assert(cu::attributeFabricHandles ==
              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
static_assert(cu::handleFabric == CU_MEM_HANDLE_TYPE_FABRIC);
#endif
static_assert(cu::launchProgrammaticStreamSerialization ==
              CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(cu::jitErrorLog == CU_JIT_ERROR_LOG_BUFFER);
static_assert(cu::jitErrorLogBytes == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
static_assert(cu::allocationPinned == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(cu::locationDevice == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(cu::accessReadWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(cu::granularityMinimum == CU_MEM_ALLOC_GRANULARITY_MINIMUM);

static_assert(sizeof(cu::AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(cu::AllocationProperties, location) ==
              offsetof(CUmemAllocationProp, location));
static_assert(offsetof(cu::AllocationProperties, flags) ==
              offsetof(CUmemAllocationProp, allocFlags));
static_assert(sizeof(cu::LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(cu::LaunchAttribute, value) ==
              offsetof(CUlaunchAttribute, value));
static_assert(sizeof(cu::LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(cu::LaunchConfig, sharedBytes) ==
              offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(cu::LaunchConfig, stream) ==
              offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(cu::LaunchConfig, attributes) ==
              offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(cu::LaunchConfig, attributeCount) ==
              offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(cu::Access) == sizeof(CUmemAccessDesc));
static_assert(offsetof(cu::Access, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(cu::Location) == sizeof(CUmemLocation));

static_assert(lt::success == CUBLAS_STATUS_SUCCESS);
static_assert(lt::real32 == CUDA_R_32F && lt::real64 == CUDA_R_64F &&
              lt::real16 == CUDA_R_16F && lt::brain16 == CUDA_R_16BF);
static_assert(lt::compute32 == CUBLAS_COMPUTE_32F &&
              lt::compute64 == CUBLAS_COMPUTE_64F);
static_assert(lt::plain == CUBLAS_OP_N && lt::transposed == CUBLAS_OP_T);
static_assert(lt::operationTransA == CUBLASLT_MATMUL_DESC_TRANSA &&
              lt::operationTransB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(lt::operationEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE &&
              lt::operationBias == CUBLASLT_MATMUL_DESC_BIAS_POINTER &&
              lt::operationBiasType == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE &&
              lt::operationMultiprocessors ==
                  CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET &&
              lt::epilogueBias == CUBLASLT_EPILOGUE_BIAS);
static_assert(lt::matrixBatchCount == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(lt::matrixBatchStride ==
              CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
#if CUBLAS_VER_MAJOR >= 13
static_assert(lt::matrixBatchMode == CUBLASLT_MATRIX_LAYOUT_BATCH_MODE &&
              lt::batchOfPointers == CUBLASLT_BATCH_MODE_POINTER_ARRAY);
#endif
static_assert(lt::preferWorkspaceBytes ==
              CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(lt::preferReductions ==
              CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(
    lt::preferAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
    lt::preferAlignmentB == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES &&
    lt::preferAlignmentC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES &&
    lt::preferAlignmentD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(lt::reduceInComputeType ==
              CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
static_assert(sizeof(lt::Heuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(lt::Heuristic, workspaceBytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(lt::Heuristic, state) ==
              offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(sizeof(lt::Algorithm) == sizeof(cublasLtMatmulAlgo_t));

/// The symbol of a function: cuda.h redirects names to newer versions of them.
#define TEXT(name) #name
#define NAME_OF(symbol) TEXT(symbol)

TEST(Headers, SymbolsAreTheNewestButWhereTheyAreTooNew) {
  // The driver of CUDA 12.0 has no cuEventElapsedTime_v2, which differs in what
  // it says of events that are not complete.
  EXPECT_STREQ(NAME_OF(cuEventElapsedTime), CUDA_VERSION >= 13000
                                                ? "cuEventElapsedTime_v2"
                                                : "cuEventElapsedTime");
#define CHECK(name, symbol, parameters)                                        \
  if (std::string(#symbol) != "cuEventElapsedTime")                            \
    EXPECT_STREQ(#symbol, NAME_OF(symbol));
  FSDP_RT_CUDA_FUNCTIONS(CHECK)
#undef CHECK
}

/// Descriptors need no device: the library knows the attributes and agrees to
/// the sizes of their values.
TEST(CublasLt, TakesTheDescriptors) {
  Result<CublasLtApi> opened = CublasLtApi::open({});
  if (!opened.isOk())
    GTEST_SKIP() << opened.status().message();
  const CublasLtApi &api = *opened;
  lt::Operation operation = nullptr;
  ASSERT_EQ(api.operationCreate(&operation, lt::compute32, lt::real32),
            lt::success);
  int transposed = lt::transposed;
  for (int attribute : {lt::operationTransA, lt::operationTransB})
    EXPECT_EQ(
        api.operationSet(operation, attribute, &transposed, sizeof(transposed)),
        lt::success);
  uint32_t epilogue = lt::epilogueBias;
  EXPECT_EQ(api.operationSet(operation, lt::operationEpilogue, &epilogue,
                             sizeof(epilogue)),
            lt::success);
  const void *bias = &epilogue;
  EXPECT_EQ(api.operationSet(operation, lt::operationBias, &bias, sizeof(bias)),
            lt::success);
  int32_t type = lt::brain16;
  EXPECT_EQ(
      api.operationSet(operation, lt::operationBiasType, &type, sizeof(type)),
      lt::success);
  int32_t multiprocessors = 100;
  EXPECT_EQ(api.operationSet(operation, lt::operationMultiprocessors,
                             &multiprocessors, sizeof(multiprocessors)),
            lt::success);
  lt::Matrix matrix = nullptr;
  ASSERT_EQ(api.matrixCreate(&matrix, lt::brain16, 3, 4, 5), lt::success);
  int32_t count = 2;
  int64_t stride = 0;
  EXPECT_EQ(api.matrixSet(matrix, lt::matrixBatchCount, &count, sizeof(count)),
            lt::success);
  EXPECT_EQ(
      api.matrixSet(matrix, lt::matrixBatchStride, &stride, sizeof(stride)),
      lt::success);
  lt::Preference preference = nullptr;
  ASSERT_EQ(api.preferenceCreate(&preference), lt::success);
  uint64_t workspace = 0;
  EXPECT_EQ(api.preferenceSet(preference, lt::preferWorkspaceBytes, &workspace,
                              sizeof(workspace)),
            lt::success);
  uint32_t number = 2;
  for (int attribute :
       {lt::preferReductions, lt::preferAlignmentA, lt::preferAlignmentB,
        lt::preferAlignmentC, lt::preferAlignmentD})
    EXPECT_EQ(api.preferenceSet(preference, attribute, &number, sizeof(number)),
              lt::success);
  EXPECT_NE(api.preferenceSet(preference, lt::preferAlignmentA, &workspace,
                              sizeof(workspace)),
            lt::success);
  EXPECT_EQ(api.preferenceDestroy(preference), lt::success);
  EXPECT_EQ(api.matrixDestroy(matrix), lt::success);
  EXPECT_EQ(api.operationDestroy(operation), lt::success);
}

#ifdef NCCL_VERSION_CODE
TEST(Headers, NcclConfig) {
  ncclConfig_t made = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(nccl::Config().magic, made.magic);
  EXPECT_LE(nccl::Config().version, made.version);
}

/// What it has without a device.
TEST(Nccl, OpensWhereItIs) {
  Result<NcclApi> api = NcclApi::open({});
  if (!api.isOk())
    GTEST_SKIP() << api.status().message();
  EXPECT_GE(api->version, NcclApi::leastVersion);
  EXPECT_EQ(api->describe().rfind("NCCL 2.", 0), 0u);
  EXPECT_NE(api->check(5, "ncclGroupEnd").message().find("invalid usage"),
            std::string::npos);
}
#endif

} // namespace
} // namespace fsdp::rt
