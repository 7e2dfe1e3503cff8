//===- SoftmaxPatterns.h - Softmax and its gradient -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_ATTENTION_SOFTMAXPATTERNS_H
#define FSDP_LIB_ANALYSIS_ATTENTION_SOFTMAXPATTERNS_H

#include "fsdp/Analysis/Attention/PointExpressions.h"

#include <optional>

namespace mlir::fsdp {

struct SoftmaxPattern {
  /// The element that the softmax is of.
  int input;
  /// The probability, without casts.
  int probability;
  /// Rows whose inputs are all minus infinity give zeros.
  bool zeroMasked = false;
};

/// A product of one point that depends on the scores and of others that do not,
/// in any order: the point without casts, the others sorted by number and
/// without widening.
struct FactoredPattern {
  int point;
  SmallVector<int> factors;
};

FactoredPattern matchFactors(const PointExpressions &points, int node);

/// Matches exp(x - max x) / sum of it over the keys.
std::optional<SoftmaxPattern> matchSoftmax(const PointExpressions &points,
                                           int node);

struct SoftmaxGradientPattern {
  int node;
  /// The product that is the gradient at the probabilities.
  int product;
};

/// The one gradient of the softmax whose probabilities are `probability` that
/// `root` is computed from; nothing where there is none, or more than one.
/// @factors: those of the probabilities after the softmax, and so of the
/// gradient in front of it.
std::optional<SoftmaxGradientPattern>
findSoftmaxGradient(const PointExpressions &points, int root, int probability,
                    ArrayRef<int> factors);

/// Whether an element is minus infinity at every key behind the query.
bool isMaskedBehindQuery(const PointExpressions &points, int node);

/// Visits what `root` is computed from, each node once; not below nodes for
/// which `visit` returns false.
void visitPoints(const PointExpressions &points, int root,
                 llvm::function_ref<bool(int)> visit);

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_ATTENTION_SOFTMAXPATTERNS_H
