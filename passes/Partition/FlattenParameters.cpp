//===- FlattenParameters.cpp - Parameters become shards -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PartitionUtils.h"
#include "Rounding.h"
#include "fsdp/Analysis/Step/FlatLayout.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Analysis/Step/UnitSettings.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Passes/ReplaceInside.h"

#include "llvm/Support/GlobPattern.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_FLATTENPARAMETERS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Decisions
//===----------------------------------------------------------------------===//

namespace {
/// How each parameter and each buffer of the step is treated.
struct Treatments {
  explicit Treatments(const TracedStep &step)
      : params(step.params.size(), Treatment::Sharded),
        buffers(step.buffers.size(), Treatment::Sharded) {}
  SmallVector<Treatment> params, buffers;
};
} // namespace

/// Marks what the patterns match: parameters by any of their names, and, of
/// ignored modules, buffers. What is ignored already stays so. A pattern that
/// is malformed or marks nothing is an error: it would silently do nothing.
static llvm::Error applyPatterns(const TracedStep &step,
                                 ArrayRef<std::string> patterns,
                                 Treatment treatment, Treatments &treatments) {
  bool takesBuffers = treatment == Treatment::Ignored;
  std::string what = takesBuffers ? "an ignore pattern" : "a replicate pattern";
  for (const std::string &text : patterns) {
    auto pattern = llvm::GlobPattern::create(text);
    if (!pattern)
      return llvm::createStringError(
          "expected " + what + ", got '" + text +
          "': " + llvm::toString(pattern.takeError()));
    bool any = false, isIgnored = false;
    for (auto [param, result] : llvm::zip(step.params, treatments.params)) {
      if (llvm::none_of(getNames(param.fqn, param.tied),
                        [&](StringRef name) { return pattern->match(name); }))
        continue;
      if (!takesBuffers && result == Treatment::Ignored) {
        isIgnored = true;
        continue;
      }
      result = treatment;
      any = true;
    }
    if (takesBuffers)
      for (auto [buffer, result] : llvm::zip(step.buffers, treatments.buffers))
        if (pattern->match(buffer.fqn.getValue())) {
          result = treatment;
          any = true;
        }
    if (!any)
      return llvm::createStringError(
          "expected " + what + " that matches a parameter" +
          std::string(takesBuffers ? " or buffer" : "") +
          (isIgnored ? " that is not ignored" : "") + ", got '" + text + "'");
  }
  return llvm::Error::success();
}

/// The units that fsdp-assign-units wrote.
static FailureOr<std::vector<std::string>> getUnits(const TracedStep &step) {
  std::vector<std::string> units;
  for (const ParamInfo &param : step.params) {
    auto unit =
        const_cast<TracedStep &>(step).func.getArgAttrOfType<StringAttr>(
            param.arg.getArgNumber(), names::kUnit);
    if (!unit)
      return emitInputError(const_cast<TracedStep &>(step).func,
                            "expected fsdp.unit on parameter ")
             << param.fqn << " (run fsdp-assign-units first)";
    units.push_back(unit.str());
  }
  return units;
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

static ArrayAttr getAxes(Builder &builder, ArrayRef<std::string> axes) {
  return builder.getStrArrayAttr(SmallVector<StringRef>(axes));
}

static MeshOp createMesh(OpBuilder &builder, Location loc,
                         const MeshShape &shape) {
  SmallVector<Attribute> axes;
  for (const MeshShape::Axis &axis : shape.getAxes())
    axes.push_back(MeshAxisAttr::get(
        builder.getContext(), builder.getStringAttr(axis.name), axis.size));
  return MeshOp::create(builder, loc, names::kMesh, builder.getArrayAttr(axes));
}

static FlatParamOp createFlatParam(OpBuilder &builder, const TracedStep &step,
                                   const FlatPlan &plan,
                                   const Sharding &sharding, MeshOp mesh,
                                   const FlatDtypes &dtypes,
                                   HostPartAttr offload) {
  SmallVector<Attribute> members;
  for (auto [index, offset] : llvm::zip(plan.params, plan.offsets)) {
    const ParamInfo &param = step.params[index];
    members.push_back(MemberAttr::get(
        builder.getContext(), param.fqn, param.getType(), offset, param.tied,
        param.init, plan.trainable ? param.group : StringAttr()));
  }
  return FlatParamOp::create(
      builder, mesh.getLoc(), plan.name, mesh.getSymName(),
      getAxes(builder, sharding.shardAxes),
      sharding.secondaryAxes.empty() ? ArrayAttr()
                                     : getAxes(builder, sharding.secondaryAxes),
      getAxes(builder, sharding.replicateAxes), dtypes.state, dtypes.gather,
      dtypes.reduce, plan.numel, builder.getArrayAttr(members), plan.unit,
      plan.trainable, sharding.keep, sharding.persistent, offload,
      /*reduction_hook=*/StringAttr());
}

namespace {
/// Gathers one flat parameter before its first reader of each phase, and hands
/// its members to the readers.
class Gatherer {
public:
  Gatherer(TracedStep &step, bool isFull)
      : isFull(isFull), block(step.func.getBody().front()),
        phases(&block, step.getForwardRoots()),
        forwardResults(step.getForwardResults()) {
    for (auto [index, op] : llvm::enumerate(block)) {
      position[&op] = index;
      if (!forwardEnd && !phases.isForward(&op))
        forwardEnd = &op;
    }
  }

  /// @params: the arguments that stand for the members of @flat; null where the
  /// function has none.
  void gather(FlatParamOp flat, Value shard, ArrayRef<BlockArgument> params) {
    Uses uses[2];
    auto add = [&](const Use &use) {
      uses[!flat.getKeep() && !use.isForward].push_back(use);
    };
    Operation *ret = block.getTerminator();
    for (auto [param, member] : llvm::zip(params, flat.getMemberRange())) {
      if (!param)
        continue;
      for (Operation *reader : getReaders(param, &block))
        if (reader != ret)
          add({param, member, reader, phases.isForward(reader)});
      // Each result is of its own phase.
      for (OpOperand &result : ret->getOpOperands())
        if (result.get() == param) {
          bool isForward = forwardResults.test(result.getOperandNumber());
          add({param, member, isForward ? forwardEnd : ret, isForward,
               &result});
        }
    }
    for (Uses &phaseUses : uses) {
      if (phaseUses.empty())
        continue;
      // Made for the first phase, and there in the second one.
      if (flat.getSecondaryAxesAttr() && isa<ShardedType>(shard.getType()))
        shard = gatherSecondary(flat, shard, getFirst(phaseUses).place);
      gatherOnce(flat, shard, phaseUses);
    }
  }

private:
  struct Use {
    Value param;
    MemberAttr member;
    /// The reader, or an op where what is returned has to be there.
    Operation *place;
    bool isForward;
    /// Of the return.
    OpOperand *result = nullptr;
  };
  using Uses = SmallVector<Use>;

  const Use &getFirst(const Uses &uses) const {
    return *llvm::min_element(uses, [&](const Use &a, const Use &b) {
      return position.lookup(a.place) < position.lookup(b.place);
    });
  }

  Type getGatherType(FlatParamOp flat) const {
    return isFull ? flat.getElementType() : flat.getParamType();
  }

  Value gatherSecondary(FlatParamOp flat, Value shard, Operation *before) {
    OpBuilder builder(before);
    return GatherSecondaryOp::create(builder, before->getLoc(),
                                     flat.getSecondaryType(getGatherType(flat)),
                                     shard);
  }

  void gatherOnce(FlatParamOp flat, Value shard, Uses &uses) {
    const Use &firstUse = getFirst(uses);
    Operation *first = firstUse.place;
    Phase phase = firstUse.isForward ? Phase::forward : Phase::backward;
    OpBuilder builder(first);
    auto type = flat.getUnshardedType(getGatherType(flat));
    auto unshard =
        UnshardOp::create(builder, first->getLoc(), type, shard, phase);
    llvm::MapVector<Value, Value> members;
    for (Use &use : uses) {
      Value &member = members[use.param];
      if (!member)
        member =
            MemberOp::create(builder, first->getLoc(), use.member.getType(),
                             unshard.getResult(), use.member.getFqn());
      if (use.result)
        use.result->set(member);
      else
        replaceInside(use.place, use.param, member);
    }
  }

  /// Gathers shards in their own type.
  const bool isFull;
  Block &block;
  StepPhases phases;
  llvm::BitVector forwardResults;
  llvm::DenseMap<Operation *, unsigned> position;
  /// The first op that is not forward's.
  Operation *forwardEnd = nullptr;
};
} // namespace

namespace {
/// Makes symbols of what outlives the programs.
class StateCreator {
public:
  StateCreator(ModuleOp module, ArrayRef<FlatParamOp> flats)
      : symbols(module), builder(module.getContext()), last(flats.back()) {
    for (FlatParamOp flat : flats)
      params[FlatSymbolRefAttr::get(flat)] =
          create(flat.getLoc(), flat.getSymName() + ".param",
                 StateKind::parameter, {}, FlatSymbolRefAttr::get(flat), {},
                 flat.getShardedType(flat.getElementType()));
  }

  /// The arguments and results of @func that are shards and buffers name their
  /// states.
  void name(func::FuncOp func) {
    for (BlockArgument arg : func.getArguments()) {
      unsigned i = arg.getArgNumber();
      if (auto shard = dyn_cast<ShardedType>(arg.getType()))
        func.setArgAttr(i, names::kState, params.lookup(shard.getFlatParam()));
      auto entries = func.getArgAttrOfType<DictionaryAttr>(i, names::kBuffer);
      if (!entries)
        continue;
      func.removeArgAttr(i, builder.getStringAttr(names::kBuffer));
      func.setArgAttr(i, names::kState, getBuffer(arg, entries));
    }
    for (unsigned i = 0, e = func.getNumResults(); i != e; ++i) {
      auto update =
          func.getResultAttrOfType<DictionaryAttr>(i, names::kBufferUpdate);
      if (!update)
        continue;
      func.removeResultAttr(i, builder.getStringAttr(names::kBufferUpdate));
      func.setResultAttr(i, names::kState, buffers.lookup(update.get("fqn")));
    }
  }

private:
  FlatSymbolRefAttr create(Location loc, const Twine &name, StateKind kind,
                           StringAttr known, FlatSymbolRefAttr flat,
                           DictionaryAttr entries, Type type) {
    auto isUnsigned =
        entries ? entries.getAs<BoolAttr>("unsigned") : BoolAttr();
    auto tied = entries ? entries.getAs<ArrayAttr>("tied") : ArrayAttr();
    builder.setInsertionPointAfter(last);
    auto state = StateOp::create(
        builder, loc, builder.getStringAttr(name), kind, known, flat,
        entries ? entries.get("init") : Attribute(),
        tied && !tied.empty() ? tied : ArrayAttr(),
        isUnsigned && isUnsigned.getValue(), type, /*offset=*/IntegerAttr());
    symbols.insert(state);
    last = state;
    return FlatSymbolRefAttr::get(state);
  }

  FlatSymbolRefAttr getBuffer(BlockArgument arg, DictionaryAttr entries) {
    auto fqn = entries.getAs<StringAttr>("fqn");
    FlatSymbolRefAttr &buffer = buffers[fqn];
    if (!buffer)
      buffer = create(arg.getLoc(), "buffer." + fqn.getValue(),
                      StateKind::buffer, fqn, {}, entries, arg.getType());
    return buffer;
  }

  SymbolTable symbols;
  OpBuilder builder;
  /// The op after which the next state is inserted. (The op that follows it may
  /// be a function that a program has replaced by then.)
  Operation *last;
  /// By flat parameter, and by the buffer's name.
  llvm::DenseMap<Attribute, FlatSymbolRefAttr> params, buffers;
};
} // namespace

/// The function becomes a program.
static void createProgram(TracedStep &step, TypeAttr productType) {
  func::FuncOp func = step.func;
  OpBuilder builder(func);
  Operation *ret = func.getBody().front().getTerminator();
  auto program = ProgramOp::create(
      builder, func.getLoc(), step.name,
      builder.getFunctionType(func.getBody().getArgumentTypes(),
                              ret->getOperandTypes()),
      step.kind, ArenaAttr(), FlopsAttr(), ScheduleAttr(), productType,
      func.getArgAttrsAttr(), func.getResAttrsAttr());
  program.getBody().takeBody(func.getBody());
  builder.setInsertionPoint(ret);
  fsdp::ReturnOp::create(builder, ret->getLoc(), ret->getOperands());
  ret->erase();
  func.erase();
}

namespace {
struct FlattenParameters
    : fsdp::impl::FlattenParametersBase<FlattenParameters> {
  using FlattenParametersBase::FlattenParametersBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!module.lookupSymbol<func::FuncOp>(names::kForwardBackward))
      return markAllAnalysesPreserved();
    FailureOr<std::vector<TracedStep>> steps = readTracedSteps(module);
    if (failed(steps) || failed(flatten(module, *steps)))
      signalPassFailure();
  }

private:
  LogicalResult fail(func::FuncOp func, llvm::Error error) {
    return emitInputError(func, llvm::toString(std::move(error)));
  }

  /// The element type that `option` names; null where it is empty.
  FailureOr<FloatType> readType(func::FuncOp func, StringRef option,
                                StringRef text) {
    if (text.empty())
      return FloatType();
    if (FloatType type = parseFloatType(&getContext(), text))
      return type;
    return emitInputError(func, "expected ")
           << kFloatTypeWords << " as " << option << ", got '" << text << "'";
  }

  /// Options that only evaluations read need one.
  LogicalResult checkEvaluations(ArrayRef<TracedStep> steps, bool isRounded) {
    func::FuncOp func = steps.front().func;
    if (evalFullPrecision && !isRounded)
      return emitInputError(func, "expected a param-dtype beside "
                                  "eval-full-precision, got none");
    bool evaluates = llvm::any_of(steps, [](const TracedStep &step) {
      return !getTraits(step.kind).hasBackward;
    });
    for (auto [isGiven, option] :
         {std::pair(bool(evalFullPrecision), "eval-full-precision"),
          std::pair(!outputDtype.empty(), "output-dtype")})
      if (isGiven && !evaluates)
        return emitInputError(func, "expected a function that evaluates "
                                    "(fsdp-export --eval) beside ")
               << option << ", got none";
    return success();
  }

  /// Nothing is computed in more bits than it was traced in.
  LogicalResult checkGatherType(TracedStep &step, ArrayRef<FlatPlan> plans,
                                const UnitTable &table) {
    for (const FlatPlan &plan : plans) {
      FloatType gather = table.getSettings(plan.unit).paramDtype;
      if (gather && gather != plan.elementType &&
          gather.getWidth() >= plan.elementType.getIntOrFloatBitWidth() &&
          plan.treatment != Treatment::Ignored)
        return emitInputError(step.func, "expected ")
               << plan.elementType << ", or a type of fewer bits, as "
               << "param-dtype, since parameter "
               << step.params[plan.params.front()].fqn
               << " is computed with in that type, got " << gather;
    }
    return success();
  }

  /// What products are computed in that are of no unit with a type of its own:
  /// null where no unit has a type that it was not traced in.
  FloatType getProductType(ArrayRef<FlatPlan> plans, FloatType gather,
                           const UnitTable &table) {
    if (gather || !table.hasParamDtypes())
      return gather;
    FloatType widest = plans.front().elementType;
    for (const FlatPlan &plan : plans)
      if (plan.elementType.getIntOrFloatBitWidth() > widest.getWidth())
        widest = plan.elementType;
    return widest;
  }

  /// The first of @steps trains: it decides for all.
  LogicalResult flatten(ModuleOp module, MutableArrayRef<TracedStep> steps) {
    TracedStep &step = steps.front();
    func::FuncOp func = step.func;
    auto shape = MeshShape::parse(mesh);
    if (!shape)
      return fail(func, shape.takeError());
    auto chosen = chooseStrategy(strategy, *shape);
    if (!chosen)
      return fail(func, chosen.takeError());
    if (!reshardAfterBackward && *chosen == Strategy::NoShard)
      return emitInputError(func, "expected a strategy that shards beside "
                                  "reshard-after-backward=false, got ")
             << getWord(*chosen);
    FailureOr<FloatType> gather = readType(func, "param-dtype", paramDtype),
                         reduce = readType(func, "reduce-dtype", reduceDtype),
                         buffers = readType(func, "buffer-dtype", bufferDtype),
                         outputs = readType(func, "output-dtype", outputDtype);
    FailureOr<std::vector<std::string>> units = getUnits(step);
    if (failed(gather) || failed(reduce) || failed(buffers) ||
        failed(outputs) || failed(units))
      return failure();
    UnitSettings usual;
    usual.strategy = *chosen;
    usual.paramDtype = *gather;
    usual.reduceDtype = *reduce;
    usual.reshardAfterBackward = reshardAfterBackward;
    auto table = UnitTable::get(*units, std::vector<std::string>(unit), usual,
                                *shape, &getContext());
    if (!table)
      return fail(func, table.takeError());
    if (failed(checkEvaluations(steps, *gather || table->hasParamDtypes())))
      return failure();
    Treatments treatments(step);
    if (llvm::Error error =
            applyPatterns(step, ignore, Treatment::Ignored, treatments))
      return fail(func, std::move(error));
    if (llvm::Error error =
            applyPatterns(step, replicate, Treatment::Replicated, treatments))
      return fail(func, std::move(error));

    if (llvm::none_of(llvm::zip(step.params, treatments.params), [](auto pair) {
          auto &[param, treatment] = pair;
          return param.isTrainable() && treatment != Treatment::Ignored;
        }))
      return emitInputError(func, "expected a trainable parameter that is not "
                                  "ignored, got none among ")
             << step.params.size();

    std::vector<FlatPlan> plans =
        planFlatParams(step, *units, treatments.params, [&](StringRef unit) {
          return table->countShards(unit);
        });
    if (failed(checkGatherType(step, plans, *table)))
      return failure();
    if (llvm::Error error = table->checkChanges(plans))
      return fail(func, std::move(error));

    SmallVector<FloatType> rounded;
    for (auto [unit, treatment] : llvm::zip(*units, treatments.params))
      rounded.push_back(treatment == Treatment::Ignored
                            ? FloatType()
                            : table->getSettings(unit).paramDtype);
    reportRoundedPositions(step, rounded, *buffers, treatments.buffers);
    SmallVector<FlatParamOp> flats =
        createFlatParams(module, step, plans, *table);
    FloatType products = getProductType(plans, *gather, *table);
    // Ranks may round sums to it at each hop: somebody chose it.
    if (FloatType chosen = table->getChosenReduceType(plans))
      module->setAttr(names::kReduceDtype, TypeAttr::get(chosen));
    llvm::DenseSet<Attribute> ignored;
    for (auto [buffer, treatment] : llvm::zip(step.buffers, treatments.buffers))
      if (treatment == Treatment::Ignored)
        ignored.insert(buffer.fqn);
    auto isFull = [&](const TracedStep &traced) {
      return evalFullPrecision && !getTraits(traced.kind).hasBackward;
    };
    StateCreator states(module, flats);
    bool isRounded = !*buffers;
    for (TracedStep &traced : steps) {
      shardParameters(traced, flats, isFull(traced));
      if (*buffers && !isFull(traced))
        isRounded |= roundBuffers(traced, *buffers, ignored);
      if (*outputs && !getTraits(traced.kind).hasBackward)
        castOutputs(traced, *outputs);
      eraseParameters(traced);
      states.name(traced.func);
      createProgram(traced, products && !isFull(traced)
                                ? TypeAttr::get(products)
                                : TypeAttr());
    }
    // No error: a policy names types for whatever a model has.
    if (!isRounded)
      emitWarning(module.getLoc())
          << "buffer-dtype " << *buffers
          << " changes nothing: no buffer that is not ignored has floats of "
             "more bits";
    module->setAttr(names::kStrategy,
                    StringAttr::get(&getContext(), getWord(*chosen)));
    return success();
  }

  SmallVector<FlatParamOp> createFlatParams(ModuleOp module, TracedStep &step,
                                            ArrayRef<FlatPlan> plans,
                                            const UnitTable &table) {
    SmallVector<FlatParamOp> flats;
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    MeshOp meshOp = createMesh(builder, step.func.getLoc(), table.getMesh());
    for (const FlatPlan &plan : plans)
      flats.push_back(createFlatParam(
          builder, step, plan, table.getSharding(plan), meshOp,
          table.getDtypes(plan), table.getOffload(plan, &getContext())));
    return flats;
  }

  /// Shards come first, in the order of flat parameters: those of which the
  /// function has a member. `isFull`: they are gathered in the state type.
  static void shardParameters(TracedStep &step, ArrayRef<FlatParamOp> flats,
                              bool isFull) {
    llvm::DenseMap<Attribute, BlockArgument> arguments;
    for (ParamInfo &param : step.params)
      arguments[param.fqn] = param.arg;
    Gatherer gatherer(step, isFull);
    unsigned index = 0;
    for (FlatParamOp flat : flats) {
      SmallVector<BlockArgument> params;
      for (MemberAttr member : flat.getMemberRange())
        params.push_back(arguments.lookup(member.getFqn()));
      if (llvm::none_of(params, [](BlockArgument arg) { return bool(arg); }))
        continue;
      (void)step.func.insertArgument(index,
                                     flat.getShardedType(flat.getElementType()),
                                     DictionaryAttr(), step.func.getLoc());
      gatherer.gather(flat, step.func.getArgument(index++), params);
    }
  }

  void eraseParameters(TracedStep &step) {
    llvm::BitVector params(step.func.getNumArguments());
    for (ParamInfo &param : step.params)
      params.set(param.arg.getArgNumber());
    (void)step.func.eraseArguments(params);
  }
};
} // namespace
