//===- PlainScores.h - Score functions that only mask -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Libraries compute softmax(scale q k^T) v, with or without a causal mask, and
// know no other score functions; nor do they know factors of the probabilities,
// which these functions do not look at.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_ATTENTION_PLAINSCORES_H
#define FSDP_ANALYSIS_ATTENTION_PLAINSCORES_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

namespace mlir::fsdp {

/// Whether the score function yields the score where the key is the query's or
/// before it, and where it is after the query minus infinity (or a number so
/// low that no exponential of it is left) if the attention is causal, else the
/// score, too.
bool hasPlainScores(AttentionOp attention);

/// The same, and that its gradient is that of the softmax's input, or 0 where
/// the score is masked.
bool hasPlainScores(AttentionBackwardOp attention);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_ATTENTION_PLAINSCORES_H
