//===- PitchedRows.h - Rows that begin at aligned addresses -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Libraries that multiply on GPUs read 16 bytes at a time, and take slow code
// where rows of a matrix do not all begin at multiples of that: those of 50257
// logits in bf16, for example. A value between kernels may have longer rows
// than its elements fill:
//
//   tensor<8x50257xbf16>  ->  tensor<8x50264xbf16>
//
// Kernels see its elements as a slice, and leave the rest of each row alone:
//
//   func @k(%x: tensor<8x50264xbf16>, ..., %to: tensor<8x50264xbf16>) {
//     %rows = tensor.extract_slice %x [0, 0] [8, 50257] [1, 1]
//     ...
//     %place = tensor.extract_slice %to [0, 0] [8, 50257] [1, 1]
//     %stored = bufferization.materialize_in_destination %y in %place
//     %all = tensor.insert_slice %stored into %to [0, 0] [8, 50257] [1, 1]
//     return %all
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_KERNELS_PITCHEDROWS_H
#define FSDP_ANALYSIS_KERNELS_PITCHEDROWS_H

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::fsdp {

/// @type with a last dimension of a multiple of @alignment bytes; null where it
/// has that already, has one row, or would be larger by more than an eighth.
RankedTensorType getPitchedType(RankedTensorType type, int64_t alignment);

/// Whether @slice is the elements of a value with longer rows: all of it but
/// the last columns.
bool isSliceOfRows(tensor::ExtractSliceOp slice);

/// The op that stores result @index of a kernel function in destination-passing
/// style, seen through the insertion into longer rows; null where the op that
/// computes it writes to the destination itself.
bufferization::MaterializeInDestinationOp getResultStore(func::FuncOp kernel,
                                                         unsigned index);

/// Whether @insert puts what was stored in a slice of a destination back into
/// the destination: nothing moves.
bool isInsertionOfStored(tensor::InsertSliceOp insert);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_KERNELS_PITCHEDROWS_H
