//===- BoundRate.cpp - Optimizers that divide by the rate -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// torch.optim's capturable optimizers divide by what they multiply with the
// rate: at a rate of 0, and where a second moment is 0, that is 0 / 0. Where a
// divisor depends on the scalar `lr`, the function computes with a rate of at
// least kLeastRate. In all of the function, not for that division alone: its
// results are then those of one rate, and one so small changes a parameter by
// less than any rounding, unless the parameter is itself about that small.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/OptimizerContract.h"
#include "fsdp/Passes/Elementwise.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_BOUNDRATE
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Its square, and its product with a usual eps, are normal numbers of f32.
static constexpr double kLeastRate = 0x1p-60;

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

static bool dividesBy(Operation &op, const llvm::DenseSet<Value> &values) {
  if (isa<arith::DivFOp>(op))
    return values.contains(op.getOperand(1));
  return isa<math::RsqrtOp>(op) && values.contains(op.getOperand(0));
}

/// The first division by what depends on the rate, or null.
static Operation *findDivisionByRate(BlockArgument rate) {
  llvm::DenseSet<Value> values{rate};
  addDependents(*rate.getOwner(), values);
  Operation *division = nullptr;
  rate.getOwner()->walk([&](Operation *op) {
    if (!dividesBy(*op, values))
      return WalkResult::advance();
    division = op;
    return WalkResult::interrupt();
  });
  return division;
}

static BlockArgument findRate(const OptimizerFunction &optimizer) {
  func::FuncOp func = optimizer.func;
  for (auto [value, argument] :
       llvm::zip_equal(optimizer.args, func.getArguments()))
    if (value.role == OptimizerRole::Scalar &&
        value.name == scalars::learningRate.name)
      return argument;
  return {};
}

//===----------------------------------------------------------------------===//
// Decision
//===----------------------------------------------------------------------===//

/// Whether the type has so small numbers as normal ones.
static bool holdsLeastRate(Type type) {
  auto floatType = dyn_cast<FloatType>(type);
  return floatType &&
         APFloat::getSmallestNormalized(floatType.getFloatSemantics())
                 .convertToDouble() <= kLeastRate;
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

/// |rate| < least ? least : rate, which leaves NaN as it is.
static void bound(BlockArgument rate) {
  OpBuilder builder = OpBuilder::atBlockBegin(rate.getOwner());
  Value bounded = createElementwise(
      builder, rate.getLoc(), cast<RankedTensorType>(rate.getType()), rate,
      [](OpBuilder &b, Location l, ValueRange v) -> Value {
        Value least = arith::ConstantOp::create(
            b, l, b.getFloatAttr(v[0].getType(), kLeastRate));
        Value size = math::AbsFOp::create(b, l, v[0]);
        Value isLess =
            arith::CmpFOp::create(b, l, arith::CmpFPredicate::OLT, size, least);
        return arith::SelectOp::create(b, l, isLess, least, v[0]);
      });
  rate.replaceAllUsesExcept(bounded, bounded.getDefiningOp());
}

namespace {
struct BoundRate : fsdp::impl::BoundRateBase<BoundRate> {
  using BoundRateBase::BoundRateBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!module.lookupSymbol(names::kForwardBackward) ||
        !module.lookupSymbol(names::kOptimizer))
      return markAllAnalysesPreserved();
    FailureOr<OptimizerFunction> optimizer = readOptimizer(module);
    if (failed(optimizer))
      return signalPassFailure();
    BlockArgument rate = findRate(*optimizer);
    Operation *division = rate ? findDivisionByRate(rate) : nullptr;
    if (!division)
      return markAllAnalysesPreserved();
    Type type = cast<RankedTensorType>(rate.getType()).getElementType();
    if (!holdsLeastRate(type)) {
      division->emitWarning("a rate of 0 divides by 0 here: expected the "
                            "scalar lr as f32, bf16 or f64, got ")
          << type;
      return markAllAnalysesPreserved();
    }
    bound(rate);
  }
};
} // namespace
