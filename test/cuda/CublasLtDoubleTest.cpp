//===- CublasLtDoubleTest.cpp - What the double of cuBLASLt refuses -------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Descriptors that the library would not take, which the device never makes.
//
//===----------------------------------------------------------------------===//

#include "CudaTest.h"

#include "devices/cuda/blas/CublasLtApi.h"
#include "devices/cuda/driver/CudaContext.h"

namespace fsdp::test {
namespace {

namespace lt = rt::lt;

constexpr lt::Error invalidValue = 7, executionFailed = 13, notSupported = 15;

class CublasLtDouble : public testing::Test {
protected:
  void SetUp() override {
    auto made = openFirstDevice();
    ASSERT_TRUE(made.isOk()) << made.status().message();
    context = std::move(*made);
    auto library = rt::CublasLtApi::ofProcess();
    ASSERT_TRUE(library.isOk()) << library.status().message();
    api = *library;
    ASSERT_EQ(api->create(&handle), lt::success);
    ASSERT_EQ(api->operationCreate(&operation, lt::compute32, lt::real32),
              lt::success);
    ASSERT_EQ(api->preferenceCreate(&preference), lt::success);
  }
  void TearDown() override {
    if (!api)
      return;
    for (lt::Matrix matrix : matrices)
      EXPECT_EQ(api->matrixDestroy(matrix), lt::success);
    EXPECT_EQ(api->preferenceDestroy(preference), lt::success);
    EXPECT_EQ(api->operationDestroy(operation), lt::success);
    EXPECT_EQ(api->destroy(handle), lt::success);
  }

  lt::Matrix matrix(uint64_t rows, uint64_t columns, int64_t ld,
                    int type = lt::real32, int32_t batch = 1) {
    lt::Matrix made = nullptr;
    EXPECT_EQ(api->matrixCreate(&made, type, rows, columns, ld), lt::success);
    EXPECT_EQ(api->matrixSet(made, lt::matrixBatchCount, &batch, sizeof(batch)),
              lt::success);
    matrices.push_back(made);
    return made;
  }
  lt::Error choose(lt::Matrix a, lt::Matrix b, lt::Matrix c) {
    int count = 0;
    return api->getHeuristic(handle, operation, a, b, c, c, preference, 1,
                             &found, &count);
  }
  lt::Error multiply(lt::Matrix a, lt::Matrix b, lt::Matrix c,
                     uintptr_t address) {
    float one = 1, zero = 0;
    auto *at = reinterpret_cast<void *>(address);
    return api->matmul(handle, operation, &one, at, a, at, b, &zero, at, c, at,
                       c, &found.algorithm, nullptr, 0, nullptr);
  }

  std::unique_ptr<rt::CudaContext> context;
  const rt::CublasLtApi *api = nullptr;
  lt::Handle handle = nullptr;
  lt::Operation operation = nullptr;
  lt::Preference preference = nullptr;
  lt::Heuristic found = {};
  std::vector<lt::Matrix> matrices;
};

TEST_F(CublasLtDouble, DescriptorsThatDoNotGoTogether) {
  lt::Matrix a = matrix(4, 6, 4), b = matrix(6, 5, 6), c = matrix(4, 5, 4);
  EXPECT_EQ(choose(a, b, c), lt::success);
  EXPECT_EQ(choose(b, a, c), invalidValue);
  EXPECT_EQ(choose(matrix(4, 6, 3), b, c), invalidValue);
  EXPECT_EQ(choose(matrix(4, 6, 4, lt::real32, 2), b, c), invalidValue);
  EXPECT_EQ(choose(matrix(4, 6, 4, lt::brain16), b, c), notSupported);
  int transposed = lt::transposed;
  EXPECT_EQ(api->operationSet(operation, lt::operationTransA, &transposed,
                              sizeof(transposed)),
            lt::success);
  EXPECT_EQ(choose(a, b, c), invalidValue);
  EXPECT_EQ(choose(matrix(6, 4, 6), b, c), lt::success);
}

TEST_F(CublasLtDouble, EpiloguesThatItHas) {
  lt::Matrix a = matrix(4, 6, 4), b = matrix(6, 5, 6), c = matrix(4, 5, 4);
  uint32_t epilogue = lt::epilogueBias, gelu = 32;
  int32_t type = lt::brain16;
  EXPECT_EQ(api->operationSet(operation, lt::operationEpilogue, &epilogue,
                              sizeof(epilogue)),
            lt::success);
  EXPECT_EQ(choose(a, b, c), lt::success);
  // Of another type than D.
  EXPECT_EQ(
      api->operationSet(operation, lt::operationBiasType, &type, sizeof(type)),
      lt::success);
  EXPECT_EQ(choose(a, b, c), notSupported);
  EXPECT_EQ(
      api->operationSet(operation, lt::operationEpilogue, &gelu, sizeof(gelu)),
      lt::success);
  EXPECT_EQ(choose(a, b, c), notSupported);
}

TEST_F(CublasLtDouble, BiasesThatItDoesNotTake) {
  lt::Matrix a = matrix(4, 6, 4), b = matrix(6, 5, 6), c = matrix(4, 5, 4);
  uint32_t epilogue = lt::epilogueBias;
  auto setBias = [&](uint64_t address) {
    EXPECT_EQ(api->operationSet(operation, lt::operationBias, &address,
                                sizeof(address)),
              lt::success);
  };
  EXPECT_EQ(api->operationSet(operation, lt::operationEpilogue, &epilogue,
                              sizeof(epilogue)),
            lt::success);
  EXPECT_EQ(choose(a, b, c), lt::success);
  setBias((1 << 20) + 8);
  EXPECT_EQ(multiply(a, b, c, 1 << 20), notSupported);
  // Aligned, it fails for the memory that is not there.
  setBias(1 << 20);
  EXPECT_EQ(multiply(a, b, c, 1 << 20), executionFailed);
  lt::Operation doubles = nullptr;
  EXPECT_EQ(api->operationCreate(&doubles, lt::compute64, lt::real64),
            lt::success);
  std::swap(doubles, operation);
  lt::Matrix a64 = matrix(4, 6, 4, lt::real64),
             b64 = matrix(6, 5, 6, lt::real64),
             c64 = matrix(4, 5, 4, lt::real64);
  EXPECT_EQ(choose(a64, b64, c64), lt::success);
  EXPECT_EQ(api->operationSet(operation, lt::operationEpilogue, &epilogue,
                              sizeof(epilogue)),
            lt::success);
  EXPECT_EQ(choose(a64, b64, c64), notSupported);
  std::swap(doubles, operation);
  EXPECT_EQ(api->operationDestroy(doubles), lt::success);
}

TEST_F(CublasLtDouble, AlgorithmsOfOtherDescriptorsAndAddresses) {
  lt::Matrix a = matrix(4, 6, 4), b = matrix(6, 5, 6), c = matrix(4, 5, 4);
  EXPECT_EQ(multiply(a, b, c, 1 << 20), invalidValue);
  EXPECT_EQ(choose(a, b, c), lt::success);
  EXPECT_EQ(multiply(matrix(4, 6, 8), b, c, 1 << 20), invalidValue);
  // Nothing was said of the alignment: 256 bytes.
  EXPECT_EQ(multiply(a, b, c, (1 << 20) + 16), notSupported);
}

} // namespace
} // namespace fsdp::test
