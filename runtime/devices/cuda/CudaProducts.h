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
#include "devices/cuda/AlgorithmCache.h"
#include "devices/cuda/CublasLtApi.h"
#include "devices/cuda/CudaContext.h"
#include "devices/cuda/CudaMemory.h"
#include "fsdp-rt/abi.h"
#include "hal/Channel.h"
#include "hal/World.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
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

/// One product, ready to be enqueued when its algorithm has been chosen.
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
  Status describeBias(const fsdp_rt_matmul_desc &desc, cu::Pointer bias);
  /// What the library proposes first, in a workspace of this size.
  Result<lt::Algorithm> propose(const CudaContext &context,
                                uint64_t workspaceBytes) const;
  /// Refuses an algorithm that cannot be used here, for this.
  Status check(const lt::Algorithm &algorithm, uint64_t workspaceBytes) const;

  /// C is what is added and D the result, which lies as C does.
  struct Call {
    cu::Pointer a, b, c, d;
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
  /// Its call's; 0: none.
  cu::Pointer workspace_ = 0;
  size_t workspaceBytes_ = 0;
  bool isDouble_ = false;
  /// Factors in the type of which sums are.
  float alpha32_ = 1, beta32_ = 0;
  double alpha64_ = 1, beta64_ = 0;
  std::vector<Call> calls_;
};

/// The products of a rank's programs, and their algorithms.
class CudaProducts {
public:
  /// For operands and workspaces in `arena`. All must outlive it.
  CudaProducts(World &world, const CudaContext &context,
               const DeviceArena &arena)
      : world_(world), context_(context), arena_(arena) {}
  ~CudaProducts();
  CudaProducts(const CudaProducts &) = delete;
  CudaProducts &operator=(const CudaProducts &) = delete;

  /// Prepares a product that hal::checkMatmul() accepts and that multiplies
  /// something. The first one opens the library.
  Result<std::unique_ptr<CudaProduct>> prepare(const fsdp_rt_matmul_desc &desc);

  /// Chooses their algorithms, the same on all ranks: those of rank 0, which it
  /// has from an earlier run or the library proposes. Collective over all
  /// ranks, which have the same products.
  Status choose(const std::vector<std::unique_ptr<CudaProduct>> &products);

  /// For the user to read.
  const std::vector<std::string> &notes() const { return notes_; }

  /// The library; "none" where no program has a product.
  std::string describe() const { return api_ ? api_->describe() : "none"; }

private:
  Status open();
  /// Of rank 0.
  Result<lt::Algorithm> chooseOne(const CudaProduct &product);
  Status shareChoices(std::vector<lt::Algorithm> &chosen);

  World &world_;
  const CudaContext &context_;
  const DeviceArena &arena_;
  const CublasLtApi *api_ = nullptr;
  lt::Handle handle_ = nullptr;
  /// By key; what rank 0 reads and keeps; the ranks that it tells.
  std::map<std::string, lt::Algorithm> algorithms_;
  std::optional<AlgorithmCache> cache_;
  std::unique_ptr<hal::HostChannel> ranks_;
  std::vector<std::string> notes_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_CUDAPRODUCTS_H
