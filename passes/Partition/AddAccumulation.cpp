//===- AddAccumulation.cpp - Programs for micro-batches -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With micro-batches 1 .. N, accumulators A, the number n of those before, and
// the weight N:
//
//   accumulate, for i < N        A = n > 0 ? A + g_i : g_i
//   train_accumulated, for N     update by (n > 0 ? A + g_N : g_N) / N
//
// and, where flat parameters stay gathered, accumulate_first for i = 1, the
// same as accumulate, whose gathers the others read.
//
// Here g_i is the gradient of micro-batch i. Where its loss is a sum over n_i,
// the update is by the same sum / (n_1 + .. + n_N), of which the runtime gives
// n_1 + .. + n_(N-1). What A holds between two steps is
// read by nobody, so nothing clears it. Source: gradient accumulation of
// FSDP, with (A whole) and without (A sharded) no_sync, Zhao et al.,
// arXiv:2304.11277, section 3.3.4.
//
//===----------------------------------------------------------------------===//

#include "PartitionUtils.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_ADDACCUMULATION
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// Sums have at least the precision of f32.
static FloatType getSumType(FlatParamOp flat) {
  auto state = cast<FloatType>(flat.getElementType());
  return state.getWidth() > 32 ? state : Float32Type::get(flat.getContext());
}

namespace {
struct AddAccumulation : fsdp::impl::AddAccumulationBase<AddAccumulation> {
  using AddAccumulationBase::AddAccumulationBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    bool isPersistent =
        llvm::any_of(module.getOps<FlatParamOp>(),
                     [](FlatParamOp flat) { return flat.getPersistent(); });
    if (accumulateIn == AccumulateIn::None) {
      if (!isPersistent)
        return markAllAnalysesPreserved();
      emitInputError(module,
                     "expected accumulate-in beside "
                     "reshard-after-backward=false, got none: in a step "
                     "of one batch no other waits for what it gathers");
      return signalPassFailure();
    }
    if (accumulateIn == AccumulateIn::Auto) {
      emitInputError(module, "expected accumulators that hold shard or whole, "
                             "got auto: fsdp-compile and fsdp-plan choose");
      return signalPassFailure();
    }
    ProgramOp train = getTrainProgram(module);
    if (!train || getResultsWith(train, names::kGradShard).empty()) {
      emitInputError(module, "expected a step with gradients to accumulate, "
                             "got none");
      return signalPassFailure();
    }
    SmallVector<ProgramKind> kinds = {ProgramKind::accumulate,
                                      ProgramKind::train_accumulated};
    if (isPersistent)
      kinds.insert(kinds.begin(), ProgramKind::accumulate_first);
    for (ProgramKind kind : kinds)
      if (Operation *present =
              module.lookupSymbol(stringifyProgramKind(kind))) {
        InFlightDiagnostic diag =
            emitInputError(module, "expected a name other than @")
            << stringifyProgramKind(kind)
            << " for a traced function, beside accumulation";
        diag.attachNote(present->getLoc()) << "it is here";
        return signalPassFailure();
      }
    createStates(module);
    for (ProgramKind kind : kinds)
      derive(train, kind);
  }

private:
  /// Accumulators of the flat parameters that are trained, and what stays
  /// gathered, behind the states that there are.
  void createStates(ModuleOp module);
  /// A copy of @train, named as its kind, that adds each gradient to its
  /// accumulator. One of a kind that updates returns the mean of what was
  /// accumulated instead of the gradient.
  void derive(ProgramOp train, ProgramKind kind);
  /// What @program gathers of persistent flat parameters becomes their gathered
  /// states, or is read of them.
  void keepGathered(ProgramOp program);

  llvm::DenseMap<Attribute, StateOp> accumulators, gathered;
};
} // namespace

void AddAccumulation::createStates(ModuleOp module) {
  SymbolTable symbols(module);
  Operation *last = nullptr;
  for (auto state : module.getOps<StateOp>())
    last = state;
  OpBuilder builder(&getContext());
  auto create = [&](FlatParamOp flat, StringRef suffix, StateKind kind,
                    Type type) {
    builder.setInsertionPointAfter(last);
    auto state = StateOp::create(
        builder, flat.getLoc(),
        builder.getStringAttr(flat.getSymName() + suffix), kind,
        /*checkpoint_name=*/StringAttr(), FlatSymbolRefAttr::get(flat),
        /*init=*/Attribute(), /*tied=*/ArrayAttr(), /*is_unsigned=*/false, type,
        /*offset=*/IntegerAttr());
    symbols.insert(state);
    last = state;
    return state;
  };
  for (auto flat : module.getOps<FlatParamOp>())
    if (flat.getTrainable())
      accumulators[FlatSymbolRefAttr::get(flat)] =
          create(flat, ".accumulated", StateKind::accumulator,
                 accumulateIn == AccumulateIn::Whole
                     ? Type(flat.getUnshardedType(getSumType(flat)))
                     : Type(flat.getShardedType(getSumType(flat))));
  for (auto flat : module.getOps<FlatParamOp>())
    if (flat.getPersistent())
      gathered[FlatSymbolRefAttr::get(flat)] =
          create(flat, ".gathered", StateKind::gathered,
                 flat.getUnshardedType(flat.getParamType()));
}

namespace {
/// What divides the sum of all micro-batches' gradients, given what those of
/// the last one are divided by: of a loss that is a sum, all counts; of a mean,
/// the weight of the micro-batches, times its factor where it has one.
class Divisors {
public:
  explicit Divisors(ProgramOp program) : program(program) {}
  Value get(Value over);

private:
  Value create(Value over);

  ProgramOp program;
  llvm::SmallDenseMap<Value, Value> created;
  Value weight;
};
} // namespace

Value Divisors::get(Value over) {
  auto [it, isNew] = created.try_emplace(over);
  if (isNew)
    it->second = create(over);
  return it->second;
}

Value Divisors::create(Value over) {
  bool isSum = !getResultsWith(program, names::kLossCount).empty();
  OpBuilder builder(program.getContext());
  if (isSum) {
    Value before =
        addScalarArgument(program, scalars::accumulatedCount, over.getType());
    builder.setInsertionPointAfterValue(over);
    return createElementwise(
        builder, over.getLoc(), cast<RankedTensorType>(over.getType()),
        {before, over}, [](OpBuilder &b, Location l, ValueRange v) -> Value {
          return arith::AddFOp::create(b, l, v[0], v[1]);
        });
  }
  if (!weight)
    weight = addScalarArgument(program, scalars::accumulationWeight,
                               RankedTensorType::get({}, builder.getF32Type()));
  if (!over)
    return weight;
  builder.setInsertionPointAfterValue(over);
  return createElementwise(
      builder, over.getLoc(), cast<RankedTensorType>(over.getType()),
      {weight, over}, [](OpBuilder &b, Location l, ValueRange v) -> Value {
        Value wide = convertScalarToDtype(b, l, v[0], v[1].getType(),
                                          /*isUnsignedCast=*/false);
        return arith::MulFOp::create(b, l, wide, v[1]);
      });
}

void AddAccumulation::keepGathered(ProgramOp program) {
  bool gathers = getTraits(program.getKind()).gathersForOthers;
  for (auto unshard : llvm::make_early_inc_range(program.getOps<UnshardOp>())) {
    Value whole = unshard.getResult();
    StateOp state =
        gathered.lookup(unshard.getResult().getType().getFlatParam());
    if (!state)
      continue;
    for (Operation *user : llvm::make_early_inc_range(whole.getUsers()))
      if (isa<ReshardOp>(user))
        user->erase();
    BlockArgument kept = addStateArgument(program, state);
    if (gathers) {
      appendResult(program, whole, names::kState,
                   FlatSymbolRefAttr::get(state));
      continue;
    }
    whole.replaceAllUsesWith(kept);
    auto shard = dyn_cast<BlockArgument>(unshard.getShard());
    unshard.erase();
    if (shard && shard.use_empty() && !getTraits(program.getKind()).updates)
      (void)program.eraseArgument(shard.getArgNumber());
  }
}

void AddAccumulation::derive(ProgramOp train, ProgramKind kind) {
  ProgramOp program = train.clone();
  program.setSymName(stringifyProgramKind(kind));
  program.setKind(kind);
  train->getBlock()->push_back(program);
  bool isLast = getTraits(kind).updates;
  if (!isLast)
    eraseResults(program, getResultsWith(program, names::kGradShard));
  keepGathered(program);
  OpBuilder builder(&getContext());
  auto type = RankedTensorType::get({}, builder.getF32Type());
  Value count = addScalarArgument(program, scalars::accumulated, type);
  Divisors divisors(program);
  if (isLast) // Its scalars come before states.
    divisors.get((*program.getOps<ReduceGradOp>().begin()).getOver());
  for (auto reduce :
       llvm::make_early_inc_range(program.getOps<ReduceGradOp>())) {
    StateOp state = accumulators.lookup(reduce.getFlatParamAttr());
    BlockArgument old = addStateArgument(program, state);
    builder.setInsertionPoint(reduce);
    Location loc = reduce.getLoc();
    Value sum = AccumulateGradOp::create(builder, loc, state.getType(),
                                         reduce.getFlatParamAttr(), old, count,
                                         reduce.getGrads(), reduce.getOver());
    if (isLast)
      reduce.getResult().replaceAllUsesWith(ReduceAccumulatedOp::create(
          builder, loc, reduce.getResult().getType(), sum,
          divisors.get(reduce.getOver())));
    else
      appendResult(program, sum, names::kState, FlatSymbolRefAttr::get(state));
    reduce.erase();
  }
}
