//===- SimtValues.h - Values of threads -------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_SIMTVALUES_H
#define FSDP_PASSES_KERNELS_CUDA_SIMTVALUES_H

#include "Kernels/Common/KernelValues.h"

namespace mlir::fsdp {

/// Neighbouring points of the lane that a thread computes together, so that it
/// loads and stores up to kVectorBytes at once: a power of two, 1 where an
/// operand does not lie so, or where too few threads would be left. Items that
/// run over the lane come in as many whole vectors; of rows the last vector may
/// be shorter, unless they are swept.
int64_t chooseLanes(const KernelLoops &loops);

/// What lies in memory as the lane does, of whose elements a thread loads or
/// stores `lanes` at once: arguments of the kernel and constants. None where
/// threads have a point each.
llvm::SetVector<Value> getVectorOperands(const KernelLoops &loops,
                                         int64_t lanes);

/// Values that a thread computes: what kernels of items and sweeps share.
class SimtValues : protected KernelValues {
protected:
  /// In a gpu.func whose arguments are in `memory` as KernelValues wants them,
  /// in global memory; `functions` of the kernel may be approximated.
  SimtValues(const KernelLoops &loops, int64_t lanes, OpBuilder &builder,
             Location loc, IRMapping memory, Value scratch,
             llvm::DenseSet<Operation *> functions);

  /// The loops that `isWanted` names, those of the lane last: it varies
  /// fastest.
  SmallVector<unsigned>
  getLoopOrder(llvm::function_ref<bool(const KernelLoop &)> isWanted) const;
  /// Splits `number` into indices of `order`'s loops, of which the lane's
  /// counts by lanes.
  void setPoint(ArrayRef<unsigned> order, Value number, OpBuilder &builder);
  /// Emits `body` where `condition` holds; null: everywhere.
  void emitIf(OpBuilder &builder, Value condition,
              llvm::function_ref<void()> body);
  /// The lanes of `value` combined, in a tree.
  Value reduceLanes(Value value, vector::CombiningKind kind);
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_SIMTVALUES_H
