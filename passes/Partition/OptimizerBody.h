//===- OptimizerBody.h - The optimizer on one shard -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Copies the body of @optimizer, with the size of a shard where it has a
// dynamic one. A shard that several groups of parameters share is cut into
// runs, each with scalars of its own:
//
//   flat parameter | run 0 (lr, decay)        | run 1 (lr, 0)       |
//   shards         | rank 0      | rank 1      | rank 2     | rank 3 |
//
// Ops of rank 0 are copied once for each run where what they read differs among
// runs. Elementwise ops are copied once: where they read such a value, they
// select it by the element's place in the flat parameter, which is a compare
// and a select an element and further run. So there is one kernel, of one pass
// over memory, for any number of runs.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PARTITION_OPTIMIZERBODY_H
#define FSDP_PASSES_PARTITION_OPTIMIZERBODY_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::fsdp {

/// Where the runs of a flat parameter are in this rank's shard.
struct ShardRuns {
  /// Where runs but the first begin, in elements of the flat parameter.
  SmallVector<int64_t> borders;
  /// The rank's number, a tensor<i64>; null where there is one run.
  Value rank;
  /// Factors of the shard's place: (rank / stride) % size of each axis that
  /// cuts the flat parameter, outermost first.
  struct Axis {
    int64_t stride, size;
  };
  SmallVector<Axis> axes;
  /// Elements of a shard.
  int64_t shardNumel = 0;

  static ShardRuns get(FlatParamOp flat, MeshOp mesh, Value rank);
  unsigned size() const { return borders.size() + 1; }
};

/// Copies ops one after another.
class OptimizerInliner {
public:
  OptimizerInliner(OpBuilder &builder, const ShardRuns &runs)
      : builder(builder), runs(runs), maps(runs.size()) {}

  /// @formal is @actual in all runs.
  void map(Value formal, Value actual);
  /// @formal is @actual in one run.
  void map(Value formal, Value actual, unsigned run) {
    maps[run].map(formal, actual);
  }
  /// Where all arguments are mapped, and before the first op of @body is
  /// copied.
  void findDependents(Block &body);
  /// Fails, without an error, where the op has no such copy: it is not
  /// elementwise on flat tensors.
  LogicalResult copy(Operation &op);
  /// Whether the op reads a value, also inside of a region, that differs among
  /// runs.
  bool readsDifferent(Operation &op) const;
  /// What a result became; null where that differs among runs.
  Value lookup(Value formal) const;

private:
  /// A value of the function, in each run.
  SmallVector<Value> getByRun(Value formal) const;
  bool differs(Value formal) const;
  /// Results of rank 0 that do not depend on what differs are those of the
  /// first copy.
  void copyByRun(Operation &op);
  LogicalResult copyOnce(Operation &op);
  /// One loop over a flat tensor that reads values that differ.
  LogicalResult copySelecting(linalg::GenericOp op);
  /// A flat tensor of one value, which differs.
  void createSelected(Location loc, Value scalar, Value formal);
  /// @values by the run of the element of this iteration. Inside of a loop
  /// over the shard.
  Value createSelect(OpBuilder &nested, Location loc, Value rank,
                     ValueRange values) const;
  Type getSizedType(Type type) const;

  OpBuilder &builder;
  const ShardRuns &runs;
  SmallVector<IRMapping> maps;
  /// Values of the function that depend on arguments that differ among runs.
  llvm::DenseSet<Value> dependents;
};

} // namespace mlir::fsdp

#endif // FSDP_PASSES_PARTITION_OPTIMIZERBODY_H
