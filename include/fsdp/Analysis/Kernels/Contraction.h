//===- Contraction.h - Matrix products with strided operands ----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every contraction that a BLAS can do is one product of matrices per index of
// a batch. Transposes, slices, reshapes and broadcasts of its operands, and
// transposes of its result, become strides.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_KERNELS_CONTRACTION_H
#define FSDP_ANALYSIS_KERNELS_CONTRACTION_H

#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <array>

namespace mlir::fsdp {

/// C[b] = alpha * A[b] * B[b] (+ what the epilogue adds, or + C[b]), row-major
/// with leading dimensions; the fields are those of fsdp_rt_matmul. Strides and
/// offsets in elements. A and B have one type, and C has it, too, or f32 where
/// theirs is bf16 or f16.
struct MatmulShape {
  int64_t m = 1, n = 1, k = 1;
  int64_t lda = 1, ldb = 1, ldc = 1;
  bool transA = false, transB = false;
  int64_t offsetA = 0, offsetB = 0, offsetC = 0;
  std::array<int64_t, 4> batch = {1, 1, 1, 1};
  std::array<int64_t, 4> strideA = {0, 0, 0, 0}, strideB = {0, 0, 0, 0},
                         strideC = {0, 0, 0, 0};
  double alpha = 1.0;
  /// A and B were exchanged, because C is written transposed.
  bool swapped = false;
};

/// A contraction with everything around it that becomes strides.
struct ContractionPlan {
  linalg::LinalgOp op;
  /// What A and B are read from.
  Value sourceA, sourceB;
  /// What is produced: the op's result, or that of the last transpose or
  /// reshape after it that the product writes directly.
  Value result;
  /// Ops after the contraction that `result` makes unnecessary, in order.
  SmallVector<Operation *> absorbed;
  MatmulShape shape;
  /// The result starts at zero; otherwise at the op's init operand.
  bool zeroInit = true;
  /// What an epilogue adds, in the type of C: an element for each column, and a
  /// matrix of C's shape, leading dimension and strides. Null where there is
  /// none.
  Value bias, addend;
  /// Elements of the bias.
  int64_t biasSize = 0;
};

/// An elementwise addition to a product's result that a BLAS may do in its
/// epilogue.
struct EpilogueAddition {
  /// What is added to the product.
  Value other;
  /// Whether `other` has one dimension, that of the columns; else it has the
  /// product's shape.
  bool isBias;
};

/// @op as an addition to @product, which it reads; nullopt where it is none.
std::optional<EpilogueAddition> getEpilogueAddition(Operation *op,
                                                    Value product);

/// The plans of all contractions of a block. Earlier ones decide first: what
/// they absorb is in no memory that later ones could read. Additions with
/// fsdp.epilogue (fsdp-fuse-epilogues) are absorbed where strides allow it.
class ContractionPlans {
public:
  explicit ContractionPlans(Block *block);

  /// How to do `op` with one matmul call; null where no BLAS can: an element
  /// type it does not have, or operands that no stride describes.
  const ContractionPlan *lookup(Operation *op) const {
    auto it = plans.find(op);
    return it == plans.end() ? nullptr : &it->second;
  }

private:
  llvm::DenseMap<Operation *, ContractionPlan> plans;
};

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_KERNELS_CONTRACTION_H
