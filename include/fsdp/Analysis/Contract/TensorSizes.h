//===- TensorSizes.h - Bytes and dimensions of tensors ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_CONTRACT_TENSORSIZES_H
#define FSDP_ANALYSIS_CONTRACT_TENSORSIZES_H

#include "mlir/IR/BuiltinTypes.h"

#include <cstdint>

namespace mlir::fsdp {

/// Bytes of a tensor, of the device or the host; one per i1.
int64_t getTensorBytes(Type type);

/// The tensor that a value of @type is, on the device or on the host; null for
/// types of other values.
RankedTensorType getTensor(Type type);

/// More than any machine has; sums over the tensors of a step stay far from
/// what an int64_t counts.
constexpr int64_t kMostTensorBytes = int64_t(1) << 53;

/// Dimensions of a tensor; PyTorch has as many.
constexpr int64_t kMostRank = 64;

/// Whether @type, if it is a ranked tensor, has at most that many dimensions.
bool isOfCountableRank(Type type);

/// Whether @type, if it is a tensor of static shape, has at most that many
/// bytes. Nobody may ask getTensorBytes of user IR before.
bool isOfCountableBytes(Type type);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_CONTRACT_TENSORSIZES_H
