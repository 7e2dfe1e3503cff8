//===- CudaProduct.h - A matrix product by cuBLASLt -------------*- C++ -*-===//
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

#ifndef FSDP_RT_DEVICES_CUDA_BLAS_CUDAPRODUCT_H
#define FSDP_RT_DEVICES_CUDA_BLAS_CUDAPRODUCT_H

#include "core/Status.h"
#include "devices/cuda/blas/CublasLtApi.h"
#include "devices/cuda/driver/CudaContext.h"
#include "devices/cuda/driver/CudaWork.h"
#include "fsdp-rt/abi.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::rt {

class CudaProducts;
class ProductTrials;

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

/// A call for each product of the batch.
BatchCalls expandBatch(const BatchCalls &calls);

/// One product, ready to be enqueued when its algorithm has been chosen.
class CudaProduct final : public CudaWork {
public:
  ~CudaProduct() override;
  CudaProduct(const CudaProduct &) = delete;
  CudaProduct &operator=(const CudaProduct &) = delete;

  Status enqueue(cu::Stream stream) const override;

private:
  friend class CudaProducts;
  friend class ProductTrials;
  CudaProduct(const CublasLtApi &api, lt::Handle handle)
      : api_(api), handle_(handle) {}
  /// @desc as @calls, with its arena at @base. With pointer arrays, the library
  /// finds the matrices of all calls by arrays of addresses, in one call, and
  /// `calls_` is left empty; fails where its version has no such batches.
  static Result<std::unique_ptr<CudaProduct>>
  create(const CublasLtApi &api, lt::Handle handle,
         const fsdp_rt_matmul_desc &desc, const BatchCalls &calls,
         cu::Pointer base, bool hasPointerArrays);
  /// Has the library choose algorithms for @count multiprocessors.
  Status setMultiprocessors(int count);
  Status describeOperation(const fsdp_rt_matmul_desc &desc);
  Status describe(const fsdp_rt_matmul_desc &desc, const BatchCalls &calls,
                  bool hasPointerArrays);
  Status describeBias(const fsdp_rt_matmul_desc &desc);
  /// Where a bias lies; nothing where there is none.
  Status setBias(cu::Pointer bias) const;
  /// What the library proposes first, at most @count, in its workspace.
  Result<std::vector<lt::Algorithm>> propose(const CudaContext &context,
                                             int count) const;
  /// Refuses an algorithm that cannot be used here.
  Status check(const lt::Algorithm &algorithm) const;

  /// C is what is added and D the result, which lies as C does.
  struct Call {
    cu::Pointer a = 0, b = 0, c = 0, d = 0, workspace = 0;
  };
  Status issue(const Call &call, const lt::Algorithm &algorithm,
               cu::Stream stream) const;
  /// Whether D is C, as the library knows by their addresses.
  bool isInPlace() const;
  /// The pointer arrays of A, B, C and D, one after another, with @move added
  /// to each address.
  std::vector<cu::Pointer> addresses(const Call &move) const;
  /// The call whose pointer arrays lie at @place.
  Call callOfPointerArrays(cu::Pointer place) const;

  /// Bytes from the first element of an operand of one call to the last.
  struct Footprint {
    int64_t a = 0, b = 0, c = 0, bias = 0;
  };

  const CublasLtApi &api_;
  lt::Handle handle_ = nullptr;
  lt::Operation operation_ = nullptr;
  /// In the library's order: its A is our B.
  lt::Matrix a_ = nullptr, b_ = nullptr, c_ = nullptr;
  /// All that an algorithm depends on, in words.
  std::string key_;
  /// Of A, B, C and D.
  std::array<uint32_t, 4> alignment_ = {};
  lt::Algorithm algorithm_ = {};
  /// 0: none.
  cu::Pointer bias_ = 0, workspace_ = 0;
  size_t workspaceBytes_ = 0;
  Footprint footprint_;
  bool isDouble_ = false;
  /// Factors in the type of which sums are.
  float alpha32_ = 1, beta32_ = 0;
  double alpha64_ = 1, beta64_ = 0;
  std::vector<Call> calls_;
  /// With pointer arrays: the matrices of the batch. Always: the least address
  /// of each operand's.
  std::vector<Call> items_;
  Call least_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_BLAS_CUDAPRODUCT_H
