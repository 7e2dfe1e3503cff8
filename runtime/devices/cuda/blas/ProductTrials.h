//===- ProductTrials.h - Which algorithm is fastest -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_BLAS_PRODUCTTRIALS_H
#define FSDP_RT_DEVICES_CUDA_BLAS_PRODUCTTRIALS_H

#include "devices/cuda/blas/CudaProduct.h"
#include "devices/cuda/driver/CudaMemory.h"

#include <memory>
#include <optional>
#include <vector>

namespace fsdp::rt {

/// Times of algorithms, by running each on the device, in memory beside the
/// arena: operands, result and workspace of one call, which it has until it is
/// destroyed.
class ProductTrials {
public:
  /// Runs of each algorithm in a graph, between two events, and how often that
  /// is launched; the shortest counts. Issued one by one, products of a few
  /// microseconds would take as long as the host takes to issue them.
  static constexpr int runs = 5, rounds = 3;

  /// Both must outlive it.
  ProductTrials(const CudaContext &context, CudaCopies &copies)
      : context_(context), copies_(copies) {}
  ~ProductTrials();
  ProductTrials(const ProductTrials &) = delete;
  ProductTrials &operator=(const ProductTrials &) = delete;

  /// The microseconds that one call of @product takes by each algorithm; none
  /// by one that cannot run. Fails where the device has no memory for it.
  Result<std::vector<std::optional<double>>>
  measure(const CudaProduct &product,
          const std::vector<lt::Algorithm> &algorithms);

private:
  /// A call whose operands, and a bias, lie in memory of the trials.
  struct Placed {
    CudaProduct::Call call;
    cu::Pointer bias = 0;
  };
  Status open();
  Result<Placed> place(const CudaProduct &product);
  Result<double> time(const CudaProduct &product, const CudaProduct::Call &call,
                      const lt::Algorithm &algorithm);

  const CudaContext &context_;
  CudaCopies &copies_;
  std::optional<CudaStream> stream_;
  std::unique_ptr<DeviceArena> memory_;
};

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_BLAS_PRODUCTTRIALS_H
