//===- StepDistributions.h - How a step differs between ranks ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_STEP_STEPDISTRIBUTIONS_H
#define FSDP_LIB_ANALYSIS_STEP_STEPDISTRIBUTIONS_H

#include "fsdp/Analysis/Step/Distribution.h"
#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Schedule/StepProgram.h"

#include "mlir/IR/SymbolTable.h"

#include <deque>

namespace mlir::fsdp {

/// Whether each rank has an argument of its own when the program begins: a
/// tensor of its batch, or what it draws random numbers by.
bool isOfBatch(ProgramOp program, unsigned argument);

/// A value that is not what its maker wanted, in @op.
struct StepFault {
  Operation *op;
  Distribution::Fault fault;
};

/// How a value differs between ranks.
struct ValueDistribution {
  Distribution form;
  /// The first of those it is computed of.
  const StepFault *fault = nullptr;
};

/// How the values of a step differ between ranks, and which reductions of
/// gradients each is computed of.
class StepDistributions {
public:
  /// @program is that of @step, and @origins the op of each of its ops.
  StepDistributions(ProgramOp step, MeshOp mesh,
                    const sched::StepProgram &program,
                    ArrayRef<Operation *> origins);

  /// Follows the values through all ops. Reports collectives along axes that
  /// they cannot be along.
  LogicalResult run();

  ValueDistribution lookup(Value value) const {
    return known.lookup(getWholeValue(value));
  }

  /// From @value back through the step; @visitValue says whether to go on.
  void walkBack(Value value, function_ref<bool(Value)> visitValue) const;
  /// The reduced gradients, shards and states that @value is computed of.
  SmallVector<Value> getSources(Value value) const;
  /// "'h.0'", "'h.0' and 2 others": the units that @value is computed of.
  std::string nameUnits(Value value) const;
  /// Whether a reduction has made @value of batches: a gradient, the loss.
  bool isReducedBatch(Value value) const {
    return reducedBatches.contains(value);
  }

  const ProgramStates &getStates() const { return states; }
  /// Those with more than one rank.
  Axes getAxes(ArrayAttr names) const;
  std::string describe(Axes axes) const;
  /// The flat parameter that @state, which may be null, is laid out like.
  FlatParamOp getFlatParam(StateOp state) const;
  /// Whether the gradients of @flat, which may be null, are not reduced.
  static bool isIgnored(FlatParamOp flat) {
    return flat && flat.getShardAxes().empty() &&
           flat.getReplicateAxes().empty();
  }
  /// How an accumulator differs. A sharded one has the sums of reduce-scatters
  /// over the shard axes, divided as convert-fsdp-logical-to-collectives says;
  /// a whole one what ranks computed of their batches.
  Distribution getAccumulated(StateOp state) const;

private:
  int64_t countRanks(Axes axes) const;
  void nameTransfers(const sched::StepProgram &program,
                     ArrayRef<Operation *> origins);
  void addArguments();
  LogicalResult visit(Operation &op);
  bool updatesUnitReducedIn(CollectiveOpInterface op, Type type) const;
  LogicalResult checkType(CollectiveOpInterface op);
  LogicalResult visitCollective(CollectiveOpInterface op);
  LogicalResult gather(CollectiveOpInterface op, Distribution &form);
  LogicalResult reduce(CollectiveOpInterface op, bool isScattered,
                       Distribution &form);
  LogicalResult exchange(CollectiveOpInterface op, Distribution &form);
  void visitLaunch(LaunchOp op);
  ValueDistribution joinOperands(Operation &op);
  LogicalResult fail(Operation *op, const Twine &expected, Axes axes,
                     const Twine &got) {
    return op->emitOpError("expected ")
           << expected << " along " << describe(axes) << ", got " << got;
  }

  SymbolTable symbols;
  ProgramOp step;
  ProgramStates states;
  /// Of the mesh.
  SmallVector<MeshAxisAttr> meshAxes;
  /// All with more than one rank.
  Axes all = 0;
  llvm::DenseMap<Value, ValueDistribution> known;
  llvm::DenseSet<Value> reducedBatches;
  /// Of transfers: the unit that they are for.
  llvm::DenseMap<Operation *, StringRef> units;
  std::deque<StepFault> faults;
};

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_STEP_STEPDISTRIBUTIONS_H
