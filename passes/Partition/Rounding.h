//===- Rounding.h - What is rounded to narrower types -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PARTITION_ROUNDING_H
#define FSDP_PASSES_PARTITION_ROUNDING_H

#include "fsdp/Analysis/Step/FlatLayout.h"

namespace mlir::fsdp {

/// Rounds buffers of floats wider than `type` to it where they are read. What
/// is kept, and saved, is as wide as it was traced; its readers see what they
/// would if it had been rounded before. Those of ignored modules stay as they
/// are. Returns whether there are any.
bool roundBuffers(TracedStep &step, FloatType type,
                  const llvm::DenseSet<Attribute> &ignored);

/// Returns what a step that evaluates returns, its loss aside, in `type`.
void castOutputs(TracedStep &step, FloatType type);

/// Says which values are rounded before they are multiplied by positions: the
/// angles are off by as large a part of themselves, which may be whole turns.
/// `params`: for each of the step's the type it is rounded to, null where it is
/// not; `buffers`: that of buffers, which `bufferTreatments` may leave alone.
void reportRoundedPositions(TracedStep &step, ArrayRef<FloatType> params,
                            FloatType buffers,
                            ArrayRef<Treatment> bufferTreatments);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_PARTITION_ROUNDING_H
