//===- ScaleLoss.cpp - The loss's scale, and gradients without it ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With the scale S, a constant or a state, the gradients g that backward makes
// are those of S times the loss. Norm, clipping and update take g * (1 / S). A
// dynamic scale is followed by
//
//   S * backoff, T = 0        where the norm is not finite
//   S * growth, T = 0         where T + 1 is the interval, and that is finite
//   S, T + 1                  else
//
// with T the finite steps since it changed. Source: _amp_update_scale_ of
// PyTorch (torch.amp.GradScaler), Micikevicius et al., "Mixed precision
// training", arXiv:1710.03740, section 3.2.
//
//===----------------------------------------------------------------------===//

#include "PartitionUtils.h"
#include "fsdp/Analysis/Step/LossScale.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_SCALELOSS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
struct ScaleLoss : fsdp::impl::ScaleLossBase<ScaleLoss> {
  using ScaleLossBase::ScaleLossBase;

  void runOnOperation() override;

private:
  FailureOr<StateOp> createState(StringRef name, Type element, double init);
  LogicalResult createStates();
  void scale(ProgramOp program);
  void divideGradients(ProgramOp program, Value scale);
  void followNorm(ProgramOp program, BlockArgument old, GradNormOp norm);

  LossScale spec;
  /// Of a dynamic scale: it, and the finite steps since it changed.
  StateOp scaleState, trackerState;
};
} // namespace

static Value createNumber(OpBuilder &builder, Location loc, double value) {
  return arith::ConstantOp::create(builder, loc,
                                   builder.getF32FloatAttr(float(value)));
}

/// @number * @factor, in f64 and rounded once, as torch.amp.GradScaler has it.
static Value multiplyWide(OpBuilder &builder, Location loc, Value number,
                          double factor) {
  Type wide = builder.getF64Type();
  Value product = arith::MulFOp::create(
      builder, loc, arith::ExtFOp::create(builder, loc, wide, number),
      arith::ConstantOp::create(builder, loc, builder.getF64FloatAttr(factor)));
  return arith::TruncFOp::create(builder, loc, number.getType(), product);
}

FailureOr<StateOp> ScaleLoss::createState(StringRef name, Type element,
                                          double init) {
  ModuleOp module = getOperation();
  Operation *last = nullptr;
  for (auto state : module.getOps<StateOp>()) {
    if (state.getKind() == StateKind::optimizer &&
        state.getCheckpointName() == name) {
      InFlightDiagnostic diag =
          emitInputError(module, "expected a name other than '")
          << name << "' for a state of @optimizer beside loss-scale";
      diag.attachNote(state.getLoc()) << "it is here";
      return diag;
    }
    last = state;
  }
  OpBuilder builder(&getContext());
  if (last)
    builder.setInsertionPointAfter(last);
  else
    builder.setInsertionPointToStart(module.getBody());
  auto state = StateOp::create(
      builder, last ? last->getLoc() : module.getLoc(),
      builder.getStringAttr(StringRef(names::kOptimizer) + "." + name),
      StateKind::optimizer, builder.getStringAttr(name), FlatSymbolRefAttr(),
      builder.getF64FloatAttr(init), /*tied=*/ArrayAttr(),
      /*is_unsigned=*/false, RankedTensorType::get({}, element),
      /*offset=*/IntegerAttr());
  SymbolTable(module).insert(state);
  return state;
}

LogicalResult ScaleLoss::createStates() {
  Builder builder(&getContext());
  FailureOr<StateOp> scale =
      createState("loss_scale", builder.getF32Type(), spec.init);
  if (failed(scale))
    return failure();
  FailureOr<StateOp> tracker =
      createState("loss_scale_growth", builder.getI32Type(), 0);
  if (failed(tracker))
    return failure();
  scaleState = *scale;
  trackerState = *tracker;
  getOperation()->setAttr(
      names::kLossScale,
      builder.getDictionaryAttr(
          {builder.getNamedAttr("backoff",
                                builder.getF64FloatAttr(spec.backoff)),
           builder.getNamedAttr("min", builder.getF64FloatAttr(spec.least))}));
  return success();
}

/// 1 / @scale, which norm and updates multiply gradients by. Products of powers
/// of two are exact.
void ScaleLoss::divideGradients(ProgramOp program, Value scale) {
  OpBuilder builder = OpBuilder::atBlockBegin(&program.getBody().front());
  builder.setInsertionPointAfterValue(scale);
  auto type = cast<RankedTensorType>(scale.getType());
  auto multiply = [&](Value a, Value b) {
    return createElementwise(
        builder, a.getLoc(), type, {a, b},
        [](OpBuilder &b, Location l, ValueRange v) -> Value {
          return arith::MulFOp::create(b, l, v[0], v[1]);
        });
  };
  Value inverse = createElementwise(
      builder, program.getLoc(), type, scale,
      [](OpBuilder &b, Location l, ValueRange v) -> Value {
        return arith::DivFOp::create(b, l, createNumber(b, l, 1), v[0]);
      });
  for (auto norm : program.getOps<GradNormOp>())
    norm.getScaleMutable().assign(inverse);
  // By what clipping multiplies with.
  llvm::SmallDenseMap<Value, Value> products;
  for (auto update : program.getOps<UpdateOp>()) {
    Value clipped = update.getScale();
    Value &product = products[clipped];
    if (!product && clipped) {
      builder.setInsertionPointAfterValue(clipped);
      product = multiply(clipped, inverse);
    }
    update.getScaleMutable().assign(clipped ? product : inverse);
  }
}

void ScaleLoss::followNorm(ProgramOp program, BlockArgument old,
                           GradNormOp norm) {
  BlockArgument tracker = addStateArgument(program, trackerState);
  OpBuilder builder(program.getReturn());
  Location loc = norm.getLoc();
  auto isGrown = [&](OpBuilder &b, Location l, Value count) -> Value {
    return arith::CmpIOp::create(
        b, l, arith::CmpIPredicate::sge, count,
        arith::ConstantOp::create(b, l,
                                  b.getI32IntegerAttr(int32_t(spec.interval))));
  };
  auto countNext = [](OpBuilder &b, Location l, Value count) -> Value {
    return arith::AddIOp::create(
        b, l, count, arith::ConstantOp::create(b, l, b.getI32IntegerAttr(1)));
  };
  Value scale = createElementwise(
      builder, loc, cast<RankedTensorType>(old.getType()), {old, tracker, norm},
      [&](OpBuilder &b, Location l, ValueRange v) -> Value {
        Value grown = multiplyWide(b, l, v[0], spec.growth);
        Value less = multiplyWide(b, l, v[0], spec.backoff);
        Value grows =
            arith::AndIOp::create(b, l, isGrown(b, l, countNext(b, l, v[1])),
                                  createIsFinite(b, l, grown));
        Value more = arith::SelectOp::create(b, l, grows, grown, v[0]);
        return arith::SelectOp::create(b, l, createIsFinite(b, l, v[2]), more,
                                       less);
      });
  Value count = createElementwise(
      builder, loc, cast<RankedTensorType>(tracker.getType()), {tracker, norm},
      [&](OpBuilder &b, Location l, ValueRange v) -> Value {
        Value none = arith::ConstantOp::create(b, l, b.getI32IntegerAttr(0));
        Value next = countNext(b, l, v[0]);
        Value more =
            arith::SelectOp::create(b, l, isGrown(b, l, next), none, next);
        return arith::SelectOp::create(b, l, createIsFinite(b, l, v[1]), more,
                                       none);
      });
  appendResult(program, scale, names::kState,
               FlatSymbolRefAttr::get(scaleState));
  appendResult(program, count, names::kState,
               FlatSymbolRefAttr::get(trackerState));
  // What this step's loss was multiplied by.
  appendResult(program, old, names::kOutput,
               builder.getDictionaryAttr(builder.getNamedAttr(
                   "name", builder.getStringAttr("loss_scale"))));
}

void ScaleLoss::scale(ProgramOp program) {
  Value value;
  if (spec.isDynamic) {
    value = addStateArgument(program, scaleState);
  } else {
    OpBuilder builder = OpBuilder::atBlockBegin(&program.getBody().front());
    value = createScalar(builder, program.getLoc(), builder.getF32Type(),
                         spec.init);
  }
  for (auto op : llvm::make_early_inc_range(program.getOps<LossScaleOp>())) {
    op.replaceAllUsesWith(value);
    op.erase();
  }
  auto norms = program.getOps<GradNormOp>();
  if (norms.empty())
    return;
  divideGradients(program, value);
  if (spec.isDynamic)
    followNorm(program, cast<BlockArgument>(value), *norms.begin());
}

void ScaleLoss::runOnOperation() {
  if (lossScale.empty())
    return markAllAnalysesPreserved();
  ModuleOp module = getOperation();
  llvm::Expected<LossScale> parsed = LossScale::parse(lossScale);
  if (!parsed) {
    emitInputError(module, llvm::toString(parsed.takeError()));
    return signalPassFailure();
  }
  spec = *parsed;
  SmallVector<ProgramOp> programs;
  for (auto program : module.getOps<ProgramOp>())
    if (!program.getOps<LossScaleOp>().empty() ||
        !program.getOps<GradNormOp>().empty())
      programs.push_back(program);
  if (programs.empty())
    return markAllAnalysesPreserved();
  if (spec.isDynamic)
    for (ProgramOp program : programs)
      for (auto update : program.getOps<UpdateOp>())
        if (!update.getNorm()) {
          emitInputError(update, "expected an update that skips what is not "
                                 "finite (fsdp-apply-optimizer{skip-nonfinite="
                                 "true}) beside a dynamic loss-scale, got one "
                                 "without if_finite");
          return signalPassFailure();
        }
  if (spec.isDynamic && failed(createStates()))
    return signalPassFailure();
  for (ProgramOp program : programs)
    scale(program);
}
