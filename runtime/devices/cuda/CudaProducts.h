//===- CudaProducts.h - Matrix products by cuBLASLt -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuBLASLt's matrices lie in columns. A matrix in rows is its transpose in
// columns, so that C = op(A) op(B) of rows is C' = op(B)' op(A)' of columns:
// operands change places, and nothing is moved.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_CUDAPRODUCTS_H
#define FSDP_RT_DEVICES_CUDA_CUDAPRODUCTS_H

#include "core/Status.h"
#include "devices/cuda/CublasLtApi.h"
#include "devices/cuda/CudaContext.h"
#include "fsdp-rt/abi.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::rt {

/// A batch of up to four dimensions as calls of the library, each with one
/// dimension of matrices at equal distances.
struct BatchCalls {
  /// Of every call: matrices, and elements from one to the next of A, B and C.
  int64_t count = 1;
  std::array<int64_t, 3> stride = {};
  /// Of each call: elements from the operands' starts.
  std::vector<std::array<int64_t, 3>> starts;
};

/// Dimensions that are one in all three operands become one; then the longest
/// is the library's and the others are calls.
BatchCalls cutBatch(const fsdp_rt_matmul_desc &desc);

/// One product, ready to be enqueued.
class CudaProduct {
public:
  ~CudaProduct();
  CudaProduct(const CudaProduct &) = delete;
  CudaProduct &operator=(const CudaProduct &) = delete;

  Status enqueue(cu::Stream stream) const;

private:
  friend class CudaProducts;
  explicit CudaProduct(const CublasLtApi &api) : api_(api) {}
  Status describe(const fsdp_rt_matmul_desc &desc, const BatchCalls &calls);
  Status chooseAlgorithm(const CudaContext &context);

  struct Call {
    cu::Pointer a, b, c;
  };

  const CublasLtApi &api_;
  lt::Handle handle_ = nullptr;
  lt::Operation operation_ = nullptr;
  /// In the library's order: its A is our B.
  lt::Matrix a_ = nullptr, b_ = nullptr, c_ = nullptr;
  lt::Algorithm algorithm_ = {};
  bool isDouble_ = false;
  /// Factors in the type of which sums are.
  float alpha32_ = 1, beta32_ = 0;
  double alpha64_ = 1, beta64_ = 0;
  std::vector<Call> calls_;
};

class CudaProducts {
public:
  /// `context` must outlive it.
  explicit CudaProducts(const CudaContext &context) : context_(context) {}
  ~CudaProducts();
  CudaProducts(const CudaProducts &) = delete;
  CudaProducts &operator=(const CudaProducts &) = delete;

  /// Prepares a product that hal::checkMatmul() accepts and that multiplies
  /// something; operands are offsets from `base`. The first one opens the
  /// library.
  Result<std::unique_ptr<CudaProduct>> prepare(const fsdp_rt_matmul_desc &desc,
                                               cu::Pointer base);

  /// The library; "none" where no program has a product.
  std::string describe() const { return api_ ? api_->describe() : "none"; }

private:
  Status open();

  const CudaContext &context_;
  const CublasLtApi *api_ = nullptr;
  lt::Handle handle_ = nullptr;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_CUDAPRODUCTS_H
