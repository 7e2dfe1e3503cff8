//===- ApplyOptimizer.cpp - Update the shards in the step -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PartitionUtils.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/OptimizerContract.h"
#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_APPLYOPTIMIZER
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// A flat parameter that is trained, and what the program has of it.
struct Trained {
  FlatParamOp flat;
  Value shard, grad;
};

/// The optimizer's states, which all programs that train share.
class OptimizerStates {
public:
  explicit OptimizerStates(ModuleOp module)
      : symbols(module), builder(module.getContext()) {
    for (auto state : module.getOps<StateOp>()) {
      if (state.getKind() == StateKind::optimizer)
        states[{state.getCheckpointNameAttr(), state.getFlatParamAttr()}] =
            state;
      last = state;
    }
  }

  /// @flat: null for a state of all flat parameters.
  StateOp getOrCreate(const OptimizerValue &value, FlatParamOp flat);

private:
  SymbolTable symbols;
  OpBuilder builder;
  llvm::DenseMap<std::pair<Attribute, Attribute>, StateOp> states;
  Operation *last = nullptr;
};

/// Adds the optimizer to one program.
class OptimizerApplier {
public:
  OptimizerApplier(ProgramOp program, OptimizerFunction &optimizer,
                   OptimizerStates &states)
      : program(program), optimizer(optimizer), states(states),
        block(program.getBody().front()), builder(program.getContext()) {}

  void apply(MutableArrayRef<Trained> trained, bool clip, bool skipNonfinite);

private:
  Value createClipCoefficient(Value norm);
  Value addScalar(const OptimizerValue &scalar, StringAttr group);
  Value addRank();
  Value addState(const OptimizerValue &state, FlatParamOp flat);
  void update(Trained &param, Value scale, Value norm);

  ProgramOp program;
  OptimizerFunction &optimizer;
  OptimizerStates &states;
  Block &block;
  OpBuilder builder;
  llvm::StringMap<Value> scalars;
  llvm::DenseMap<Operation *, Value> stateArguments;
  llvm::DenseSet<Operation *> returnedStates;
};
} // namespace

StateOp OptimizerStates::getOrCreate(const OptimizerValue &value,
                                     FlatParamOp flat) {
  auto flatName = flat ? FlatSymbolRefAttr::get(flat) : FlatSymbolRefAttr();
  StateOp &state = states[{value.name, flatName}];
  if (state)
    return state;
  std::string name =
      ((flat ? flat.getSymName() : StringRef(names::kOptimizer)) + "." +
       value.name.getValue())
          .str();
  Type type = flat ? Type(flat.getShardedType(value.type.getElementType()))
                   : Type(value.type);
  builder.setInsertionPointAfter(last);
  state = StateOp::create(
      builder, flat ? flat.getLoc() : last->getLoc(),
      builder.getStringAttr(name), StateKind::optimizer, value.name, flatName,
      value.init ? Attribute(value.init) : builder.getF64FloatAttr(0.0),
      /*tied=*/ArrayAttr(), /*is_unsigned=*/false, type,
      /*offset=*/IntegerAttr());
  symbols.insert(state);
  last = state;
  return state;
}

/// Where the shard may change: behind its gradient, and behind everything that
/// reads the parameter in this step.
static Operation *getUpdatePoint(const Trained &param) {
  Operation *point = param.grad.getDefiningOp();
  auto after = [&](Operation *op) {
    if (point->isBeforeInBlock(op))
      point = op;
  };
  SmallVector<Operation *> work(param.shard.getUsers());
  while (!work.empty()) {
    Operation *user = work.pop_back_val();
    after(user);
    if (isa<GatherSecondaryOp, UnshardOp>(user))
      llvm::append_range(work, user->getUsers());
  }
  return point;
}

/// min(1, clip_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_.
Value OptimizerApplier::createClipCoefficient(Value norm) {
  Location loc = norm.getLoc();
  auto type = cast<RankedTensorType>(norm.getType());
  Value limit = addScalarArgument(program, scalars::clipNorm, type);
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

/// The argument of the program that the parameters of @group read: "GROUP.NAME"
/// where the group has its own, else "NAME".
Value OptimizerApplier::addScalar(const OptimizerValue &scalar,
                                  StringAttr group) {
  StringAttr name = scalar.name;
  FloatAttr init = scalar.init;
  if (FloatAttr own = optimizer.getGroupScalar(group, name)) {
    name = builder.getStringAttr(group.getValue() + "." + name.getValue());
    init = own;
  }
  Value &argument = scalars[name.getValue()];
  if (!argument)
    argument = addScalarArgument(program, name, scalar.type, init);
  return argument;
}

/// The number of the rank that runs the program, once.
Value OptimizerApplier::addRank() {
  Value &argument = scalars[scalars::rank.name];
  if (!argument)
    argument =
        addScalarArgument(program, scalars::rank,
                          RankedTensorType::get({}, builder.getI64Type()));
  return argument;
}

/// A state of one flat parameter, or (with one element) of all of them.
Value OptimizerApplier::addState(const OptimizerValue &state,
                                 FlatParamOp flat) {
  StateOp op =
      states.getOrCreate(state, state.isScalarShaped() ? FlatParamOp() : flat);
  Value &argument = stateArguments[op];
  if (!argument)
    argument = addStateArgument(program, op);
  return argument;
}

/// Where `norm` is given, a step whose norm is not finite changes nothing.
void OptimizerApplier::update(Trained &param, Value scale, Value norm) {
  SmallVector<Value> args, runScalars;
  SmallVector<Type> results;
  SmallVector<FlatParamOp::Run> runs = param.flat.getRuns();
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
      args.push_back(addScalar(arg, runs.front().group));
      break;
    }
  }
  for (const FlatParamOp::Run &run : llvm::drop_begin(runs))
    for (OptimizerValue &arg : optimizer.args)
      if (arg.role == OptimizerRole::Scalar)
        runScalars.push_back(addScalar(arg, run.group));
  Value rank;
  if (runs.size() > 1)
    rank = addRank();
  for (OptimizerValue &result : optimizer.results)
    results.push_back(
        result.role == OptimizerRole::Param ? param.shard.getType()
        : result.isScalarShaped()
            ? Type(result.type)
            : param.flat.getShardedType(result.type.getElementType()));
  auto op = UpdateOp::create(builder, param.grad.getLoc(), results,
                             FlatSymbolRefAttr::get(optimizer.func), args,
                             scale, norm, runScalars, rank);
  for (auto [value, result] : llvm::zip(op.getResults(), optimizer.results)) {
    FlatSymbolRefAttr name =
        program.getReadState(cast<BlockArgument>(param.shard).getArgNumber());
    if (result.role != OptimizerRole::Param) {
      bool shared = result.isScalarShaped();
      StateOp state =
          states.getOrCreate(result, shared ? FlatParamOp() : param.flat);
      // One value for all: each update makes the same one.
      if (!returnedStates.insert(state).second)
        continue;
      name = FlatSymbolRefAttr::get(state);
    }
    appendResult(program, value, names::kState, name);
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
      grads, /*scale=*/Value());
  if (clip)
    scale = createClipCoefficient(norm);
  for (Trained &param : trained) {
    if (!scale && !skipNonfinite)
      builder.setInsertionPointAfter(getUpdatePoint(param));
    else
      builder.setInsertionPoint(ret);
    update(param, scale, skipNonfinite ? norm : Value());
  }
  appendResult(program, norm, names::kGradNorm, builder.getUnitAttr());
}

namespace {
struct ApplyOptimizer : fsdp::impl::ApplyOptimizerBase<ApplyOptimizer> {
  using ApplyOptimizerBase::ApplyOptimizerBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<ProgramOp> programs;
    for (auto program : module.getOps<ProgramOp>())
      if (!getResultsWith(program, names::kGradShard).empty())
        programs.push_back(program);
    if (programs.empty())
      return markAllAnalysesPreserved();
    FailureOr<OptimizerFunction> optimizer = readOptimizer(module);
    if (failed(optimizer))
      return signalPassFailure();
    OptimizerStates states(module);
    for (ProgramOp program : programs) {
      FailureOr<SmallVector<Trained>> trained =
          getTrained(module, program, *optimizer);
      if (failed(trained))
        return signalPassFailure();
      eraseResults(program, getResultsWith(program, names::kGradShard));
      OptimizerApplier(program, *optimizer, states)
          .apply(*trained, clip, skipNonfinite);
    }
    if (skipNonfinite)
      module->setAttr(names::kSkipsNonfinite, UnitAttr::get(&getContext()));
  }

private:
  static FailureOr<SmallVector<Trained>>
  getTrained(ModuleOp module, ProgramOp program,
             const OptimizerFunction &optimizer) {
    ProgramStates states(program);
    llvm::DenseMap<Attribute, Value> shards;
    for (BlockArgument arg : program.getArguments())
      if (Attribute name = states.getShard(arg.getArgNumber()))
        shards[name] = arg;
    SmallVector<Trained> trained;
    for (unsigned i : getResultsWith(program, names::kGradShard)) {
      auto name =
          program.getResultAttrOfType<FlatSymbolRefAttr>(i, names::kGradShard);
      auto flat = module.lookupSymbol<FlatParamOp>(name);
      Value grad = program.getReturn().getOperand(i);
      trained.push_back({flat, shards.lookup(name), grad});
      if (!flat || !trained.back().shard || !grad.getDefiningOp())
        return emitInputError(program, "expected a shard of ")
               << name << " for the gradient that is result #" << i;
      for (MemberAttr member : flat.getMemberRange())
        if (member.getGroup() && !optimizer.hasGroup(member.getGroup()))
          return emitInputError(program, "expected a group of @optimizer for ")
                 << member.getFqn() << ", got " << member.getGroup();
    }
    return trained;
  }
};
} // namespace
