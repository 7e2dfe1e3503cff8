//===- DivideFactors.h - What gradients are divided by ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_DIVIDEFACTORS_H
#define FSDP_ANALYSIS_STEP_DIVIDEFACTORS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>

namespace mlir::fsdp {

/// What the gradients of a loss that is a mean are divided by: those of each
/// rank by `before`, their sum over the ranks by `after`. Both together are
/// what FSDP2's set_gradient_divide_factor is given; `before` alone is FSDP1's
/// gradient predivide factor, after which the sum is divided by ranks /
/// `before`.
struct DivideFactors {
  double before = 1;
  /// None: ranks / `before`, which makes a mean of the sum.
  std::optional<double> after;

  /// `X` (`after`), `pre=P`, `post=Q` or `pre=P,post=Q`, positive and finite;
  /// nothing: a mean.
  static llvm::Expected<DivideFactors> parse(llvm::StringRef text);

  /// What is left to divide the mean over @ranks ranks by, of gradients that
  /// were divided by `before`.
  double getLeft(int64_t ranks) const {
    return after ? *after / double(ranks) : 1 / before;
  }
};

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_DIVIDEFACTORS_H
