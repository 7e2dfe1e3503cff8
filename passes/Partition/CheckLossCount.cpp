//===- CheckLossCount.cpp - No update by a sum over nothing ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PartitionUtils.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "llvm/ADT/SetVector.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_CHECKLOSSCOUNT
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// What the gradients that @program updates by are divided by, where its loss
/// is a sum.
static SmallVector<Value> getDivisors(ProgramOp program) {
  llvm::SetVector<Value> divisors;
  if (getResultsWith(program, names::kLossCount).empty())
    return {};
  for (Operation &op : program.getBody().front()) {
    if (auto reduce = dyn_cast<ReduceGradOp>(op); reduce && reduce.getOver())
      divisors.insert(reduce.getOver());
    if (auto reduce = dyn_cast<ReduceAccumulatedOp>(op))
      divisors.insert(reduce.getWeight());
  }
  return divisors.takeVector();
}

/// Not of NaN either.
static void assertPositive(Value divisor) {
  OpBuilder builder(divisor.getContext());
  builder.setInsertionPointAfterValue(divisor);
  Location loc = divisor.getLoc();
  Value number = tensor::ExtractOp::create(builder, loc, divisor, ValueRange());
  Value zero = arith::ConstantOp::create(
      builder, loc, builder.getFloatAttr(number.getType(), 0.0));
  Value holds = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT,
                                      number, zero);
  cf::AssertOp::create(
      builder, loc, holds,
      "expected a loss_count above 0 of all ranks and micro-batches of a step "
      "together, got none: no label counts");
}

namespace {
struct CheckLossCount : fsdp::impl::CheckLossCountBase<CheckLossCount> {
  void runOnOperation() override {
    SmallVector<Value> divisors = getDivisors(getOperation());
    if (divisors.empty())
      return markAllAnalysesPreserved();
    llvm::for_each(divisors, assertPositive);
  }
};
} // namespace
