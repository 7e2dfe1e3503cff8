//===- KernelDomain.h - The loops of a fused kernel -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A fused kernel runs its loop ops over one grid of independent work items;
// inside an item, loops over the inner atoms follow each other:
//
//     for every item of the grid            (rows of a softmax)
//       for every inner point: reduce ...   (its columns)
//       for every inner point: reduce, store ...
//
// In a sweep, items that column sums reduce over run one after another:
//
//     for every chunk of the grid
//       for every item of the chunk         (rows of a norm's gradient)
//         for every inner point: reduce ... (its columns)
//         for every inner point: store ..., add to the sum of the column
//       for every inner point: store the sum of the column
//
// Which ops may share a kernel is decided here, from index spaces alone.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_KERNELS_KERNELDOMAIN_H
#define FSDP_ANALYSIS_KERNELS_KERNELDOMAIN_H

#include "fsdp/Analysis/Kernels/IndexSpace.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <optional>

namespace mlir::fsdp {

/// The levels of loops of a kernel.
struct KernelGrid {
  /// Loops every root but column sums is parallel in; items are independent.
  IndexSpace::AtomList items;
  /// Loops inside an item; a root runs over all of them or none.
  IndexSpace::AtomList inner;
  /// Of `items`, those that column sums reduce over.
  IndexSpace::AtomList swept;
};

/// Columns of a sweep at most, and at least: a block has up to 1024 threads,
/// and no fewer than a warp.
constexpr int64_t kMostSweptColumns = 8192, kFewestSweptColumns = 32;
/// Registers that the sums of all columns take at most: half of those that 1024
/// threads have.
constexpr int64_t kMostSweptWords = 32768;
/// Chunks of a sweep at least, since a block does all of one; and sums of all
/// chunks, of which a thread has four or so.
constexpr int64_t kFewestChunks = 64, kFewestSums = 131072;

/// Whether @op sums rows: neighbouring elements of the operand that walks all
/// of its loops belong to different results.
bool isColumnSum(linalg::GenericOp op);

/// Loop ops (ComputeOps.h) and the atoms their loops are made of.
class KernelDomain {
public:
  KernelDomain() = default;
  explicit KernelDomain(linalg::GenericOp op) { add(op); }

  /// Adds an op with loops of its own.
  void add(linalg::GenericOp op);

  /// Adds the ops of another domain; loops stay separate until connected.
  void append(const KernelDomain &other);

  /// Makes the points of two operands (or results) the same, in row-major
  /// order. Fails where they do not fit, or where an op would read two
  /// different points of a loop at once; the domain is then unusable.
  bool connect(OpOperand &a, OpOperand &b);

  /// Ops that read nothing of each other but the same values run over the same
  /// points of these, where they fit. `readers`: of each value, the operands
  /// that read all of it in order; the value that decides first comes first.
  /// `parts`: ops that are connected, before and after.
  void connectReaders(ArrayRef<SmallVector<OpOperand *>> readers,
                      llvm::EquivalenceClasses<Operation *> &parts);

  /// Joins the inner loops of roots (those that are not parallel loops of every
  /// root) that have no atom in common, in row-major order: a root that sums
  /// rows and one that scales rows of another tensor by the sums then run over
  /// the same rows. Loops stay apart where their sizes do not fit, or where
  /// they end in the innermost dimension of memory for one root alone.
  void alignInnerLoops(ArrayRef<Operation *> roots);

  /// The grid for the given roots (reductions, and ops whose results leave the
  /// kernel); nullopt where the roots do not fit two levels.
  std::optional<KernelGrid> getGrid(ArrayRef<Operation *> roots) const;

  /// The grid of a sweep, where `sums`, column sums that no other op of the
  /// kernel reads, share the items of `rows`, of which one at least reduces.
  /// The sums reduce over the same item loops, and have results for all inner
  /// points of each of the others. nullopt where they do not fit, take more
  /// registers than a block has, or leave most of a device idle.
  std::optional<KernelGrid> getSweep(ArrayRef<Operation *> rows,
                                     ArrayRef<Operation *> sums) const;
  /// The same of a kernel with roots `roots`, of which those that isColumnSum()
  /// accepts and no op of the kernel reads (`isRead`) move to `sums`. The inner
  /// loops of the others are aligned where that is necessary, which sets
  /// `isAligned`.
  std::optional<KernelGrid>
  findSweep(SmallVector<Operation *> &roots, SmallVector<Operation *> &sums,
            llvm::function_ref<bool(Operation *)> isRead, bool &isAligned);

  bool contains(Operation *op) const { return loops.contains(op); }
  /// Atoms of all loops, outermost first.
  IndexSpace::AtomList getAtoms(Operation *op) const;
  /// Atoms of the loops that `map` (of `op`) walks over, in its order.
  IndexSpace::AtomList getAtoms(Operation *op, AffineMap map) const;
  /// Atoms of one loop.
  IndexSpace::AtomList getLoopAtoms(Operation *op, unsigned loop) const;

  IndexSpace &getSpace() { return space; }
  const IndexSpace &getSpace() const { return space; }
  /// The ops, in the order they were added.
  auto getOps() const { return llvm::make_first_range(loops); }

private:
  /// Whether the last of @atoms, of loops of @op, is the innermost dimension of
  /// the operand that walks most of its loops.
  bool isContiguous(Operation *op, ArrayRef<IndexSpace::Atom> atoms) const;
  /// No op runs over one atom in two of its loops.
  bool hasDistinctLoops() const;

  IndexSpace space;
  llvm::MapVector<Operation *, SmallVector<IndexSpace::AtomList>> loops;
};

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_KERNELS_KERNELDOMAIN_H
