//===- ApplyOptimizer.cpp - Update the shards in the step -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PartitionUtils.h"
#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/StepStructure.h"
#include "fsdp/Passes/Passes.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_APPLYOPTIMIZER
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// A flat parameter that is trained, and what the step has of it.
struct Trained {
  FlatParamOp flat;
  Value shard, grad;
};

/// Adds the optimizer to one step.
class OptimizerApplier {
public:
  OptimizerApplier(func::FuncOp func, OptimizerFunction &optimizer)
      : func(func), optimizer(optimizer), block(func.getBody().front()),
        builder(func.getContext()) {}

  void apply(MutableArrayRef<Trained> trained, bool clip, bool skipNonfinite);

private:
  Value createClipCoefficient(Value norm);
  Value addScalar(StringAttr name, RankedTensorType type, Attribute init);
  Value addState(const OptimizerValue &state, FlatParamOp flat);
  void update(Trained &param, Value scale, Value norm);

  func::FuncOp func;
  OptimizerFunction &optimizer;
  Block &block;
  OpBuilder builder;
  llvm::StringMap<Value> scalars;
  llvm::StringSet<> returnedScalarStates;
};
} // namespace

/// Where the shard may change: behind its gradient, and behind everything that
/// reads the parameter in this step.
static Operation *getUpdatePoint(const Trained &param) {
  Operation *point = param.grad.getDefiningOp();
  auto after = [&](Operation *op) {
    if (point->isBeforeInBlock(op))
      point = op;
  };
  for (Operation *user : param.shard.getUsers()) {
    after(user);
    if (auto unshard = dyn_cast<UnshardOp>(user))
      for (Operation *reader : unshard.getResult().getUsers())
        after(reader);
  }
  return point;
}

/// min(1, clip_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_.
Value OptimizerApplier::createClipCoefficient(Value norm) {
  Location loc = norm.getLoc();
  auto type = cast<RankedTensorType>(norm.getType());
  Value limit = addScalar(builder.getStringAttr(names::kClipNorm), type, {});
  return createElementwise(
      builder, loc, type, {limit, norm},
      [&](OpBuilder &b, Location l, ValueRange args) -> Value {
        Type f = type.getElementType();
        Value eps = arith::ConstantOp::create(b, l, b.getFloatAttr(f, 1e-6));
        Value one = arith::ConstantOp::create(b, l, b.getFloatAttr(f, 1.0));
        Value sum = arith::AddFOp::create(b, l, args[1], eps);
        Value ratio = arith::DivFOp::create(b, l, args[0], sum);
        return arith::MinimumFOp::create(b, l, ratio, one);
      });
}

Value OptimizerApplier::addScalar(StringAttr name, RankedTensorType type,
                                  Attribute init) {
  Value &scalar = scalars[name.getValue()];
  if (scalar)
    return scalar;
  NamedAttrList entry;
  entry.set("name", name);
  if (init)
    entry.set("default", init);
  auto attrs = builder.getDictionaryAttr(builder.getNamedAttr(
      names::kScalar, entry.getDictionary(builder.getContext())));
  unsigned index = func.getNumArguments();
  (void)func.insertArgument(index, type, attrs, func.getLoc());
  return scalar = block.getArgument(index);
}

/// A state of one flat parameter, or (with one element) of all of them.
Value OptimizerApplier::addState(const OptimizerValue &state,
                                 FlatParamOp flat) {
  bool shared = state.isScalarShaped();
  if (shared)
    if (Value known = scalars.lookup(state.name.getValue()))
      return known;
  NamedAttrList entry;
  entry.set("name", state.name);
  entry.set("init",
            state.init ? Attribute(state.init) : builder.getF64FloatAttr(0.0));
  if (!shared)
    entry.set("flat_param", FlatSymbolRefAttr::get(flat));
  auto attrs = builder.getDictionaryAttr(builder.getNamedAttr(
      names::kState, entry.getDictionary(builder.getContext())));
  Type type = shared ? Type(state.type)
                     : flat.getShardedType(state.type.getElementType());
  unsigned index = func.getNumArguments();
  (void)func.insertArgument(index, type, attrs, func.getLoc());
  Value arg = block.getArgument(index);
  if (shared)
    scalars[state.name.getValue()] = arg;
  return arg;
}

/// Where `norm` is given, a step whose norm is not finite changes nothing.
void OptimizerApplier::update(Trained &param, Value scale, Value norm) {
  SmallVector<Value> args;
  SmallVector<Type> results;
  for (OptimizerValue &arg : optimizer.args) {
    switch (arg.role) {
    case OptimizerRole::Param:
      args.push_back(param.shard);
      break;
    case OptimizerRole::Grad:
      args.push_back(param.grad);
      break;
    case OptimizerRole::State:
      args.push_back(addState(arg, param.flat));
      break;
    case OptimizerRole::Scalar:
      args.push_back(addScalar(arg.name, arg.type, arg.init));
      break;
    }
  }
  for (OptimizerValue &result : optimizer.results)
    results.push_back(
        result.role == OptimizerRole::Param ? param.shard.getType()
        : result.isScalarShaped()
            ? Type(result.type)
            : param.flat.getShardedType(result.type.getElementType()));
  auto op = UpdateOp::create(builder, param.grad.getLoc(), results,
                             FlatSymbolRefAttr::get(optimizer.func), args,
                             scale, norm);
  for (auto [value, result] : llvm::zip(op.getResults(), optimizer.results)) {
    auto flatName = FlatSymbolRefAttr::get(param.flat);
    if (result.role == OptimizerRole::Param) {
      appendResult(func, value, names::kShard, flatName);
      continue;
    }
    bool shared = result.isScalarShaped();
    if (shared && !returnedScalarStates.insert(result.name.getValue()).second)
      continue;
    NamedAttrList entry;
    entry.set("name", result.name);
    if (!shared)
      entry.set("flat_param", flatName);
    appendResult(func, value, names::kState,
                 entry.getDictionary(builder.getContext()));
  }
}

void OptimizerApplier::apply(MutableArrayRef<Trained> trained, bool clip,
                             bool skipNonfinite) {
  Operation *ret = block.getTerminator();
  SmallVector<Value> grads;
  for (Trained &param : trained)
    grads.push_back(param.grad);
  Value scale;
  builder.setInsertionPoint(ret);
  // What is scaled is what is counted: all of it.
  Value norm = GradNormOp::create(
      builder, ret->getLoc(), RankedTensorType::get({}, builder.getF32Type()),
      grads);
  if (clip)
    scale = createClipCoefficient(norm);
  for (Trained &param : trained) {
    if (!scale && !skipNonfinite)
      builder.setInsertionPointAfter(getUpdatePoint(param));
    else
      builder.setInsertionPoint(ret);
    update(param, scale, skipNonfinite ? norm : Value());
  }
  appendResult(func, norm, names::kGradNorm, builder.getUnitAttr());
}

namespace {
struct ApplyOptimizer : fsdp::impl::ApplyOptimizerBase<ApplyOptimizer> {
  using ApplyOptimizerBase::ApplyOptimizerBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    func::FuncOp func = getStep(module);
    if (!func || getResultsWith(func, names::kGradShard).empty())
      return markAllAnalysesPreserved();
    FailureOr<OptimizerFunction> optimizer = readOptimizer(module);
    if (failed(optimizer))
      return signalPassFailure();

    SmallVector<Trained> trained;
    for (unsigned i : getResultsWith(func, names::kGradShard)) {
      auto name =
          func.getResultAttrOfType<FlatSymbolRefAttr>(i, names::kGradShard);
      auto flat = module.lookupSymbol<FlatParamOp>(name);
      Value grad = func.getBody().front().getTerminator()->getOperand(i);
      trained.push_back({flat, findShard(func, name), grad});
      if (!flat || !trained.back().shard || !grad.getDefiningOp()) {
        emitInputError(func, "expected a shard of ")
            << name << " for the gradient that is result #" << i;
        return signalPassFailure();
      }
    }
    eraseResults(func, getResultsWith(func, names::kGradShard));
    OptimizerApplier(func, *optimizer).apply(trained, clip, skipNonfinite);
    if (skipNonfinite)
      module->setAttr(names::kSkipsNonfinite, UnitAttr::get(&getContext()));
  }

private:
  static Value findShard(func::FuncOp func, FlatSymbolRefAttr name) {
    for (BlockArgument arg : func.getArguments())
      if (func.getArgAttr(arg.getArgNumber(), names::kShard) == name)
        return arg;
    return {};
  }
};
} // namespace
