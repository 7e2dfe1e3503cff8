//===- PitchedRows.cpp - Rows that begin at aligned addresses -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/PitchedRows.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace mlir::fsdp;

/// A longer row may have a part of its elements more, not above this.
static constexpr int64_t kLargestPart = 8;

RankedTensorType fsdp::getPitchedType(RankedTensorType type,
                                      int64_t alignment) {
  if (!type.hasStaticShape() || type.getRank() < 2 ||
      !type.getElementType().isIntOrFloat())
    return {};
  int64_t bits = type.getElementTypeBitWidth(), row = type.getShape().back();
  if (bits % 8 != 0 || row == 0 || type.getNumElements() <= row)
    return {};
  // Elements of which as many are a multiple of both.
  int64_t step = alignment / std::gcd(alignment, bits / 8);
  int64_t pitch = llvm::alignTo(row, step);
  if (pitch == row || (pitch - row) * kLargestPart > row)
    return {};
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = pitch;
  return RankedTensorType::get(shape, type.getElementType());
}

/// Whether @slice, of @whole, is all of it but the last columns.
template <typename SliceOp>
static bool coversRows(SliceOp slice, RankedTensorType whole,
                       RankedTensorType rows) {
  if (!whole.hasStaticShape() || !rows.hasStaticShape() ||
      whole.getRank() != rows.getRank() || whole.getRank() == 0)
    return false;
  auto isAll = [](ArrayRef<int64_t> values, int64_t value) {
    return llvm::all_of(values, [&](int64_t v) { return v == value; });
  };
  return isAll(slice.getStaticOffsets(), 0) &&
         isAll(slice.getStaticStrides(), 1) &&
         slice.getStaticSizes() == rows.getShape() &&
         whole.getShape().drop_back() == rows.getShape().drop_back();
}

bool fsdp::isSliceOfRows(tensor::ExtractSliceOp slice) {
  return coversRows(slice, slice.getSourceType(), slice.getType());
}

bool fsdp::isInsertionOfStored(tensor::InsertSliceOp insert) {
  auto store = insert.getSource()
                   .getDefiningOp<bufferization::MaterializeInDestinationOp>();
  auto slice = store ? store.getDest().getDefiningOp<tensor::ExtractSliceOp>()
                     : tensor::ExtractSliceOp();
  return slice && slice.getSource() == insert.getDest() &&
         isSliceOfRows(slice) &&
         coversRows(insert, insert.getDestType(), insert.getSourceType());
}

bufferization::MaterializeInDestinationOp
fsdp::getResultStore(func::FuncOp kernel, unsigned index) {
  Value result = kernel.getBody().front().getTerminator()->getOperand(index);
  if (auto insert = result.getDefiningOp<tensor::InsertSliceOp>();
      insert && isInsertionOfStored(insert))
    result = insert.getSource();
  return result.getDefiningOp<bufferization::MaterializeInDestinationOp>();
}
