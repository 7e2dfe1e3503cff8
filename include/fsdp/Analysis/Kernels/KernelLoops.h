//===- KernelLoops.h - How a fused kernel is run ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything an emitter must know of a kernel function that consists of loop
// ops: its loops, which one is vectorised, where every operand lies in memory,
// and what is computed in which pass over the inner points.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_KERNELS_KERNELLOOPS_H
#define FSDP_ANALYSIS_KERNELS_KERNELLOOPS_H

#include "fsdp/Analysis/Kernels/KernelDomain.h"
#include "fsdp/Analysis/Kernels/StridedLayout.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/EquivalenceClasses.h"

#include <string>
#include <variant>

namespace mlir::fsdp {

/// A loop of the kernel: some atoms that lie in memory as one, everywhere.
struct KernelLoop {
  int64_t size;
  bool inner;
  /// An outer loop that column sums reduce over: one item of the grid runs all
  /// of its points, one after another.
  bool swept = false;
};

/// Elements of `source` (an argument or a constant), by loop.
struct KernelAccess {
  Value source;
  int64_t offset = 0;
  /// One per loop of the kernel; 0 where the operand does not depend on it.
  SmallVector<int64_t> strides;
};

/// A pass over the inner points of a work item.
struct KernelStage {
  /// Reductions that run in it.
  SmallVector<linalg::GenericOp> reductions;
  /// Sums over swept loops, to which it adds at every inner point.
  SmallVector<linalg::GenericOp> columnSums;
  /// Results that are written in it, at every inner point.
  SmallVector<OpResult> stores;
};

class KernelLoops {
public:
  /// Analyses a kernel function; on failure `why` says what it has that no
  /// loop kernel can.
  static std::optional<KernelLoops> create(func::FuncOp kernel,
                                           std::string &why);

  /// Outer loops first, then inner ones; each part outermost first.
  ArrayRef<KernelLoop> getLoops() const { return loops; }
  /// The loop whose points are computed several at a time; -1 for scalars.
  int getLane() const { return lane; }
  /// Whether work items run over the lane's points (then reductions stay in
  /// lanes), rather than reducing over them.
  bool isLaneOuter() const { return lane >= 0 && !loops[lane].inner; }

  ArrayRef<KernelStage> getStages() const { return stages; }
  /// Results written once per work item, behind the last stage.
  ArrayRef<OpResult> getItemStores() const { return itemStores; }
  /// Column sums: reductions over swept loops that the kernel writes once for
  /// each inner point, after the last point of these loops. Nothing in the
  /// kernel reads them.
  ArrayRef<linalg::GenericOp> getColumnSums() const { return columnSums; }

  /// Where an operand of a loop op, read element by element, lies. Null where
  /// it is computed in the kernel or constant.
  const KernelAccess *getRead(OpOperand &operand) const;
  /// Where a result goes; null where it stays in the kernel.
  const KernelAccess *getWrite(OpResult result) const;
  /// All of these: what the kernel reads and writes at its points.
  SmallVector<const KernelAccess *> getAccesses() const;
  /// A linalg.index of `op` as a sum of strides over loops.
  KernelAccess getIndex(Operation *op, unsigned loop) const;

  /// The loop op that computes an operand inside the kernel, seen through
  /// reshapes; a null result where it is no such operand.
  OpResult getProducer(Value value) const;
  /// The constant that fills it, where it is one.
  TypedAttr getSplat(Value value) const;

  /// Whether an op's value differs between points of a loop.
  bool dependsOnInner(Operation *op) const { return innerOps.contains(op); }

  /// Whether an op reduces over the inner points. (A reduction over loops of
  /// size 1 does not: it happens once.)
  bool reducesInner(Operation *op) const;

  /// Results kept in scratch memory by the stage that first computes them, for
  /// later ones: what is expensive to compute again. In order of that stage.
  ArrayRef<OpResult> getScratch() const { return scratch; }
  /// The stage from which on a result can be loaded instead of computed; the
  /// number of stages where it is never stored.
  unsigned getAvailableFrom(OpResult result) const;

  /// Points of all inner loops.
  int64_t getInnerSize() const;
  /// Points of all outer loops, swept ones too.
  int64_t getItemCount() const;
  /// Points of swept loops.
  int64_t getSweptSize() const;
  /// Bytes that must be read and written once, whatever the code looks like.
  int64_t getTrafficBytes() const;

private:
  explicit KernelLoops(func::FuncOp kernel) : kernel(kernel) {}

  /// Operands that a body reads: inputs, and inits whose elements it uses.
  static SmallVector<OpOperand *> getReadOperands(linalg::GenericOp op);

  LogicalResult collectOps(std::string &why);
  SmallVector<Operation *> getRoots() const;
  bool isReadInside(Operation *op) const;
  LogicalResult connectOps(std::string &why);
  void connectSiblings(llvm::EquivalenceClasses<Operation *> &parts);
  void connectStrangers(llvm::EquivalenceClasses<Operation *> &parts);
  LogicalResult collectAccesses(std::string &why);
  LogicalResult chooseGrid(std::string &why);
  void chooseLane();
  void mergeLoops();
  void assignStages();
  void chooseScratch();

  LogicalResult addRead(linalg::GenericOp op, OpOperand &operand,
                        std::string &why);
  unsigned getStage(Operation *op);
  void collectDemand(Value value, unsigned stage,
                     llvm::SetVector<OpResult> &demand) const;
  int64_t getRecomputeCost(OpResult result) const;

  func::FuncOp kernel;
  KernelDomain domain;
  SmallVector<linalg::GenericOp> ops;
  /// Returned values and their destinations.
  SmallVector<std::pair<OpResult, Value>> outputs;
  /// Atoms of each loop, while loops are formed.
  SmallVector<IndexSpace::AtomList> loopAtoms;
  SmallVector<KernelLoop> loops;
  int lane = -1;

  /// Strided accesses by atom, then by loop.
  struct AtomAccess {
    KernelAccess access;
    IndexSpace::AtomList atoms;
    SmallVector<StridedDim, 4> dims;
  };
  llvm::MapVector<OpOperand *, AtomAccess> reads;
  llvm::MapVector<OpResult, AtomAccess> writes;
  llvm::MapVector<std::pair<Operation *, unsigned>, AtomAccess> indices;
  void resolve(AtomAccess &access) const;
  SmallVector<AtomAccess *> getAtomAccesses();

  llvm::SmallPtrSet<Operation *, 16> innerOps;
  llvm::DenseMap<Operation *, unsigned> stageOf;
  SmallVector<KernelStage> stages;
  SmallVector<OpResult> itemStores;
  SmallVector<linalg::GenericOp> columnSums;
  SmallVector<OpResult> scratch;
  llvm::DenseMap<OpResult, unsigned> availableFrom;
};

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_KERNELS_KERNELLOOPS_H
