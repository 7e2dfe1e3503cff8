//===- Distribution.h - What ranks hold of one value ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One program runs on all ranks, so a value differs between them only in known
// ways: as replicas, shards and partial sums do (the placements of other
// systems), or because each rank has a batch of its own. This is the lattice of
// these ways, and how kernels carry them from their inputs to their results.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_DISTRIBUTION_H
#define FSDP_ANALYSIS_STEP_DISTRIBUTION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/SmallBitVector.h"

#include <optional>

namespace mlir::fsdp {

/// Axes of the mesh by bits.
using Axes = uint64_t;

/// How many ranks' results have been added up, and what that has been divided
/// by. Where both are equal, it is a mean.
struct RankSum {
  int64_t ranks = 1, divisor = 1;
  bool isMean() const { return ranks == divisor; }
  bool operator==(const RankSum &o) const {
    return ranks == o.ranks && divisor == o.divisor;
  }
};

/// Of a value, how those ranks' differ that differ in one axis of the mesh
/// only.
struct Distribution {
  /// Why a value cannot be what its maker wanted. Places of kernel's inputs.
  struct Fault {
    enum Kind {
      /// Of partial sums along `axes` and what is complete there.
      Mixed,
      /// Of partial sums along `axes`, something that is no sum of what ranks
      /// would get.
      NotLinear,
      /// Of sums that are divided by different numbers.
      Sums
    } kind;
    Axes axes = 0;
    /// The partial sum (or one of the sums), and what it is computed with.
    llvm::SmallBitVector partial, other;
    RankSum sum, otherSum;
  };

  /// Anything: each rank has its own batch.
  Axes batch = 0;
  /// Elements of a whole of which each rank holds a part.
  Axes shard = 0;
  /// What is computed of a rank's part, and is to be added up. With shard:
  /// nobody knows which of the two.
  Axes partial = 0;
  /// Along which what differed has been reduced.
  Axes reduced = 0;
  RankSum sum;
  /// Zero everywhere.
  bool isZero = false;
  /// The first one.
  std::optional<Fault> fault;
  /// In a kernel: the inputs that it is computed of.
  llvm::SmallBitVector inputs;

  /// What is a partial sum for certain.
  Axes getPartial() const { return partial & ~shard & ~batch; }
  /// What is a shard for certain.
  Axes getShard() const { return shard & ~partial & ~batch; }
  Axes getDiffering() const { return batch | shard | partial; }

  /// Parts of one value, or elements of it in other places.
  static Distribution join(ArrayRef<Distribution> parts);
  /// Nobody knows what is computed of @operands.
  static Distribution getUnknown(ArrayRef<Distribution> operands);
  /// a + b, a - b, or one of the two. Does not depend on their order.
  static Distribution add(const Distribution &a, const Distribution &b);
  /// a * b. Does not depend on their order.
  static Distribution multiply(const Distribution &a, const Distribution &b);
  /// Of each element alone, not linear in any of @operands.
  static Distribution apply(ArrayRef<Distribution> operands);
  /// The sum over a dimension of a tensor.
  Distribution reduce() const;
};

/// What @kernel computes of inputs like @inputs; one per result. Destinations
/// hold what @tied says (a place in inputs, or -1), as fsdp.launch's.
SmallVector<Distribution> distribute(func::FuncOp kernel,
                                     ArrayRef<Distribution> inputs,
                                     ArrayRef<int64_t> tied);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_DISTRIBUTION_H
