//===- Multiply.h - Products of a double of cuBLASLt ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_LIBRARIES_CUBLASLT_MULTIPLY_H
#define FSDP_EMULATOR_LIBRARIES_CUBLASLT_MULTIPLY_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fsdp::emulator::lt {

/// cublasStatus_t.
constexpr int success = 0, notInitialized = 1, invalidValue = 7,
              executionFailed = 13, notSupported = 15;

/// cublasLtEpilogue_t.
constexpr uint32_t noEpilogue = 1, biasEpilogue = 4;

struct Operation {
  int compute = 0, scale = 0;
  int32_t transA = 0, transB = 0;
  uint32_t epilogue = 1;
  /// Of a bias: an element for each row of D, and its type; -1: that of D.
  uint64_t bias = 0;
  int32_t biasType = -1;
  /// Those that an algorithm is for; 0: the device's.
  int32_t multiprocessors = 0;
};

struct Matrix {
  int type = 0;
  int64_t rows = 0, columns = 0, ld = 0;
  int32_t batch = 1;
  int64_t stride = 0;
  /// 1: `address` is that of an array of addresses.
  uint32_t mode = 0;
  uint64_t address = 0;
  std::vector<uint64_t> addresses;
};

/// D = alpha op(A) op(B) + beta C (+ bias).
struct Product {
  Operation operation;
  Matrix a, b, c, d;
  double alpha = 1, beta = 0;
  /// Parts of its sums, each added up by itself, in memory of the device where
  /// there are several.
  int64_t splits = 1;
  /// What tells its kernels from those of other descriptors.
  uint64_t kernel = 0;
  /// Whether it takes 5 ms longer.
  bool isSlow = false;
  uint64_t workspace = 0;
  size_t workspaceBytes = 0;
};

/// Bytes of an element of a cudaDataType_t; 0: not one of these.
size_t sizeOfType(int type);

/// What the library would say to these descriptors.
int checkProduct(const Product &product);

double readScale(const Operation &operation, const void *value);

/// With pointer arrays, the matrix's addresses as they lie in memory now.
/// False: they do not.
bool readAddresses(Matrix &matrix);

/// Puts a product that checkProduct() accepts on a stream.
int enqueue(const Product &product, void *stream);

} // namespace fsdp::emulator::lt

#endif // FSDP_EMULATOR_LIBRARIES_CUBLASLT_MULTIPLY_H
