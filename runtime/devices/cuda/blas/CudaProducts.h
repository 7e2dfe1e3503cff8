//===- CudaProducts.h - Matrix products by cuBLASLt -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===

#ifndef FSDP_RT_DEVICES_CUDA_BLAS_CUDAPRODUCTS_H
#define FSDP_RT_DEVICES_CUDA_BLAS_CUDAPRODUCTS_H

#include "core/Status.h"
#include "devices/cuda/blas/CudaProduct.h"
#include "devices/cuda/driver/AlgorithmCache.h"
#include "devices/cuda/driver/CudaMemory.h"
#include "devices/cuda/driver/CudaSettings.h"
#include "devices/cuda/driver/PointerArrays.h"
#include "devices/cuda/driver/RankZero.h"
#include "fsdp-rt/abi.h"
#include "hal/World.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::rt {

class ProductTrials;

/// The products of a rank's programs, and their algorithms.
class CudaProducts {
public:
  /// For operands and workspaces in `arena`. All must outlive it.
  CudaProducts(World &world, const CudaContext &context, CudaCopies &copies,
               const DeviceArena &arena, Algorithms wanted)
      : world_(world), context_(context), copies_(copies), arena_(arena),
        wanted_(wanted), pointers_(context, copies) {}
  ~CudaProducts();
  CudaProducts(const CudaProducts &) = delete;
  CudaProducts &operator=(const CudaProducts &) = delete;

  /// Prepares a product that hal::checkMatmul() accepts and that multiplies
  /// something. The first one opens the library. Where transfers run beside it,
  /// it is for the multiprocessors that `reserve` leaves.
  Result<std::unique_ptr<CudaProduct>> prepare(const fsdp_rt_matmul_desc &desc,
                                               bool isBesideTransfers);

  /// Transfers take at most `ctas` multiprocessors, the same number on all
  /// ranks; 0: nobody knows.
  void reserve(int ctas) { reserved_ = ctas; }

  /// Chooses their algorithms, the same on all ranks: those of rank 0, which it
  /// has from an earlier run, or that the library proposes first, or that were
  /// the fastest of those that it proposes. Collective over all ranks, which
  /// have the same products.
  Status choose(const std::vector<CudaProduct *> &products);

  /// For the user to read.
  const std::vector<std::string> &notes() const { return notes_; }

  /// The library; "none" where no program has a product.
  std::string describe() const { return api_ ? api_->describe() : "none"; }
  /// Lines for the user: which products were cut, and which algorithms were
  /// measured.
  std::vector<std::string> remarks() const;
  /// Of the device's memory, what addresses of matrices take.
  int64_t pointerBytes() const { return pointers_.mappedBytes(); }
  /// Counts a product that became several (cutExtents).
  void countCut() { ++cut_; }

private:
  Status open();
  /// Those of the device that transfers leave: one CTA fills one.
  int freeMultiprocessors() const {
    return context_.multiprocessors() - reserved_;
  }
  Result<std::unique_ptr<CudaProduct>>
  prepareCalls(const fsdp_rt_matmul_desc &desc, const BatchCalls &calls,
               bool hasPointerArrays, bool isReduced);
  Result<std::unique_ptr<CudaProduct>>
  preparePointerArrays(const fsdp_rt_matmul_desc &desc, const BatchCalls &calls,
                       bool isReduced);
  /// Of rank 0: one for each product.
  Result<std::vector<lt::Algorithm>>
  chooseAll(const std::vector<const CudaProduct *> &products);
  Result<lt::Algorithm> chooseOne(const CudaProduct &product,
                                  ProductTrials &trials);
  /// The fastest of @proposed; none where nothing could be measured.
  std::optional<lt::Algorithm>
  measure(const CudaProduct &product,
          const std::vector<lt::Algorithm> &proposed, ProductTrials &trials);

  World &world_;
  const CudaContext &context_;
  CudaCopies &copies_;
  const DeviceArena &arena_;
  const Algorithms wanted_;
  PointerArrays pointers_;
  const CublasLtApi *api_ = nullptr;
  lt::Handle handle_ = nullptr;
  /// By key; what rank 0 reads and keeps; the ranks that it tells.
  std::map<std::string, lt::Algorithm> algorithms_;
  /// By key, whether the library has an algorithm for pointer arrays.
  std::map<std::string, bool> hasPointerArrays_;
  std::optional<AlgorithmCache> cache_;
  RankZero rankZero_{world_};
  std::vector<std::string> notes_;
  /// Of measured kinds of products: their number, and microseconds by the
  /// algorithms that were proposed first and by those that were chosen.
  int measured_ = 0, cut_ = 0;
  int reserved_ = 0, besideTransfers_ = 0;
  double firstTime_ = 0, chosenTime_ = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_BLAS_CUDAPRODUCTS_H
