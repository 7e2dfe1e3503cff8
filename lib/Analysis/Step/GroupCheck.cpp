//===- GroupCheck.cpp - Do collectives join the right ranks? --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Follows through the step how values differ between ranks (Distribution.h),
// and which reductions of gradients each is computed of. Sums over batches end
// as means, sums of what ranks computed of their shards are completed before
// anything else is computed of them, and a gradient's norm counts whatever the
// step updates.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/GroupCheck.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/Distribution.h"
#include "fsdp/Analysis/Step/PlacedStep.h"
#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <deque>

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// A value that is not what its maker wanted, in @op.
struct StepFault {
  Operation *op;
  Distribution::Fault fault;
};

/// How a value differs between ranks.
struct Known {
  Distribution form;
  /// The first of those it is computed of.
  const StepFault *fault = nullptr;
};

/// Results that ranks must agree on, by what they are.
enum class ResultKind {
  Other,
  Loss,
  GradNorm,
  Shard,
  State,
  Output,
  Accumulator
};

class GroupChecker {
public:
  GroupChecker(ModuleOp module, ProgramOp step, MeshOp mesh,
               const sched::StepProgram &program, ArrayRef<Operation *> origins)
      : module(module), symbols(module), step(step), states(step), mesh(mesh) {
    nameTransfers(program, origins);
  }
  LogicalResult run();

private:
  Axes getAxes(ArrayAttr names);
  int64_t countRanks(Axes axes);
  std::string describe(Axes axes);
  FlatParamOp getFlatParam(StateOp state);
  static bool isIgnored(FlatParamOp flat) {
    return flat && flat.getShardAxes().empty() &&
           flat.getReplicateAxes().empty();
  }
  void nameTransfers(const sched::StepProgram &program,
                     ArrayRef<Operation *> origins);
  void addArguments();
  Distribution getAccumulated(StateOp state);
  LogicalResult visit(Operation &op);
  LogicalResult visitCollective(CollectiveOpInterface op);
  LogicalResult gather(CollectiveOpInterface op, Distribution &form);
  LogicalResult reduce(CollectiveOpInterface op, bool isScattered,
                       Distribution &form);
  LogicalResult exchange(CollectiveOpInterface op, Distribution &form);
  void visitLaunch(LaunchOp op);
  Known getKnown(Value value) { return known.lookup(getWholeValue(value)); }
  Known joinOperands(Operation &op);

  SmallVector<Value> getSources(Value value);
  std::string nameUnits(Value value);
  void walkBack(Value value, function_ref<bool(Value)> visitValue);
  InFlightDiagnostic report(const StepFault &fault);
  InFlightDiagnostic reportDivisor(Value value, const Twine &what);
  LogicalResult checkReturn(Operation &op);
  LogicalResult checkResult(Operation *maker, Value whole, ResultKind kind,
                            StateOp state);
  LogicalResult checkAccumulated(Operation *maker, Value whole, StateOp state);
  bool reads(Value value, function_ref<bool(unsigned)> isWanted);
  bool readsState(Value value, StateOp state);
  StateOp getAccumulator(FlatParamOp flat);
  bool isGradient(Value source);
  LogicalResult checkCounted(Value norm, ArrayRef<Value> shards);
  LogicalResult fail(Operation *op, const Twine &expected, Axes axes,
                     const Twine &got) {
    return op->emitOpError("expected ")
           << expected << " along " << describe(axes) << ", got " << got;
  }

  ModuleOp module;
  SymbolTable symbols;
  ProgramOp step;
  ProgramStates states;
  MeshOp mesh;
  /// All with more than one rank.
  Axes all = 0;
  llvm::DenseMap<Value, Known> known;
  /// What reductions make of batches: gradients, the loss.
  llvm::DenseSet<Value> reducedBatches;
  /// Of transfers: the unit that they are for.
  llvm::DenseMap<Operation *, StringRef> units;
  std::deque<StepFault> faults;
};
} // namespace

Axes GroupChecker::getAxes(ArrayAttr names) {
  Axes axes = 0;
  for (auto [i, axis] :
       llvm::enumerate(mesh.getAxes().getAsRange<MeshAxisAttr>()))
    if (axis.getSize() > 1 && llvm::is_contained(names, axis.getName()))
      axes |= Axes(1) << i;
  return axes;
}

/// In a group along @axes.
int64_t GroupChecker::countRanks(Axes axes) {
  int64_t ranks = 1;
  for (auto [i, axis] :
       llvm::enumerate(mesh.getAxes().getAsRange<MeshAxisAttr>()))
    if (axes >> i & 1)
      ranks *= axis.getSize();
  return ranks;
}

std::string GroupChecker::describe(Axes axes) {
  SmallVector<StringRef> names;
  for (auto [i, axis] :
       llvm::enumerate(mesh.getAxes().getAsRange<MeshAxisAttr>()))
    if (axes >> i & 1)
      names.push_back(axis.getName().getValue());
  return names.empty() ? "no axis" : "'" + llvm::join(names, "', '") + "'";
}

/// The flat parameter that @state, which may be null, is laid out like.
FlatParamOp GroupChecker::getFlatParam(StateOp state) {
  if (!state || !state.getFlatParamAttr())
    return nullptr;
  return symbols.lookup<FlatParamOp>(*state.getFlatParam());
}

void GroupChecker::nameTransfers(const sched::StepProgram &program,
                                 ArrayRef<Operation *> origins) {
  for (auto [op, origin] : llvm::zip_equal(program.ops, origins)) {
    if (op.kind != sched::StepOpKind::Start)
      continue;
    SmallVector<Operation *> parts;
    if (auto start = dyn_cast<StartOp>(origin))
      for (Operation &part : start.getTransfers())
        parts.push_back(&part);
    else
      llvm::append_range(parts,
                         getGroupFrom(cast<TransferOpInterface>(origin)));
    ArrayRef<sched::Id> atoms = program.transfers[op.transfer].atomUnits;
    for (auto [part, unit] : llvm::zip_equal(parts, atoms))
      if (unit >= 0)
        units[part] = program.units[unit];
  }
}

/// A sharded accumulator has the sums of reduce-scatters over the shard axes,
/// divided as convert-fsdp-logical-to-collectives says; a whole one what ranks
/// computed of their batches.
Distribution GroupChecker::getAccumulated(StateOp state) {
  FlatParamOp flat = getFlatParam(state);
  Axes shards = getAxes(flat.getShardAxes());
  Distribution form;
  form.batch = all;
  if (cast<RankedTensorType>(state.getType()).getNumElements() ==
          int64_t(flat.getNumel()) &&
      shards)
    return form;
  form.batch &= ~shards;
  form.shard = form.reduced = shards;
  Axes replicas = getAxes(flat.getReplicateAxes());
  if (replicas && !flat.getReduceType().isF16())
    form.sum.ranks = countRanks(shards);
  return form;
}

/// Shards are equal on replicas when the step begins; batches, and buffers of a
/// rank's own, differ everywhere. So do parameters whose gradients are not
/// reduced.
void GroupChecker::addArguments() {
  for (BlockArgument arg : step.getArguments()) {
    unsigned i = arg.getArgNumber();
    StateOp state = states.getRead(i);
    bool isEqual = step.getArgAttr(i, names::kScalar) ||
                   (state && state.getKind() == StateKind::optimizer);
    Distribution &form = known[arg].form;
    if (state && state.getKind() == StateKind::accumulator) {
      form = getAccumulated(state);
    } else if (FlatParamOp flat = getFlatParam(state)) {
      form.shard = getAxes(flat.getShardAxes());
      if (isIgnored(flat))
        form.batch = all;
    } else if (state ? state.getKind() == StateKind::buffer
                     : bool(step.getArgAttr(i, names::kInput))) {
      form.batch = all;
    } else if (!isEqual) {
      // Nobody says what it is.
      form.batch = form.shard = all;
    }
  }
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult GroupChecker::gather(CollectiveOpInterface op,
                                   Distribution &form) {
  Axes axes = getAxes(op.getAxesAttr());
  if (axes & ~form.shard)
    return fail(op, "to gather what is sharded", axes,
                "shards along " + describe(form.shard));
  form.shard &= ~axes;
  form.partial &= ~axes;
  form.batch &= ~axes;
  return success();
}

LogicalResult GroupChecker::reduce(CollectiveOpInterface op, bool isScattered,
                                   Distribution &form) {
  Axes axes = getAxes(op.getAxesAttr());
  // Elements of a shard are no summands, what is computed of one may be.
  Axes parts = (form.shard | form.partial) & ~form.batch;
  // What was equal from the start may be averaged; what a reduction has made
  // equal would be counted several times. Parts of a sum over shards differ.
  Axes differs = isScattered ? form.batch : form.getDiffering();
  if (axes & form.reduced & ~differs)
    return fail(op, "to reduce what differs", axes,
                "what is reduced along " + describe(form.reduced) + " already");
  if (!isScattered && (axes & form.batch) && (axes & parts))
    return fail(op, "to reduce batches or shards, not both", axes,
                "shards along " + describe(form.shard | form.partial));
  if (!isScattered && (axes & form.getShard()))
    return fail(op, "to add up what ranks computed of their shards", axes,
                "the shards of " + nameUnits(op.getInput()));
  if (axes & form.batch)
    reducedBatches.insert(op->getResult(0));
  // Equal results count, too; parts of a sum over shards do not.
  Axes counted = isScattered ? axes : axes & ~parts;
  RankSum &sum = form.sum;
  if (llvm::MulOverflow(sum.ranks, countRanks(counted), sum.ranks) ||
      llvm::MulOverflow(sum.divisor, op.getDivisor(), sum.divisor))
    return op.emitOpError("expected divisors whose product is below 2^63");
  if (sum.isMean())
    sum = RankSum();
  form.batch &= ~axes;
  form.partial &= ~axes;
  form.reduced |= axes & differs;
  form.shard = isScattered ? form.shard | axes : form.shard & ~axes;
  return success();
}

/// The parts that ranks send are the terms of a reduce-scatter's sum, which
/// somebody else adds up. A sum over a dimension of them may be that one or one
/// of a part's elements: nobody knows whether its result is a shard or a
/// partial sum over shards.
LogicalResult GroupChecker::exchange(CollectiveOpInterface op,
                                     Distribution &form) {
  if (failed(reduce(op, /*isScattered=*/true, form)))
    return failure();
  form.partial |= getAxes(op.getAxesAttr());
  return success();
}

LogicalResult GroupChecker::visitCollective(CollectiveOpInterface op) {
  Known source = getKnown(op.getInput());
  auto distribute = [&]() -> LogicalResult {
    switch (op.getKind()) {
    case TransferKind::AllGather:
      return gather(op, source.form);
    case TransferKind::ReduceScatter:
      return reduce(op, /*isScattered=*/true, source.form);
    case TransferKind::AllReduce:
      return reduce(op, /*isScattered=*/false, source.form);
    case TransferKind::AllToAll:
      return exchange(op, source.form);
    case TransferKind::Offload:
    case TransferKind::Reload:
      break;
    }
    llvm_unreachable("a copy is no collective");
  };
  if (failed(distribute()))
    return failure();
  source.form.isZero = false;
  known[op->getResult(0)] = source;
  return success();
}

/// Each result is what the kernel computes it of; what is wrong in it is only
/// wrong if somebody asks for it.
void GroupChecker::visitLaunch(LaunchOp op) {
  SmallVector<Distribution> inputs;
  for (Value input : op.getInputs())
    inputs.push_back(getKnown(input).form);
  SmallVector<int64_t> tied;
  for (unsigned i = 0, e = op->getNumResults(); i != e; ++i)
    tied.push_back(op.getTiedInput(i));
  auto kernel = symbols.lookup<func::FuncOp>(op.getKernel());
  for (auto [result, form] :
       llvm::zip_equal(op->getResults(), distribute(kernel, inputs, tied))) {
    Known &made = known[result];
    made.form = form;
    for (unsigned i : form.inputs.set_bits())
      if (!made.fault)
        made.fault = getKnown(op.getInputs()[i]).fault;
    if (form.fault && !made.fault)
      made.fault = &faults.emplace_back(StepFault{op, *form.fault});
  }
}

Known GroupChecker::joinOperands(Operation &op) {
  Known result;
  SmallVector<Distribution> operands;
  for (Value operand : op.getOperands()) {
    Known part = getKnown(operand);
    operands.push_back(part.form);
    operands.back().fault.reset();
    operands.back().inputs.clear();
    if (!result.fault)
      result.fault = part.fault;
  }
  result.form = Distribution::join(operands);
  return result;
}

LogicalResult GroupChecker::visit(Operation &op) {
  if (auto start = dyn_cast<StartOp>(op)) {
    for (Operation &transfer : start.getTransfers())
      if (failed(visit(transfer)))
        return failure();
    return success();
  }
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return visitCollective(collective);
  if (isa<fsdp::ReturnOp>(op))
    return checkReturn(op);
  if (isView(&op) || isa<WaitOp>(op))
    return success();
  if (auto launch = dyn_cast<LaunchOp>(op)) {
    visitLaunch(launch);
    return success();
  }
  Known result = joinOperands(op);
  for (Value value : op.getResults())
    known[value] = result;
  return success();
}

//===----------------------------------------------------------------------===//
// What a value is computed of
//===----------------------------------------------------------------------===//

/// From @value back through the step; @visitValue says whether to go on.
void GroupChecker::walkBack(Value value, function_ref<bool(Value)> visitValue) {
  llvm::SetVector<Value> seen;
  seen.insert(getWholeValue(value));
  for (size_t i = 0; i != seen.size(); ++i) {
    Value next = seen[i];
    if (!visitValue(next) || !next.getDefiningOp())
      continue;
    Operation *maker = next.getDefiningOp();
    auto launch = dyn_cast<LaunchOp>(maker);
    llvm::SmallBitVector inputs = known.lookup(next).form.inputs;
    for (auto [j, operand] : llvm::enumerate(maker->getOperands()))
      if (!launch || (j < inputs.size() && inputs.test(j)))
        seen.insert(getWholeValue(operand));
  }
}

/// The reduced gradients, shards and states that @value is computed of.
SmallVector<Value> GroupChecker::getSources(Value value) {
  SmallVector<Value> sources;
  walkBack(value, [&](Value next) {
    if (next.getDefiningOp<AllGatherOp>())
      return false;
    auto arg = dyn_cast<BlockArgument>(next);
    if (arg && !getFlatParam(states.getRead(arg.getArgNumber())))
      return false;
    bool isSource = arg || reducedBatches.contains(next);
    if (isSource)
      sources.push_back(next);
    return !isSource;
  });
  return sources;
}

/// "'h.0'", "'h.0' and 2 others": the units that @value is computed of.
std::string GroupChecker::nameUnits(Value value) {
  llvm::SetVector<StringRef> found;
  for (Value source : getSources(value)) {
    if (auto arg = dyn_cast<BlockArgument>(source))
      found.insert(
          getFlatParam(states.getRead(arg.getArgNumber())).getSymName());
    else if (units.contains(source.getDefiningOp()))
      found.insert(units.lookup(source.getDefiningOp()));
  }
  if (found.empty())
    return "no unit";
  std::string text = ("'" + found.front() + "'").str();
  if (size_t others = found.size() - 1)
    text +=
        " and " + std::to_string(others) + " other" + (others > 1 ? "s" : "");
  return text;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

InFlightDiagnostic GroupChecker::report(const StepFault &fault) {
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
  bool isPartial = getKnown(value).form.getPartial() & what.axes;
  InFlightDiagnostic diag =
      fault.op->emitOpError("expected an all_reduce along ")
      << describe(what.axes) << " of "
      << (isPartial ? "" : "what is computed of ") << "operand " << partial
      << (isPartial ? ", a sum over each rank's shard of "
                    : ", each rank's shard of ")
      << nameUnits(value) << ", before ";
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
InFlightDiagnostic GroupChecker::reportDivisor(Value value, const Twine &what) {
  Value last = value;
  walkBack(value, [&](Value next) {
    Operation *maker = next.getDefiningOp();
    if (maker && isReduction(maker) && !known.lookup(next).form.sum.isMean() &&
        last == value)
      last = next;
    return last == value;
  });
  if (!last.getDefiningOp())
    return step.emitOpError("expected ") << what << " to be a mean";
  auto [ranks, divisor] = known.lookup(last).form.sum;
  auto collective = last.getDefiningOp<CollectiveOpInterface>();
  int64_t own = collective ? collective.getDivisor() : 1,
          before = divisor / own;
  InFlightDiagnostic diag = last.getDefiningOp()->emitOpError("expected ");
  if (ranks == 1)
    diag << "sums over the shards of " << nameUnits(last)
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
  if (step.getResultAttr(result, names::kLoss))
    return ResultKind::Loss;
  if (step.getResultAttr(result, names::kGradNorm))
    return ResultKind::GradNorm;
  if (step.getResultAttr(result, names::kOutput))
    return ResultKind::Output;
  if (!state || state.getKind() == StateKind::buffer)
    return ResultKind::Other;
  if (state.getKind() == StateKind::accumulator)
    return ResultKind::Accumulator;
  return state.getKind() == StateKind::parameter ? ResultKind::Shard
                                                 : ResultKind::State;
}

/// The accumulator of @flat, in a program that updates by what was accumulated;
/// else null.
StateOp GroupChecker::getAccumulator(FlatParamOp flat) {
  if (step.getKind() != ProgramKind::train_accumulated)
    return {};
  for (auto state : module.getOps<StateOp>())
    if (state.getKind() == StateKind::accumulator &&
        state.getFlatParamAttr() == FlatSymbolRefAttr::get(flat))
      return state;
  return {};
}

/// Whether @value is computed of an argument of the program, by number, that
/// @isWanted.
bool GroupChecker::reads(Value value, function_ref<bool(unsigned)> isWanted) {
  bool isFound = false;
  walkBack(value, [&](Value next) {
    auto arg = dyn_cast<BlockArgument>(next);
    isFound |= arg && isWanted(arg.getArgNumber());
    return !isFound;
  });
  return isFound;
}

/// Whether @value is computed of the state @state as it was when the program
/// began.
bool GroupChecker::readsState(Value value, StateOp state) {
  return reads(value, [&](unsigned i) { return states.getRead(i) == state; });
}

/// What the next micro-batch adds to is of the form that getAccumulated says,
/// and made of what was there and of a batch.
LogicalResult GroupChecker::checkAccumulated(Operation *maker, Value whole,
                                             StateOp state) {
  const Known &made = known[whole];
  const Distribution &form = made.form;
  if (made.fault)
    return report(*made.fault);
  bool readsBatch = reads(whole, [&](unsigned i) {
    return bool(step.getArgAttr(i, names::kInput));
  });
  if (!readsBatch || !readsState(whole, state))
    return maker->emitOpError("expected what @")
           << state.getSymName()
           << " held and the gradients of a batch as its new value, got "
           << (readsBatch ? "gradients alone" : "no gradients of a batch");
  Distribution wanted = getAccumulated(state);
  if (form.batch == wanted.batch && form.shard == wanted.shard &&
      !form.getPartial() && form.sum == wanted.sum)
    return success();
  InFlightDiagnostic diag =
      maker->emitOpError("expected gradients of ")
      << (wanted.shard ? "shards" : "the whole") << " of '"
      << getFlatParam(state).getSymName() << "' that differ along "
      << describe(wanted.getDiffering()) << " in @" << state.getSymName()
      << ", got ones that differ along " << describe(form.getDiffering());
  if (!(form.sum == wanted.sum))
    diag << " and are sums over " << form.sum.ranks << " ranks divided by "
         << form.sum.divisor << ", not over " << wanted.sum.ranks
         << " divided by " << wanted.sum.divisor;
  return diag;
}

/// Replicas that went their own ways would be so for ever, and a loss or a norm
/// is the one of all ranks.
LogicalResult GroupChecker::checkResult(Operation *maker, Value whole,
                                        ResultKind kind, StateOp state) {
  FlatParamOp flat = getFlatParam(state);
  // Each rank goes its own way with what it does not reduce.
  if (kind == ResultKind::Other || isIgnored(flat))
    return success();
  const Known &made = known[whole];
  const Distribution &form = made.form;
  if (kind == ResultKind::Output) {
    if (!form.reduced)
      return success();
    return maker->emitOpError("expected an output that depends on this rank's "
                              "batch, got one that depends on those of ranks "
                              "along ")
           << describe(form.reduced);
  }
  if (kind == ResultKind::Accumulator)
    return checkAccumulated(maker, whole, state);
  if (StateOp accumulator =
          kind == ResultKind::Shard ? getAccumulator(flat) : StateOp();
      accumulator && !readsState(whole, accumulator))
    return maker->emitOpError(
               "expected gradients of earlier micro-batches, in @")
           << accumulator.getSymName() << ", in the update of '"
           << flat.getSymName() << "', got none";
  bool isReport = kind == ResultKind::Loss || kind == ResultKind::GradNorm;
  std::string what = kind == ResultKind::Loss       ? "a loss"
                     : kind == ResultKind::GradNorm ? "a gradient norm"
                     : flat ? ("a shard of '" + flat.getSymName() + "'").str()
                            : "a state of all ranks";
  if (!isReport && flat && form.batch)
    return maker->emitOpError("expected gradients that are reduced along all "
                              "axes before they update ")
           << what << ", got ones that differ along " << describe(form.batch);
  if (made.fault)
    return report(*made.fault);
  Axes allowed = flat ? getAxes(flat.getShardAxes()) & ~form.getPartial() : 0;
  if (Axes differs = form.getDiffering() & ~allowed)
    return maker->emitOpError("expected ")
           << what << " that all ranks agree on, got one that differs along "
           << describe(differs);
  if (!form.sum.isMean())
    return reportDivisor(whole, what);
  return success();
}

/// Whether @source is a reduced gradient or an accumulator.
bool GroupChecker::isGradient(Value source) {
  if (auto arg = dyn_cast<BlockArgument>(source)) {
    StateOp state = states.getRead(arg.getArgNumber());
    return state && state.getKind() == StateKind::accumulator;
  }
  return reducedBatches.contains(source);
}

/// What is clipped is what is counted: the norm is computed of every gradient
/// that a shard is.
LogicalResult GroupChecker::checkCounted(Value norm, ArrayRef<Value> shards) {
  llvm::SmallDenseSet<Value> counted;
  for (Value source : getSources(norm))
    counted.insert(source);
  for (Value shard : shards)
    for (Value source : getSources(shard))
      if (isGradient(source) && !counted.contains(source)) {
        Operation *maker = getWholeValue(norm).getDefiningOp();
        InFlightDiagnostic diag =
            (maker ? maker : step.getOperation())->emitOpError("expected a ")
            << "gradient norm that counts every gradient of the step, got one "
               "without that of "
            << nameUnits(source);
        if (source.getDefiningOp())
          diag.attachNote(source.getLoc()) << "it is reduced here";
        return diag;
      }
  return success();
}

LogicalResult GroupChecker::checkReturn(Operation &op) {
  Value norm;
  SmallVector<Value> shards;
  for (OpOperand &operand : op.getOpOperands()) {
    StateOp state = states.getWritten(operand.getOperandNumber());
    ResultKind kind = getKind(step, operand.getOperandNumber(), state);
    Value whole = getWholeValue(operand.get());
    Operation *maker = whole.getDefiningOp() ? whole.getDefiningOp() : &op;
    if (failed(checkResult(maker, whole, kind, state)))
      return failure();
    if (kind == ResultKind::GradNorm)
      norm = whole;
    if (kind == ResultKind::Shard)
      shards.push_back(whole);
  }
  return norm ? checkCounted(norm, shards) : success();
}

LogicalResult GroupChecker::run() {
  for (auto [i, axis] :
       llvm::enumerate(mesh.getAxes().getAsRange<MeshAxisAttr>()))
    if (axis.getSize() > 1)
      all |= Axes(1) << i;
  addArguments();
  for (Operation &op : step.getBody().front())
    if (failed(visit(op)))
      return failure();
  return success();
}

LogicalResult fsdp::checkGroups(ProgramOp step,
                                const sched::StepProgram &program,
                                ArrayRef<Operation *> origins) {
  auto module = step->getParentOfType<ModuleOp>();
  auto meshes = module.getOps<MeshOp>();
  if (meshes.empty())
    return success();
  return GroupChecker(module, step, *meshes.begin(), program, origins).run();
}
