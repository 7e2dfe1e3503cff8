//===- ApplyReductionHooks.cpp - What hooks do, as ops --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PartitionUtils.h"
#include "ReductionTarget.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_APPLYREDUCTIONHOOKS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// The residuals of a module, which its programs share.
class Residuals {
public:
  explicit Residuals(ModuleOp module)
      : symbols(module), builder(module.getContext()) {
    for (auto state : module.getOps<StateOp>()) {
      if (state.getKind() == StateKind::residual)
        states[state.getCheckpointNameAttr()] = state;
      last = state;
    }
  }

  StateOp getOrCreate(FlatParamOp flat, StringRef name, RankedTensorType type,
                      DictionaryAttr init);

private:
  SymbolTable symbols;
  OpBuilder builder;
  llvm::DenseMap<Attribute, StateOp> states;
  Operation *last = nullptr;
};

/// A reduction of one program at L2.
class LocalReduction : public HookedReduction {
public:
  LocalReduction(const HookTarget &target, OpBuilder &builder, Location loc,
                 ProgramOp program, FlatParamOp flat, Residuals &residuals)
      : HookedReduction(target, builder, loc), program(program), flat(flat),
        residuals(residuals) {}

  Value allReduce(Value value) override;
  Value view(Value flat, int64_t offset, ArrayRef<int64_t> shape) override;
  Value pack(ValueRange parts, ArrayRef<int64_t> offsets,
             int64_t numel) override;
  Value getState(StringRef name, RankedTensorType type,
                 DictionaryAttr init) override;
  void setState(StringRef name, Value value) override;

  /// Returns what was set; @norm, which may be null, says whether the step
  /// counts.
  void returnStates(Value norm);
  /// Whether the hook has taken states as the interface says; else that is
  /// reported.
  LogicalResult getStatus() const { return status; }

private:
  InFlightDiagnostic fail(const Twine &message) {
    status = failure();
    return program.emitOpError("reduction hook '")
           << *flat.getReductionHook() << "': " << message;
  }

  struct State {
    StateOp op;
    Value old, set;
  };

  ProgramOp program;
  FlatParamOp flat;
  Residuals &residuals;
  llvm::MapVector<StringRef, State> states;
  LogicalResult status = success();
};
} // namespace

StateOp Residuals::getOrCreate(FlatParamOp flat, StringRef name,
                               RankedTensorType type, DictionaryAttr init) {
  StateOp &state = states[builder.getStringAttr(name)];
  if (state)
    return state;
  builder.setInsertionPointAfter(last);
  state = StateOp::create(
      builder, flat.getLoc(), builder.getStringAttr("residual." + name),
      StateKind::residual, builder.getStringAttr(name),
      FlatSymbolRefAttr::get(flat), init, /*tied=*/ArrayAttr(),
      /*is_unsigned=*/false, type, /*offset=*/IntegerAttr());
  symbols.insert(state);
  last = state;
  return state;
}

Value LocalReduction::allReduce(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  Value sent =
      createCast(builder, loc, value, type.clone(flat.getReduceType()));
  Value mean =
      AllReduceOp::create(builder, loc, sent.getType(), sent, flat.getMesh(),
                          flat.getReplicateAxes(), target.replicas);
  return createCast(builder, loc, mean, type);
}

Value LocalReduction::view(Value flat, int64_t offset,
                           ArrayRef<int64_t> shape) {
  Type element = cast<RankedTensorType>(flat.getType()).getElementType();
  return ViewOp::create(builder, loc, RankedTensorType::get(shape, element),
                        flat, offset);
}

Value LocalReduction::pack(ValueRange parts, ArrayRef<int64_t> offsets,
                           int64_t numel) {
  Type element =
      cast<RankedTensorType>(parts.front().getType()).getElementType();
  return PackOp::create(builder, loc, RankedTensorType::get(numel, element),
                        parts, offsets);
}

Value LocalReduction::getState(StringRef name, RankedTensorType type,
                               DictionaryAttr init) {
  StateOp op = residuals.getOrCreate(flat, name, type, init);
  State &state = states[*op.getCheckpointName()];
  if (!state.old)
    state = {op, addStateArgument(program, op), Value()};
  if (op.getType() == type &&
      op.getFlatParamAttr() == FlatSymbolRefAttr::get(flat))
    return state.old;
  fail("expected one state of each name, got '" + name + "' twice")
          .attachNote(op.getLoc())
      << "of this flat parameter";
  return tensor::EmptyOp::create(builder, loc, type.getShape(),
                                 type.getElementType());
}

void LocalReduction::setState(StringRef name, Value value) {
  auto state = states.find(name);
  if (state == states.end())
    fail("expected a state that was read, got '" + name + "'");
  else if (state->second.op.getType() != value.getType())
    fail("expected a state of its type as '" + name + "'")
        << ", got " << value.getType();
  else
    state->second.set = value;
}

void LocalReduction::returnStates(Value norm) {
  builder.setInsertionPoint(program.getReturn());
  for (auto &[name, state] : states)
    if (state.set)
      appendResult(
          program,
          norm ? selectIfFinite(builder, loc, norm, state.set, state.old)
               : state.set,
          names::kState, FlatSymbolRefAttr::get(state.op));
}

namespace {
struct ApplyReductionHooks
    : fsdp::impl::ApplyReductionHooksBase<ApplyReductionHooks> {
  void getDependentDialects(DialectRegistry &registry) const override {
    ApplyReductionHooksBase::getDependentDialects(registry);
    addBuiltinHooks(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<ReduceReplicasOp> reductions;
    for (auto program : module.getOps<ProgramOp>())
      llvm::append_range(reductions, program.getOps<ReduceReplicasOp>());
    if (reductions.empty())
      return markAllAnalysesPreserved();
    SymbolTable symbols(module);
    Residuals residuals(module);
    for (ReduceReplicasOp op : reductions) {
      auto flat = symbols.lookup<FlatParamOp>(op.getFlatParam());
      if (failed(apply(op, flat, symbols.lookup<MeshOp>(flat.getMesh()),
                       residuals)))
        return signalPassFailure();
    }
    if (failed(checkScale(module)))
      return signalPassFailure();
  }

private:
  /// A state of a scaled gradient is no summand of one of another scale.
  static LogicalResult checkScale(ModuleOp module) {
    if (!module->hasAttr(names::kLossScale))
      return success();
    for (auto state : module.getOps<StateOp>())
      if (state.getKind() == StateKind::residual) {
        InFlightDiagnostic diag = emitInputError(
            module, "expected a loss-scale that stays as it is beside a "
                    "reduction hook that keeps what it has not sent, got "
                    "dynamic");
        diag.attachNote(state.getLoc()) << "of this flat parameter";
        return diag;
      }
    return success();
  }

  static LogicalResult apply(ReduceReplicasOp op, FlatParamOp flat, MeshOp mesh,
                             Residuals &residuals) {
    auto program = op->getParentOfType<ProgramOp>();
    HookTarget target = getHookTarget(flat, mesh);
    auto hook = readHook(flat, *flat.getReductionHook(), target);
    if (failed(hook))
      return failure();
    OpBuilder builder(op);
    LocalReduction reduction(target, builder, op.getLoc(), program, flat,
                             residuals);
    Value mean = (*hook)->reduce(reduction, op.getGrad());
    if (!mean || mean.getType() != op.getType()) {
      InFlightDiagnostic diag = op.emitOpError("expected reduction hook '")
                                << *flat.getReductionHook() << "' to return "
                                << op.getType() << ", got ";
      return mean ? diag << mean.getType() : diag << "nothing";
    }
    if (failed(reduction.getStatus()))
      return failure();
    op.replaceAllUsesWith(mean);
    op.erase();
    auto module = program->getParentOfType<ModuleOp>();
    SmallVector<unsigned> norms = getResultsWith(program, names::kGradNorm);
    bool skips = module->hasAttr(names::kSkipsNonfinite) && !norms.empty();
    reduction.returnStates(skips ? program.getReturn().getOperand(norms.front())
                                 : Value());
    return success();
  }
};
} // namespace
