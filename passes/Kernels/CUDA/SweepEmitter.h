//===- SweepEmitter.h - Rows and sums over them in one kernel ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel of rows with column sums (KernelDomain::getSweep), as a norm's
// gradient: a block goes over the rows of a chunk, of which it reduces each and
// then computes the results, and adds to the sums of its columns. These are in
// registers, since every thread has the same columns of all rows. Values of a
// row that a later pass over it needs again stay in registers, too.
//
// Rows are added up one after another, from the first to the last of a chunk,
// in blocks as planSumBlocks says.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELS_CUDA_SWEEPEMITTER_H
#define FSDP_PASSES_KERNELS_CUDA_SWEEPEMITTER_H

#include "SimtValues.h"

namespace mlir::fsdp {

/// How a sweep is laid over threads: a block for each chunk of rows.
struct SweepShape {
  int64_t lanes;
  /// Chunks, and rows of each.
  int64_t chunks, rows;
  /// Threads of a block, a multiple of 32, and vectors of `lanes` neighbouring
  /// columns of a thread; the last ones may be beyond the row's end.
  int64_t threads, vectors;
};

/// From the sizes of loops alone: as few vectors as threads can be.
SweepShape chooseSweepShape(const KernelLoops &loops);

/// Elements of slots, i64 in shared memory, in which results of warps meet.
int64_t getSlotCount(const KernelLoops &loops, const SweepShape &shape);

class SweepEmitter : SimtValues {
public:
  /// As SimtEmitter.
  SweepEmitter(const KernelLoops &loops, const SweepShape &shape,
               OpBuilder &builder, Location loc, IRMapping memory, Value slots,
               llvm::DenseSet<Operation *> functions)
      : SimtValues(loops, shape.lanes, builder, loc, std::move(memory),
                   /*scratch=*/{}, std::move(functions)),
        shape(shape), slots(slots) {}

  void emit();

private:
  /// A vector of the thread's columns: where it lies, whether it is one of the
  /// row (null: it is), and its values of the current row.
  struct Columns {
    SmallVector<Value> point;
    Value isInRow;
    Known known;
  };

  void setColumns();
  /// Emits `body` by `inner` at the point of `columns`, with what is known
  /// there.
  void atColumns(Columns &columns, llvm::function_ref<void()> body);
  SmallVector<Value> getNeutrals(ArrayRef<linalg::GenericOp> ops,
                                 SmallVectorImpl<Value> *zeros = nullptr);
  void forgetRow();
  /// `sums`: of the first vector all results of all column sums, then of the
  /// next.
  void emitRow(MutableArrayRef<Value> sums);
  void emitStage(unsigned stage, MutableArrayRef<Value> sums);
  void emitPoint(unsigned stage, Value isInRow, MutableArrayRef<Value> partials,
                 MutableArrayRef<Value> sums);
  void finishReductions(unsigned stage, ArrayRef<Value> partials);
  void storeSums(ArrayRef<Value> sums);

  const SweepShape &shape;
  Value slots, thread;
  SmallVector<Columns> columns;
  /// The slots of the current row are from here on: those of two rows that
  /// follow each other are apart, since threads that still read those of one
  /// and others that write those of the next have no barrier between them.
  Value rowSlots;
  int64_t usedSlots = 0;
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_KERNELS_CUDA_SWEEPEMITTER_H
