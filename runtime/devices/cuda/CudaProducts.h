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
#include "devices/cuda/CudaSettings.h"
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

class ProductTrials;

/// One product, ready to be enqueued when its algorithm has been chosen.
class CudaProduct {
public:
  ~CudaProduct();
  CudaProduct(const CudaProduct &) = delete;
  CudaProduct &operator=(const CudaProduct &) = delete;

  Status enqueue(cu::Stream stream) const;

private:
  friend class CudaProducts;
  friend class ProductTrials;
  explicit CudaProduct(const CublasLtApi &api) : api_(api) {}
  Status describe(const fsdp_rt_matmul_desc &desc, const BatchCalls &calls);
  Status describeBias(const fsdp_rt_matmul_desc &desc);
  /// Where a bias lies; nothing where there is none.
  Status setBias(cu::Pointer bias) const;
  /// What the library proposes first, at most @count, in its workspace.
  Result<std::vector<lt::Algorithm>> propose(const CudaContext &context,
                                             int count) const;
  /// Refuses an algorithm that cannot be used here.
  Status check(const lt::Algorithm &algorithm) const;

  /// C is what is added and D the result, which lies as C does. The bias's
  /// place is the operation's (setBias).
  struct Call {
    cu::Pointer a = 0, b = 0, c = 0, d = 0, bias = 0, workspace = 0;
  };
  Status issue(const Call &call, const lt::Algorithm &algorithm,
               cu::Stream stream) const;

  /// Bytes from a call's first element of an operand to its last.
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
  cu::Pointer bias_ = 0;
  size_t workspaceBytes_ = 0;
  Footprint footprint_;
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
  CudaProducts(World &world, const CudaContext &context, CudaCopies &copies,
               const DeviceArena &arena, Algorithms wanted)
      : world_(world), context_(context), copies_(copies), arena_(arena),
        wanted_(wanted) {}
  ~CudaProducts();
  CudaProducts(const CudaProducts &) = delete;
  CudaProducts &operator=(const CudaProducts &) = delete;

  /// Prepares a product that hal::checkMatmul() accepts and that multiplies
  /// something. The first one opens the library.
  Result<std::unique_ptr<CudaProduct>> prepare(const fsdp_rt_matmul_desc &desc);

  /// Chooses their algorithms, the same on all ranks: those of rank 0, which it
  /// has from an earlier run, or that the library proposes first, or that were
  /// the fastest of those that it proposes. Collective over all ranks, which
  /// have the same products.
  Status choose(const std::vector<std::unique_ptr<CudaProduct>> &products);

  /// For the user to read.
  const std::vector<std::string> &notes() const { return notes_; }

  /// The library; "none" where no program has a product.
  std::string describe() const { return api_ ? api_->describe() : "none"; }
  /// Lines for the user: which products were cut, and which algorithms were
  /// measured.
  std::vector<std::string> remarks() const;
  /// Counts a product that became several (cutExtents).
  void countCut() { ++cut_; }

private:
  Status open();
  /// Of rank 0: one for each product.
  Result<std::vector<lt::Algorithm>>
  chooseAll(const std::vector<const CudaProduct *> &products);
  Result<lt::Algorithm> chooseOne(const CudaProduct &product,
                                  ProductTrials &trials);
  /// The fastest of @proposed, the first where none could be measured.
  lt::Algorithm measure(const CudaProduct &product,
                        const std::vector<lt::Algorithm> &proposed,
                        ProductTrials &trials);
  Status shareChoices(std::vector<lt::Algorithm> &chosen);

  World &world_;
  const CudaContext &context_;
  CudaCopies &copies_;
  const DeviceArena &arena_;
  const Algorithms wanted_;
  const CublasLtApi *api_ = nullptr;
  lt::Handle handle_ = nullptr;
  /// By key; what rank 0 reads and keeps; the ranks that it tells.
  std::map<std::string, lt::Algorithm> algorithms_;
  std::optional<AlgorithmCache> cache_;
  std::unique_ptr<hal::HostChannel> ranks_;
  std::vector<std::string> notes_;
  /// Of measured kinds of products: their number, and microseconds by the
  /// algorithms that were proposed first and by those that were chosen.
  int measured_ = 0, cut_ = 0;
  double firstTime_ = 0, chosenTime_ = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_CUDAPRODUCTS_H
