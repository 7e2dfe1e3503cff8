//===- ComputeRules.h - Products and attention of programs ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a device checks of a product or an attention when it loads a program,
// whatever it computes them with, and how much work they are.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_COMPUTERULES_H
#define FSDP_RT_HAL_COMPUTERULES_H

#include "core/Dtype.h"
#include "core/Status.h"
#include "fsdp-rt/abi.h"

#include <cstdint>

namespace fsdp::rt::hal {

/// Refuses negative extents, leading dimensions or strides that make rows or
/// products of C overlap, operands that do not lie in a memory of
/// `deviceBytes`, types without a product, and extents or leading dimensions
/// beyond `maxDimension`, which is at most 32 bits.
Status checkMatmul(const fsdp_rt_matmul_desc &desc, int64_t deviceBytes,
                   int64_t maxDimension);

/// Number of products in the batch.
int64_t matmulBatch(const fsdp_rt_matmul_desc &desc);

/// Whether the product is added to a matrix of C's shape: C as it was, or the
/// epilogue's addend.
bool addsMatrix(const fsdp_rt_matmul_desc &desc);

/// Operands read once and results written once; multiplications and additions.
int64_t matmulBytes(const fsdp_rt_matmul_desc &desc);
int64_t matmulFlops(const fsdp_rt_matmul_desc &desc);

/// Captured tensors of an attention, at most.
constexpr int64_t maxCaptured = 64;

constexpr int attentionTensors(bool backward) { return backward ? 8 : 4; }

/// One tensor of a descriptor.
struct AttentionView {
  enum Tensor { Q, K, V, Out, Dout, Dq, Dk, Dv };
  /// "q"
  static const char *name(int tensor);
  /// Whether its rows are keys, else queries; and its columns features of q and
  /// k, else of v and out.
  static bool isOfKeys(int tensor) {
    return tensor == K || tensor == V || tensor == Dk || tensor == Dv;
  }
  static bool isOfHead(int tensor) {
    return tensor == Q || tensor == K || tensor == Dq || tensor == Dk;
  }

  int64_t offset;
  Dtype dtype;
  const int64_t *batch;
  int64_t row, column;

  AttentionView(const fsdp_rt_attention_desc &desc, int tensor);
  bool exists() const { return offset >= 0; }
  int64_t at(const int64_t *index) const {
    int64_t element = 0;
    for (int d = 0; d < 4; ++d)
      element += index[d] * batch[d];
    return element;
  }
};

/// Bytes from the first element of a tensor that there is to the end of the
/// last.
int64_t attentionExtent(const fsdp_rt_attention_desc &desc, int tensor);

int64_t attentionBatch(const fsdp_rt_attention_desc &desc);

/// Refuses sizes beyond `maxDimension`, tensors, captured ones and statistics
/// that do not lie in a memory of `deviceBytes`, and gradients of k and v that
/// are summed over other dimensions.
Status checkAttention(const fsdp_rt_attention_desc &desc, bool backward,
                      int64_t deviceBytes, int64_t maxDimension);

/// Multiplications and additions of its products.
int64_t attentionFlops(const fsdp_rt_attention_desc &desc, bool backward);

/// Bytes of its tensors, each once.
int64_t attentionBytes(const fsdp_rt_attention_desc &desc, bool backward);

} // namespace fsdp::rt::hal

#endif // FSDP_RT_HAL_COMPUTERULES_H
