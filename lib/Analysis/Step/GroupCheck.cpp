//===- GroupCheck.cpp - Do collectives join the right ranks? --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks the results of a step by how they differ between ranks
// (StepDistributions.h). Sums over batches end as means, sums of what ranks
// computed of their shards are completed before anything else is computed of
// them, and a gradient's norm counts whatever the step updates.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/GroupCheck.h"
#include "StepDistributions.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/PlacedStep.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// Results that ranks must agree on, by what they are.
enum class ResultKind {
  Other,
  Loss,
  LossCount,
  GradNorm,
  Shard,
  State,
  Output,
  Accumulator,
  Gathered
};

class ResultChecker {
public:
  ResultChecker(ProgramOp step, const StepDistributions &values)
      : step(step), values(values), states(values.getStates()) {}
  LogicalResult run();

private:
  InFlightDiagnostic report(const StepFault &fault);
  InFlightDiagnostic reportDivisor(Value value, const Twine &what);
  LogicalResult checkResult(Operation *maker, Value whole, ResultKind kind,
                            StateOp state);
  LogicalResult checkAccumulated(Operation *maker, Value whole, StateOp state);
  LogicalResult checkGathered(Operation *maker, Value whole, StateOp state);
  bool reads(Value value, function_ref<bool(unsigned)> isWanted);
  bool readsState(Value value, StateOp state);
  StateOp getAccumulator(FlatParamOp flat);
  bool isGradient(Value source);
  LogicalResult checkCounted(Value norm, ArrayRef<Value> shards);

  ProgramOp step;
  const StepDistributions &values;
  const ProgramStates &states;
};
} // namespace

InFlightDiagnostic ResultChecker::report(const StepFault &fault) {
  using Fault = Distribution::Fault;
  const Fault &what = fault.fault;
  unsigned partial = what.partial.find_first();
  Value value = fault.op->getOperand(partial);
  if (what.kind == Fault::Sums)
    return fault.op->emitOpError("expected sums that are divided alike, got "
                                 "operand ")
           << partial << " with divisor " << what.sum.divisor << " of "
           << what.sum.ranks << " ranks and operand " << what.other.find_first()
           << " with divisor " << what.otherSum.divisor << " of "
           << what.otherSum.ranks << " ranks";
  // What is computed of a shard is partial within the kernel.
  bool isPartial = values.lookup(value).form.getPartial() & what.axes;
  InFlightDiagnostic diag =
      fault.op->emitOpError("expected an all_reduce along ")
      << values.describe(what.axes) << " of "
      << (isPartial ? "" : "what is computed of ") << "operand " << partial
      << (isPartial ? ", a sum over each rank's shard of "
                    : ", each rank's shard of ")
      << values.nameUnits(value) << ", before ";
  if (what.kind == Fault::NotLinear)
    diag << "what is computed of it is no sum";
  else if (int other = what.other.find_first(); other >= 0)
    diag << "it meets operand " << other << ", which needs none";
  else
    diag << "it meets what needs none";
  diag << ", got none";
  Operation *maker = getWholeValue(value).getDefiningOp();
  if (maker && maker->getLoc() != fault.op->getLoc())
    diag.attachNote(maker->getLoc()) << "the operand is made here";
  return diag;
}

/// @value, which is @what, is no mean: the reduction that should have made it
/// one says so.
InFlightDiagnostic ResultChecker::reportDivisor(Value value,
                                                const Twine &what) {
  Value last = value;
  values.walkBack(value, [&](Value next) {
    Operation *maker = next.getDefiningOp();
    if (maker && isReduction(maker) && !values.lookup(next).form.sum.isMean() &&
        last == value)
      last = next;
    return last == value;
  });
  if (!last.getDefiningOp())
    return step.emitOpError("expected ") << what << " to be a mean";
  auto [ranks, divisor] = values.lookup(last).form.sum;
  auto collective = last.getDefiningOp<CollectiveOpInterface>();
  int64_t own = collective ? collective.getDivisor() : 1,
          before = divisor / own;
  InFlightDiagnostic diag = last.getDefiningOp()->emitOpError("expected ");
  if (ranks == 1)
    diag << "sums over the shards of " << values.nameUnits(last)
         << " not to be divided";
  else if (ranks % before)
    diag << "a sum over " << ranks << " ranks not to be divided by " << before
         << " before";
  else
    diag << "a sum over " << ranks << " ranks to be divided by "
         << ranks / before << (before > 1 ? " here" : "");
  diag << " for " << what << ", got divisor " << own;
  return diag;
}

static ResultKind getKind(ProgramOp step, unsigned result, StateOp state) {
  // The loss of an evaluation, and its count, are the rank's own, as its other
  // outputs are: the runtime averages over the batches that there are.
  for (auto [name, kind] :
       {std::pair(names::kLoss, ResultKind::Loss),
        std::pair(names::kLossCount, ResultKind::LossCount)})
    if (step.getResultAttr(result, name))
      return getTraits(step.getKind()).hasBackward ? kind : ResultKind::Output;
  if (step.getResultAttr(result, names::kGradNorm))
    return ResultKind::GradNorm;
  if (step.getResultAttr(result, names::kOutput))
    return ResultKind::Output;
  if (!state || state.getKind() == StateKind::buffer ||
      state.getKind() == StateKind::residual)
    return ResultKind::Other;
  if (state.getKind() == StateKind::accumulator)
    return ResultKind::Accumulator;
  if (state.getKind() == StateKind::gathered)
    return ResultKind::Gathered;
  return state.getKind() == StateKind::parameter ? ResultKind::Shard
                                                 : ResultKind::State;
}

/// The accumulator of @flat, in a program that updates by what was accumulated;
/// else null.
StateOp ResultChecker::getAccumulator(FlatParamOp flat) {
  if (const auto &traits = getTraits(step.getKind());
      !traits.accumulates || !traits.updates)
    return {};
  for (auto state : step->getParentOfType<ModuleOp>().getOps<StateOp>())
    if (state.getKind() == StateKind::accumulator &&
        state.getFlatParamAttr() == FlatSymbolRefAttr::get(flat))
      return state;
  return {};
}

/// Whether @value is computed of an argument of the program, by number, that
/// @isWanted.
bool ResultChecker::reads(Value value, function_ref<bool(unsigned)> isWanted) {
  bool isFound = false;
  values.walkBack(value, [&](Value next) {
    auto arg = dyn_cast<BlockArgument>(next);
    isFound |= arg && isWanted(arg.getArgNumber());
    return !isFound;
  });
  return isFound;
}

/// Whether @value is computed of the state @state as it was when the program
/// began.
bool ResultChecker::readsState(Value value, StateOp state) {
  return reads(value, [&](unsigned i) { return states.getRead(i) == state; });
}

/// What the next micro-batch adds to is of the form that getAccumulated says,
/// and made of what was there and of a batch.
LogicalResult ResultChecker::checkAccumulated(Operation *maker, Value whole,
                                              StateOp state) {
  ValueDistribution made = values.lookup(whole);
  const Distribution &form = made.form;
  if (made.fault)
    return report(*made.fault);
  bool readsBatch =
      reads(whole, [&](unsigned i) { return isOfBatch(step, i); });
  if (!readsBatch || !readsState(whole, state))
    return maker->emitOpError("expected what @")
           << state.getSymName()
           << " held and the gradients of a batch as its new value, got "
           << (readsBatch ? "gradients alone" : "no gradients of a batch");
  Distribution wanted = values.getAccumulated(state);
  if (form.batch == wanted.batch && form.shard == wanted.shard &&
      !form.getPartial() && form.sum == wanted.sum)
    return success();
  InFlightDiagnostic diag =
      maker->emitOpError("expected gradients of ")
      << (wanted.shard ? "shards" : "the whole") << " of '"
      << values.getFlatParam(state).getSymName() << "' that differ along "
      << values.describe(wanted.getDiffering()) << " in @" << state.getSymName()
      << ", got ones that differ along "
      << values.describe(form.getDiffering());
  if (!(form.sum == wanted.sum))
    diag << " and are sums over " << form.sum.ranks << " ranks divided by "
         << form.sum.divisor << ", not over " << wanted.sum.ranks
         << " divided by " << wanted.sum.divisor;
  return diag;
}

/// What stays gathered is gathered of the shard that the program takes, and of
/// nothing else.
LogicalResult ResultChecker::checkGathered(Operation *maker, Value whole,
                                           StateOp state) {
  bool isOfShard = false, isOfOthers = false;
  values.walkBack(whole, [&](Value next) {
    if (auto arg = dyn_cast<BlockArgument>(next)) {
      StateOp source = states.getRead(arg.getArgNumber());
      bool isShard = source && source.getKind() == StateKind::parameter &&
                     source.getFlatParamAttr() == state.getFlatParamAttr();
      (isShard ? isOfShard : isOfOthers) = true;
    }
    return true;
  });
  if (isOfShard && !isOfOthers && whole.getDefiningOp<AllGatherOp>())
    return success();
  return maker->emitOpError("expected a gather of the shard of '")
         << values.getFlatParam(state).getSymName() << "' alone as the new "
         << "value of @" << state.getSymName() << ", got another value";
}

/// Replicas that went their own ways would be so for ever, and a loss or a norm
/// is the one of all ranks.
LogicalResult ResultChecker::checkResult(Operation *maker, Value whole,
                                         ResultKind kind, StateOp state) {
  FlatParamOp flat = values.getFlatParam(state);
  // Each rank goes its own way with what it does not reduce.
  if (kind == ResultKind::Other || values.isIgnored(flat))
    return success();
  ValueDistribution made = values.lookup(whole);
  const Distribution &form = made.form;
  if (kind == ResultKind::Output) {
    if (!form.reduced)
      return success();
    return maker->emitOpError("expected an output that depends on this rank's "
                              "batch, got one that depends on those of ranks "
                              "along ")
           << values.describe(form.reduced);
  }
  if (kind == ResultKind::Accumulator)
    return checkAccumulated(maker, whole, state);
  if (kind == ResultKind::Gathered &&
      failed(checkGathered(maker, whole, state)))
    return failure();
  if (StateOp accumulator =
          kind == ResultKind::Shard ? getAccumulator(flat) : StateOp();
      accumulator && !readsState(whole, accumulator))
    return maker->emitOpError(
               "expected gradients of earlier micro-batches, in @")
           << accumulator.getSymName() << ", in the update of '"
           << flat.getSymName() << "', got none";
  bool isReport = kind == ResultKind::Loss || kind == ResultKind::LossCount ||
                  kind == ResultKind::GradNorm;
  std::string what =
      kind == ResultKind::Loss        ? "a loss"
      : kind == ResultKind::LossCount ? "a loss count"
      : kind == ResultKind::GradNorm  ? "a gradient norm"
      : kind == ResultKind::Gathered
          ? ("what is gathered of '" + flat.getSymName() + "'").str()
      : flat ? ("a shard of '" + flat.getSymName() + "'").str()
             : "a state of all ranks";
  if (!isReport && flat && form.batch)
    return maker->emitOpError("expected gradients that are reduced along all "
                              "axes before they update ")
           << what << ", got ones that differ along "
           << values.describe(form.batch);
  if (made.fault)
    return report(*made.fault);
  Axes allowed = flat && kind != ResultKind::Gathered
                     ? values.getAxes(flat.getShardAxes()) & ~form.getPartial()
                     : 0;
  if (Axes differs = form.getDiffering() & ~allowed)
    return maker->emitOpError("expected ")
           << what << " that all ranks agree on, got one that differs along "
           << values.describe(differs);
  if (!form.sum.isMean())
    return reportDivisor(whole, what);
  return success();
}

/// Whether @source is a reduced gradient or an accumulator.
bool ResultChecker::isGradient(Value source) {
  if (auto arg = dyn_cast<BlockArgument>(source)) {
    StateOp state = states.getRead(arg.getArgNumber());
    return state && state.getKind() == StateKind::accumulator;
  }
  return values.isReducedBatch(source);
}

/// What is clipped is what is counted: the norm is computed of every gradient
/// that a shard is. The walk from the norm passes reductions: the gradient of
/// an ignored parameter, which no rank reduces, enters it by the sum over ranks
/// of its squares.
LogicalResult ResultChecker::checkCounted(Value norm, ArrayRef<Value> shards) {
  llvm::SmallDenseSet<Value> counted;
  values.walkBack(norm, [&](Value next) {
    counted.insert(next);
    return !next.getDefiningOp<AllGatherOp>();
  });
  for (Value shard : shards)
    for (Value source : values.getSources(shard))
      if (isGradient(source) && !counted.contains(source)) {
        Operation *maker = getWholeValue(norm).getDefiningOp();
        InFlightDiagnostic diag =
            (maker ? maker : step.getOperation())->emitOpError("expected a ")
            << "gradient norm that counts every gradient of the step, got one "
               "without that of "
            << values.nameUnits(source);
        if (source.getDefiningOp())
          diag.attachNote(source.getLoc()) << "it is reduced here";
        return diag;
      }
  return success();
}

LogicalResult ResultChecker::run() {
  Operation *ret = step.getReturn();
  Value norm;
  SmallVector<Value> shards;
  for (OpOperand &operand : ret->getOpOperands()) {
    StateOp state = states.getWritten(operand.getOperandNumber());
    ResultKind kind = getKind(step, operand.getOperandNumber(), state);
    Value whole = getWholeValue(operand.get());
    Operation *maker = whole.getDefiningOp() ? whole.getDefiningOp() : ret;
    if (failed(checkResult(maker, whole, kind, state)))
      return failure();
    if (kind == ResultKind::GradNorm)
      norm = whole;
    if (kind == ResultKind::Shard)
      shards.push_back(whole);
  }
  return norm ? checkCounted(norm, shards) : success();
}

LogicalResult fsdp::checkGroups(ProgramOp step,
                                const sched::StepProgram &program,
                                ArrayRef<Operation *> origins) {
  auto meshes = step->getParentOfType<ModuleOp>().getOps<MeshOp>();
  if (meshes.empty())
    return success();
  StepDistributions values(step, *meshes.begin(), program, origins);
  if (failed(values.run()))
    return failure();
  return ResultChecker(step, values).run();
}
