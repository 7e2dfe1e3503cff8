//===- CudnnAttention.h - Attentions that cuDNN can compute -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An attention of a program as cuDNN sees it: one batch dimension and one of
// heads, of which keys and values may have fewer. Decided from descriptors
// alone; what the library itself makes of it is seen when a plan is built.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DNN_CUDNNATTENTION_H
#define FSDP_RT_DEVICES_CUDA_DNN_CUDNNATTENTION_H

#include "core/Dtype.h"
#include "core/Status.h"
#include "devices/cuda/dnn/CudnnGraph.h"
#include "fsdp-rt/abi.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace fsdp::rt {

struct CudnnAttention {
  /// Where a tensor begins, in bytes of the arena, and its heads; strides in
  /// elements.
  struct Place {
    int64_t offset = -1;
    int64_t heads = 0;
    int64_t batchStride = 0, headStride = 0, rowStride = 0;
  };

  bool isBackward = false, isCausal = false;
  /// Where the statistics lie; -1: none.
  int64_t stats = -1;
  Dtype dtype = FSDP_RT_BF16;
  int64_t batch = 1, heads = 1, queries = 0, keys = 0, head = 0, value = 0;
  float scale = 1;
  /// By hal::AttentionView::Tensor; of a forward pass four.
  std::array<Place, 8> tensors;

  /// kindOf() its descriptor.
  std::string kind;
  /// All that a plan depends on.
  std::string key() const;
  /// Of the backward pass's workspace, what its rows' sums of dout out take.
  int64_t rowSumBytes() const;
};

/// All that the statistics of a row depend on. Forward and backward passes of
/// one attention have one kind: "bf16 96 x 1024 x 1024, head 64, causal".
std::string kindOf(const fsdp_rt_attention_desc &desc);

/// What computes it: the library's version, and 90 for cards of sm_90.
struct CudnnLimits {
  size_t version = 0;
  int capability = 0;
};

/// The attention of a descriptor that hal::checkAttention() accepts, or what
/// cuDNN would expect there ("expected a multiple of 8 features, got 33").
Result<CudnnAttention> viewForCudnn(const fsdp_rt_attention_desc &desc,
                                    bool backward, const CudnnLimits &limits);

/// An attention as a graph of the library, finalized.
struct CudnnAttentionGraph {
  std::unique_ptr<CudnnGraph> graph;
  /// By hal::AttentionView::Tensor.
  std::array<CudnnGraph::Value, 8> tensors = {};
  /// 0: none. `rowSums` is memory of the workspace, of float32.
  CudnnGraph::Value stats = 0, rowSums = 0;
};

/// The statistics are one number a row, the logarithm of the sum of its scores'
/// exponentials, in float32 and in the order of batch, heads and queries.
Result<CudnnAttentionGraph> composeAttention(const CudnnApi &api,
                                             const CudnnDevice &device,
                                             const CudnnAttention &attention);

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DNN_CUDNNATTENTION_H
