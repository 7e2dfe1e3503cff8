//===- StepDistributions.cpp - How a step differs between ranks -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Follows through a step how values differ between ranks (Distribution.h), from
// its arguments on, and checks that each collective is along axes along which
// its operand differs.
//
//===----------------------------------------------------------------------===//

#include "StepDistributions.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

StepDistributions::StepDistributions(ProgramOp step, MeshOp mesh,
                                     const sched::StepProgram &program,
                                     ArrayRef<Operation *> origins)
    : symbols(step->getParentOfType<ModuleOp>()), step(step), states(step),
      meshAxes(mesh.getAxes().getAsRange<MeshAxisAttr>()) {
  for (auto [i, axis] : llvm::enumerate(meshAxes))
    if (axis.getSize() > 1)
      all |= Axes(1) << i;
  nameTransfers(program, origins);
}

Axes StepDistributions::getAxes(ArrayAttr names) const {
  Axes axes = 0;
  for (auto [i, axis] : llvm::enumerate(meshAxes))
    if (axis.getSize() > 1 && llvm::is_contained(names, axis.getName()))
      axes |= Axes(1) << i;
  return axes;
}

/// In a group along @axes.
int64_t StepDistributions::countRanks(Axes axes) const {
  int64_t ranks = 1;
  for (auto [i, axis] : llvm::enumerate(meshAxes))
    if (axes >> i & 1)
      ranks *= axis.getSize();
  return ranks;
}

std::string StepDistributions::describe(Axes axes) const {
  SmallVector<StringRef> names;
  for (auto [i, axis] : llvm::enumerate(meshAxes))
    if (axes >> i & 1)
      names.push_back(axis.getName().getValue());
  return names.empty() ? "no axis" : "'" + llvm::join(names, "', '") + "'";
}

FlatParamOp StepDistributions::getFlatParam(StateOp state) const {
  if (!state || !state.getFlatParamAttr())
    return nullptr;
  return symbols.lookup<FlatParamOp>(*state.getFlatParam());
}

void StepDistributions::nameTransfers(const sched::StepProgram &program,
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

Distribution StepDistributions::getAccumulated(StateOp state) const {
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
  if (replicas && !flat.dividesEachReduction())
    form.sum.ranks = countRanks(shards);
  return form;
}

bool fsdp::isOfBatch(ProgramOp program, unsigned argument) {
  if (program.getArgAttr(argument, names::kInput))
    return true;
  auto scalar =
      program.getArgAttrOfType<DictionaryAttr>(argument, names::kScalar);
  auto name = scalar ? scalar.getAs<StringAttr>("name") : nullptr;
  return name && name.getValue() == scalars::randomRank.name;
}

/// Shards are equal on replicas when the step begins; batches, and buffers of a
/// rank's own, differ everywhere. So do parameters whose gradients are not
/// reduced. What a hook kept is of one rank's gradients, after those were
/// reduced along the shard axes.
void StepDistributions::addArguments() {
  for (BlockArgument arg : step.getArguments()) {
    unsigned i = arg.getArgNumber();
    StateOp state = states.getRead(i);
    bool isEqual = step.getArgAttr(i, names::kScalar) ||
                   (state && state.getKind() == StateKind::optimizer);
    Distribution &form = known[arg].form;
    if (state && state.getKind() == StateKind::accumulator) {
      form = getAccumulated(state);
    } else if (state && state.getKind() == StateKind::gathered) {
      // Whole, and equal on replicas as their shards are.
    } else if (state && state.getKind() == StateKind::residual) {
      form.shard = getAxes(getFlatParam(state).getShardAxes());
      form.batch = getAxes(getFlatParam(state).getReplicateAxes());
    } else if (FlatParamOp flat = getFlatParam(state)) {
      form.shard = getAxes(flat.getShardAxes());
      if (isIgnored(flat))
        form.batch = all;
    } else if (state ? state.getKind() == StateKind::buffer
                     : isOfBatch(step, i)) {
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

LogicalResult StepDistributions::gather(CollectiveOpInterface op,
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

LogicalResult StepDistributions::reduce(CollectiveOpInterface op,
                                        bool isScattered, Distribution &form) {
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
LogicalResult StepDistributions::exchange(CollectiveOpInterface op,
                                          Distribution &form) {
  if (failed(reduce(op, /*isScattered=*/true, form)))
    return failure();
  form.partial |= getAxes(op.getAxesAttr());
  return success();
}

/// Whether what @op brings is read by a launch that reads a shard of a unit
/// whose gradients are reduced in @type. One launch may update several units;
/// the unit of a reduction is then one of them.
bool StepDistributions::updatesUnitReducedIn(CollectiveOpInterface op,
                                             Type type) const {
  SmallVector<Value> work = {op->getResult(0)};
  llvm::DenseSet<Operation *> seen;
  while (!work.empty())
    for (OpOperand &use : work.pop_back_val().getUses()) {
      Operation *user = use.getOwner();
      // What a transfer that was started brings is there after its wait.
      if (auto start = dyn_cast<StartOp>(user->getParentOp());
          start && isa<YieldOp>(user))
        for (Operation *wait : start.getToken().getUsers())
          if (isa<WaitOp>(wait))
            work.push_back(wait->getResult(use.getOperandNumber()));
      if (!seen.insert(user).second)
        continue;
      if (!isa<LaunchOp>(user)) {
        llvm::append_range(work, user->getResults());
        continue;
      }
      for (Value operand : user->getOperands()) {
        Value whole = getWholeValue(operand);
        if (auto copy = whole.getDefiningOp<ReloadOp>())
          whole = getWholeValue(copy.getInput());
        auto arg = dyn_cast<BlockArgument>(whole);
        StateOp state = arg ? states.getRead(arg.getArgNumber()) : StateOp();
        FlatParamOp flat = state && state.getKind() != StateKind::residual
                               ? getFlatParam(state)
                               : nullptr;
        if (flat && flat.getReduceType() == type)
          return true;
      }
    }
  return false;
}

/// What a flat parameter declares is how it travels: gathers bring `gather`, or
/// `state` where an evaluation is in full precision, and reductions of whole
/// gradients and shards of them are in `reduce`. Other reductions for the unit
/// (its part of a norm) are of numbers.
LogicalResult StepDistributions::checkType(CollectiveOpInterface op) {
  auto flat = symbols.lookup<FlatParamOp>(units.lookup(op));
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (!flat || type.getRank() != 1)
    return success();
  Type element = type.getElementType();
  bool isGather = op.getKind() == TransferKind::AllGather;
  if (isGather
          ? element == flat.getParamType() || element == flat.getElementType()
          : element == flat.getReduceType() ||
                updatesUnitReducedIn(op, element))
    return success();
  InFlightDiagnostic diag = op->emitOpError("expected ");
  if (isGather)
    diag << "a gather of " << flat.getParamType();
  else
    diag << "a reduction of " << flat.getReduceType();
  diag << " for '" << flat.getSymName() << "', as that declares, got one of "
       << element;
  diag.attachNote(flat.getLoc()) << "the flat parameter is here";
  return diag;
}

LogicalResult StepDistributions::visitCollective(CollectiveOpInterface op) {
  if (failed(checkType(op)))
    return failure();
  ValueDistribution source = lookup(op.getInput());
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
void StepDistributions::visitLaunch(LaunchOp op) {
  SmallVector<Distribution> inputs;
  for (Value input : op.getInputs())
    inputs.push_back(lookup(input).form);
  SmallVector<int64_t> tied;
  for (unsigned i = 0, e = op->getNumResults(); i != e; ++i)
    tied.push_back(op.getTiedInput(i));
  auto kernel = symbols.lookup<func::FuncOp>(op.getKernel());
  for (auto [result, form] :
       llvm::zip_equal(op->getResults(), distribute(kernel, inputs, tied))) {
    ValueDistribution &made = known[result];
    made.form = form;
    for (unsigned i : form.inputs.set_bits())
      if (!made.fault)
        made.fault = lookup(op.getInputs()[i]).fault;
    if (form.fault && !made.fault)
      made.fault = &faults.emplace_back(StepFault{op, *form.fault});
  }
}

ValueDistribution StepDistributions::joinOperands(Operation &op) {
  ValueDistribution result;
  SmallVector<Distribution> operands;
  for (Value operand : op.getOperands()) {
    ValueDistribution part = lookup(operand);
    operands.push_back(part.form);
    operands.back().fault.reset();
    operands.back().inputs.clear();
    if (!result.fault)
      result.fault = part.fault;
  }
  result.form = Distribution::join(operands);
  return result;
}

LogicalResult StepDistributions::visit(Operation &op) {
  if (auto start = dyn_cast<StartOp>(op)) {
    for (Operation &transfer : start.getTransfers())
      if (failed(visit(transfer)))
        return failure();
    return success();
  }
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return visitCollective(collective);
  if (isView(&op) || isa<WaitOp, fsdp::ReturnOp>(op))
    return success();
  if (auto launch = dyn_cast<LaunchOp>(op)) {
    visitLaunch(launch);
    return success();
  }
  ValueDistribution result = joinOperands(op);
  for (Value value : op.getResults())
    known[value] = result;
  return success();
}

//===----------------------------------------------------------------------===//
// What a value is computed of
//===----------------------------------------------------------------------===//

void StepDistributions::walkBack(Value value,
                                 function_ref<bool(Value)> visitValue) const {
  llvm::SetVector<Value> seen;
  seen.insert(getWholeValue(value));
  for (size_t i = 0; i != seen.size(); ++i) {
    Value next = seen[i];
    if (!visitValue(next) || !next.getDefiningOp())
      continue;
    Operation *maker = next.getDefiningOp();
    auto launch = dyn_cast<LaunchOp>(maker);
    llvm::SmallBitVector inputs = lookup(next).form.inputs;
    for (auto [j, operand] : llvm::enumerate(maker->getOperands()))
      if (!launch || (j < inputs.size() && inputs.test(j)))
        seen.insert(getWholeValue(operand));
  }
}

SmallVector<Value> StepDistributions::getSources(Value value) const {
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

std::string StepDistributions::nameUnits(Value value) const {
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

LogicalResult StepDistributions::run() {
  addArguments();
  for (Operation &op : step.getBody().front())
    if (failed(visit(op)))
      return failure();
  return success();
}
