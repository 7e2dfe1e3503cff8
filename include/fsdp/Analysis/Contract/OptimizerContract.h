//===- OptimizerContract.h - What an optimizer has to be --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_CONTRACT_OPTIMIZERCONTRACT_H
#define FSDP_ANALYSIS_CONTRACT_OPTIMIZERCONTRACT_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::fsdp {

/// An argument or a result of the optimizer.
struct OptimizerValue {
  OptimizerRole role;
  StringAttr name;
  RankedTensorType type;
  /// Initial value of a state, default of a scalar; null where there is none.
  FloatAttr init;
  /// A state with one element instead of one per parameter element.
  bool isScalarShaped() const { return type.getRank() == 0; }
};

/// The optimizer, read. `results` has roles Param and State only.
struct OptimizerFunction {
  func::FuncOp func;
  SmallVector<OptimizerValue> args;
  SmallVector<OptimizerValue> results;
  /// Scalars of groups of parameters, by the group's name: a dictionary of f64
  /// by scalar each. Null where there are none.
  DictionaryAttr groups;

  bool hasGroup(StringAttr name) const {
    return groups && groups.contains(name.getValue());
  }
  /// What the parameters of @group read for the scalar @name instead of its
  /// own value; null where they read that.
  FloatAttr getGroupScalar(StringAttr group, StringAttr name) const;
};

/// Adds to @values each value of @block, and of bodies of its ops, that is
/// computed from one of them. Elements of a linalg op's operands are arguments
/// of its body, and what that yields are its results; what other ops pass to
/// their bodies and back is not known here, so all of it depends on all.
/// Linear in the ops.
void addDependents(Block &block, llvm::DenseSet<Value> &values);

/// Reads `@optimizer` of `module`, which must be there.
FailureOr<OptimizerFunction> readOptimizer(ModuleOp module);

/// Reads an optimizer function that is already known to be one (later levels).
FailureOr<OptimizerFunction> readOptimizer(func::FuncOp func);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_CONTRACT_OPTIMIZERCONTRACT_H
