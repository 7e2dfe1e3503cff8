//===- RoundedFunctions.cpp - Functions whose values are rounded ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A backward data-flow analysis over the uses of values in a kernel: what its
// tensors are made of, element by element, and where they end.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/RoundedFunctions.h"
#include "fsdp/Analysis/Kernels/ComputeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// Where a value ends: what depends on it is rounded to 16 bits, is added up
/// without, or is neither.
struct Ends {
  bool areRounded = false, areSums = false, areOthers = false;

  void join(const Ends &other) {
    areRounded |= other.areRounded;
    areSums |= other.areSums;
    areOthers |= other.areOthers;
  }
  static Ends ofRounded() { return {true, false, false}; }
  static Ends ofSums() { return {false, true, false}; }
  static Ends ofOthers() { return {false, false, true}; }
};

class UseAnalysis {
public:
  Ends get(Value value);

private:
  Ends compute(Value value);
  Ends ofUse(OpOperand &use);
  Ends ofResult(linalg::GenericOp op, unsigned result);

  llvm::DenseMap<Value, Ends> known;
};
} // namespace

static bool isNarrowFloat(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isBF16() || element.isF16();
}

static bool isFloat(Type type) {
  return isa<FloatType>(getElementTypeOrSelf(type));
}

Ends UseAnalysis::get(Value value) {
  if (auto it = known.find(value); it != known.end())
    return it->second;
  // What a value of a loop depends on is not followed around it.
  known[value] = Ends::ofOthers();
  Ends ends = compute(value);
  known[value] = ends;
  return ends;
}

Ends UseAnalysis::compute(Value value) {
  if (isNarrowFloat(value.getType()))
    return Ends::ofRounded();
  if (!isFloat(value.getType()))
    return Ends::ofOthers();
  Ends ends;
  for (OpOperand &use : value.getUses())
    ends.join(ofUse(use));
  return ends;
}

/// Result `result` of `op`, which is stored as it is where `op` adds up.
Ends UseAnalysis::ofResult(linalg::GenericOp op, unsigned result) {
  Value tensor = op.getResult(result);
  Ends ends = get(tensor);
  bool isSum = op.getNumReductionLoops() != 0 &&
               isa_and_nonnull<arith::AddFOp>(getCombiner(op, result));
  if (!isSum || !ends.areOthers)
    return ends;
  bool isStored =
      llvm::all_of(tensor.getUsers(),
                   llvm::IsaPred<bufferization::MaterializeInDestinationOp>);
  return isStored ? Ends::ofSums() : ends;
}

Ends UseAnalysis::ofUse(OpOperand &use) {
  Operation *user = use.getOwner();
  if (isa<linalg::YieldOp>(user)) {
    if (auto op = dyn_cast<linalg::GenericOp>(user->getParentOp()))
      return ofResult(op, use.getOperandNumber());
    return Ends::ofOthers();
  }
  if (auto op = dyn_cast<linalg::GenericOp>(user))
    return get(op.getMatchingBlockArgument(&use));
  // Where these step, the least error of what they are computed of is large.
  if (isa<math::FloorOp, math::CeilOp, math::RoundOp, math::RoundEvenOp,
          math::TruncOp, arith::RemFOp>(user))
    return Ends::ofOthers();
  // Of views each element is one of the tensor's.
  bool isView = isa<tensor::ExtractSliceOp, tensor::CollapseShapeOp,
                    tensor::ExpandShapeOp, tensor::CastOp>(user);
  bool isArithmetic =
      isa<arith::ArithDialect, math::MathDialect>(user->getDialect()) &&
      !(isa<arith::SelectOp>(user) && use.getOperandNumber() == 0);
  if (user->getNumResults() == 1 && (isView || isArithmetic))
    return get(user->getResult(0));
  return Ends::ofOthers();
}

llvm::DenseSet<Operation *> fsdp::findRoundedFunctions(func::FuncOp kernel) {
  UseAnalysis uses;
  llvm::DenseSet<Operation *> found;
  kernel.walk([&](Operation *op) {
    if (!isa<math::ExpOp, math::Exp2Op, math::TanhOp, math::ErfOp,
             arith::DivFOp>(op))
      return;
    Type type = getElementTypeOrSelf(op->getResult(0).getType());
    if (!type.isF32() && !isNarrowFloat(type))
      return;
    Ends ends = uses.get(op->getResult(0));
    if (ends.areRounded && !ends.areOthers)
      found.insert(op);
  });
  return found;
}
