//===- StepExtraction.cpp - A step's program from its IR ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes launches, copies, starts and waits of a step's ops. StepValues says
// which bytes they touch, StepUnits and StepModules which parts of the model
// they work for.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/StepExtraction.h"
#include "StepModules.h"
#include "StepUnits.h"
#include "StepValues.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Step/KernelCosts.h"
#include "fsdp/Analysis/Step/PlacedStep.h"
#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

namespace {
class Extraction {
public:
  /// @isPlaced: the IR says where values lie.
  Extraction(ProgramOp step, bool isPlaced,
             SmallVectorImpl<Operation *> &origins)
      : module(step->getParentOfType<ModuleOp>()), step(step), states(step),
        block(step.getBody().front()), origins(origins), isPlaced(isPlaced),
        values(step, states, isPlaced) {}

  FailureOr<StepProgram> extract();
  /// Without what only costs and readers want, of a step without places.
  FailureOr<StepMemory> extractMemory();

private:
  LogicalResult addOps();
  void nameModules();
  StepOp &addOp(StepOpKind kind, Operation &op, StringRef name);
  LogicalResult addTransfer(Operation &op, ArrayRef<TransferOpInterface> parts);
  void addWait(Id event, Id unit);
  LogicalResult addAlone(TransferOpInterface op);
  LogicalResult addStart(StartOp op);
  int64_t getWorkspaceBytes(LaunchOp op);
  void addLaunch(LaunchOp op);
  void addPack(PackOp op);
  void addReturn(Operation &op);
  FailureOr<Id> getGroup(CollectiveOpInterface op);
  LogicalResult describe(ArrayRef<TransferOpInterface> parts,
                         StepTransfer &transfer);

  ModuleOp module;
  ProgramOp step;
  ProgramStates states;
  Block &block;
  SmallVectorImpl<Operation *> &origins;
  StepProgram program;
  bool isPlaced;
  StepValues values;
  StepUnits units;
  /// Of starts in the IR.
  llvm::DenseMap<Operation *, Id> eventOf;
  llvm::StringMap<Id> kernels, checkpoints;
  /// By kernel.
  llvm::StringMap<int64_t> workspaceBytes;
  llvm::DenseMap<Operation *, Id> moduleOf;
  llvm::DenseMap<ArrayAttr, Id> groups;
  Id events = 0;
};
} // namespace

void Extraction::nameModules() {
  llvm::StringMap<FlatParamOp> flats;
  for (auto flat : module.getOps<FlatParamOp>())
    flats[flat.getSymName()] = flat;
  llvm::StringMap<Id> ids;
  auto getFlat = [&](Operation *op) -> FlatParamOp {
    Id unit = units.lookup(op);
    return unit >= 0 ? flats.lookup(units.names[unit]) : nullptr;
  };
  auto modules = getModules(step, getFlat);
  for (Operation &op : block) {
    auto start = dyn_cast<StartOp>(op);
    auto named = modules.find(start ? &*start.getTransfers().begin() : &op);
    if (named == modules.end())
      continue;
    auto [id, isNew] = ids.try_emplace(named->second, program.modules.size());
    if (isNew)
      program.modules.push_back(named->second);
    moduleOf[&op] = id->second;
  }
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

StepOp &Extraction::addOp(StepOpKind kind, Operation &op, StringRef name) {
  StepOp &result = program.ops.emplace_back();
  result.kind = kind;
  result.name = name.str();
  result.source = program.ops.size() - 1;
  result.unit = units.lookup(&op);
  result.module = moduleOf.contains(&op) ? moduleOf.lookup(&op) : -1;
  if (isa<fsdp::ReturnOp, StartOp>(op))
    return result;
  for (Value operand : op.getOperands())
    result.reads.push_back(values.getRange(operand));
  for (Value value : op.getResults())
    result.writes.push_back(values.getRange(value));
  return result;
}

int64_t Extraction::getWorkspaceBytes(LaunchOp op) {
  auto [it, isNew] = workspaceBytes.try_emplace(op.getKernel(), 0);
  if (isNew)
    if (auto kernel = module.lookupSymbol<func::FuncOp>(op.getKernel()))
      it->second = fsdp::getWorkspaceBytes(kernel);
  return it->second;
}

void Extraction::addLaunch(LaunchOp op) {
  StepOp &launch = addOp(StepOpKind::Launch, *op, op.getKernel());
  launch.workspaceBytes = getWorkspaceBytes(op);
  if (isPlaced) {
    auto [it, isNew] =
        kernels.try_emplace(op.getKernel(), program.kernels.size());
    if (isNew) {
      auto kernel = module.lookupSymbol<func::FuncOp>(op.getKernel());
      program.kernels.push_back(getKernelCost(kernel));
      program.isGraph |= bool(getImplementation(kernel, kCudaTarget));
    }
    launch.kernel = it->second;
  }
  if (auto checkpoint = op->getAttrOfType<CheckpointAttr>(names::kCheckpoint)) {
    StringRef name = checkpoint.getModule().getValue();
    auto [it, isNew] =
        checkpoints.try_emplace(name, program.checkpoints.size());
    if (isNew)
      program.checkpoints.push_back(name.str());
    launch.checkpoint = it->second;
    launch.isSaved = checkpoint.getSaved();
  }
  // A tied result that got a place of its own starts as a copy of the input.
  for (OpResult result : op.getResults()) {
    int64_t tied = op.getTiedInput(result.getResultNumber());
    if (tied < 0)
      continue;
    launch.inPlace.push_back({Id(tied), Id(result.getResultNumber())});
    if (values.getOffset(result) != values.getOffset(op.getInputs()[tied]))
      launch.copiedBytes += 2 * getTensorBytes(result.getType());
  }
}

void Extraction::addPack(PackOp op) {
  StepOp &pack = addOp(StepOpKind::Copy, *op, "pack");
  int64_t element = llvm::divideCeil(op.getType().getElementTypeBitWidth(), 8);
  int64_t gaps = getTensorBytes(op.getType());
  for (auto [part, offset] : llvm::zip(op.getParts(), op.getOffsets())) {
    int64_t bytes = getTensorBytes(part.getType());
    gaps -= bytes;
    pack.places.push_back(values.getOffset(op.getResult()) + offset * element);
    if (values.getOffset(part) != pack.places.back())
      pack.copiedBytes += 2 * bytes;
    else
      program.values[values.lookup(op.getResult())].parts.push_back(
          values.getRange(part));
  }
  pack.copiedBytes += gaps;
}

std::optional<RankGroup> mlir::fsdp::getRankGroup(MeshOp mesh, ArrayAttr axes) {
  RankGroup group;
  bool begun = false, ended = false;
  for (auto axis : llvm::reverse(mesh.getAxes().getAsRange<MeshAxisAttr>())) {
    if (axis.getSize() == 1)
      continue;
    if (!llvm::is_contained(axes, axis.getName())) {
      if (begun)
        ended = true;
      else
        group.stride *= axis.getSize();
      continue;
    }
    if (ended)
      return std::nullopt;
    begun = true;
    group.size *= axis.getSize();
  }
  return group;
}

FailureOr<Id> Extraction::getGroup(CollectiveOpInterface op) {
  auto [it, isNew] =
      groups.try_emplace(op.getAxesAttr(), program.groups.size());
  if (!isNew)
    return it->second;
  std::optional<RankGroup> group = getRankGroup(
      module.lookupSymbol<MeshOp>(op.getMeshAttr()), op.getAxesAttr());
  if (!group)
    return op->emitOpError(
               "expected axes that are neighbours in the mesh, got ")
           << op.getAxesAttr();
  program.groups.push_back(*group);
  return it->second;
}

/// The start of @parts, which are of one kind and, if they communicate, group.
LogicalResult Extraction::addTransfer(Operation &op,
                                      ArrayRef<TransferOpInterface> parts) {
  TransferOpInterface first = parts.front();
  TransferKind kind = first.getKind();
  StepOp &start = addOp(StepOpKind::Start, op, first->getName().stripDialect());
  start.queue = getQueue(kind);
  if (kind == TransferKind::AllReduce)
    for (Id i = 0, e = parts.size(); i != e; ++i)
      start.inPlace.push_back({i, i});
  if (!isPlaced)
    return success();
  start.transfer = program.transfers.size();
  StepTransfer &transfer = program.transfers.emplace_back();
  transfer.kind = kind;
  auto reduction = module->getAttrOfType<ReductionAttr>(names::kReduction);
  transfer.isExactSum = reduction && reduction.getBy() == Adder::exact &&
                        isCollective(kind) &&
                        getShape(kind).work == ElementWork::Sums;
  return describe(parts, transfer);
}

/// What @parts send, and to whom.
LogicalResult Extraction::describe(ArrayRef<TransferOpInterface> parts,
                                   StepTransfer &transfer) {
  TransferOpInterface first = parts.front();
  if (auto collective = dyn_cast<CollectiveOpInterface>(*first)) {
    FailureOr<Id> group = getGroup(collective);
    if (failed(group))
      return failure();
    transfer.group = *group;
  }
  for (TransferOpInterface part : parts) {
    llvm::raw_string_ostream(transfer.dtypes.emplace_back())
        << getTensor(part.getSource().getType()).getElementType();
    auto collective = dyn_cast<CollectiveOpInterface>(*part);
    transfer.divisors.push_back(collective ? collective.getDivisor() : 1);
    Value whole = getShape(part.getKind()).source == OperandSize::Whole
                      ? part.getSource()
                      : Value(part.getBrought());
    transfer.atomBytes.push_back(getTensorBytes(whole.getType()));
    transfer.atomUnits.push_back(units.lookup(part));
  }
  return success();
}

void Extraction::addWait(Id event, Id unit) {
  StepOp &wait = program.ops.emplace_back();
  wait.kind = StepOpKind::Wait;
  wait.name = "wait";
  wait.event = event;
  wait.source = program.ops.size() - 1;
  wait.unit = unit;
}

/// Whether @op, of @group, can be issued with the first of it.
static LogicalResult verifyTogether(ArrayRef<TransferOpInterface> group,
                                    TransferOpInterface op) {
  auto report = [&](TransferOpInterface other, const llvm::Twine &what,
                    const llvm::Twine &got) {
    auto error = op->emitOpError("expected ")
                 << what << " in " << names::kGroup << " "
                 << op->getAttr(names::kGroup) << ", got " << got;
    error.attachNote(other->getLoc()) << "the other one is here";
    return error;
  };
  auto first = cast<CollectiveOpInterface>(*group.front());
  auto collective = dyn_cast<CollectiveOpInterface>(*op);
  if (!collective || op->getName() != first->getName() ||
      collective.getMeshAttr() != first.getMeshAttr() ||
      collective.getAxesAttr() != first.getAxesAttr())
    return report(group.front(), "collectives of one kind and group of ranks",
                  "another one");
  for (TransferOpInterface other : group)
    if (op.getSource() == other.getBrought())
      return report(other, "collectives that are independent of each other",
                    "one that sends what another one brings");
  return success();
}

/// A transfer that compute waits for at once.
LogicalResult Extraction::addAlone(TransferOpInterface op) {
  SmallVector<TransferOpInterface> group = getGroupFrom(op);
  for (TransferOpInterface other : llvm::drop_begin(group))
    if (failed(verifyTogether(group, other)))
      return failure();
  if (failed(addTransfer(*op, group)))
    return failure();
  StepOp &start = program.ops.back();
  for (TransferOpInterface other : llvm::drop_begin(group)) {
    start.reads.push_back(values.getRange(other.getSource()));
    start.writes.push_back(values.getRange(other.getBrought()));
  }
  start.event = events++;
  addWait(start.event, start.unit);
  return success();
}

std::optional<Hold> fsdp::getHold(Cause cause) {
  switch (cause) {
  case Cause::Memory:
    return Hold::Memory;
  case Cause::Limit:
    return Hold::Limit;
  default:
    return std::nullopt;
  }
}

Cause fsdp::getCause(Hold hold) {
  switch (hold) {
  case Hold::Memory:
    return Cause::Memory;
  case Hold::Limit:
    return Cause::Limit;
  }
  llvm_unreachable("unknown hold");
}

LogicalResult Extraction::addStart(StartOp op) {
  SmallVector<TransferOpInterface> parts;
  for (Operation &part : op.getTransfers())
    parts.push_back(cast<TransferOpInterface>(part));
  if (failed(addTransfer(*op, parts)))
    return failure();
  StepOp &start = program.ops.back();
  // start_c8: one of its words.
  if (auto hold = op->getAttrOfType<StringAttr>(names::kHeldBy))
    start.heldBy = getCause(*symbolizeHold(hold));
  start.queue = Queue(op.getQueue());
  start.event = eventOf[op] = isPlaced ? Id(op.getEvent()) : events++;
  for (Value token : op.getAfter())
    start.after.push_back(eventOf.lookup(token.getDefiningOp()));
  for (TransferOpInterface part : parts) {
    start.reads.push_back(values.getRange(part.getSource()));
    start.writes.push_back(values.getRange(part.getBrought()));
  }
  return success();
}

/// What the next step finds in an argument's place must have been put there.
void Extraction::addReturn(Operation &op) {
  llvm::DenseMap<unsigned, ByteRange> kept;
  llvm::SmallDenseSet<Value> replaced;
  for (auto [result, arg] : getReplacedArguments(step)) {
    replaced.insert(arg);
    Value value = op.getOperand(result);
    program.replaced.push_back(
        {Id(result), values.lookup(arg), values.getRange(value)});
    if (values.getOffset(value) == values.getOffset(arg))
      continue;
    StepOp &keep = addOp(StepOpKind::Copy, op, "keep");
    kept[result] = makeKeep(program, program.replaced.size() - 1, keep);
  }
  for (OpOperand &operand : op.getOpOperands()) {
    auto it = kept.find(operand.getOperandNumber());
    program.results.push_back(it == kept.end() ? values.getRange(operand.get())
                                               : it->second);
  }
  // What nothing replaces is there for the next step, too.
  for (BlockArgument arg : step.getArguments()) {
    if (states.getRead(arg.getArgNumber()) && !replaced.contains(arg))
      program.results.push_back(values.getRange(arg));
  }
}

LogicalResult Extraction::addOps() {
  Operation *loss = getForwardEnd(step);
  bool backward = false;
  // Collectives of a group that has been added.
  llvm::SmallPtrSet<Operation *, 4> added;
  for (Operation &op : block) {
    if (added.contains(&op))
      continue;
    size_t first = program.ops.size();
    if (auto launch = dyn_cast<LaunchOp>(op))
      addLaunch(launch);
    else if (auto pack = dyn_cast<PackOp>(op))
      addPack(pack);
    else if (isa<CheckOp>(op))
      addOp(StepOpKind::Check, op, "check");
    else if (isa<fsdp::ReturnOp>(op))
      addReturn(op);
    else if (auto transfer = dyn_cast<TransferOpInterface>(op)) {
      if (failed(addAlone(transfer)))
        return failure();
      added.insert_range(getGroupFrom(transfer));
    } else if (auto start = dyn_cast<StartOp>(op)) {
      if (failed(addStart(start)))
        return failure();
    } else if (auto wait = dyn_cast<WaitOp>(op)) {
      auto start = wait.getToken().getDefiningOp<StartOp>();
      addWait(eventOf.lookup(start), units.lookup(start));
    }
    for (StepOp &made : llvm::drop_begin(program.ops, first))
      made.backward = backward;
    origins.resize(program.ops.size(), &op);
    backward |= &op == loss;
  }
  return success();
}

FailureOr<StepProgram> Extraction::extract() {
  // What has no event yet gets one behind those that there are.
  for (auto start : block.getOps<StartOp>())
    events = std::max(events, Id(start.getEvent()) + 1);
  values.addTo(program);
  units = findUnits(step, states);
  program.unitMembers = getUnitMembers(step, units);
  nameModules();
  if (failed(addOps()))
    return failure();
  program.units = std::move(units.names);
  return std::move(program);
}

FailureOr<StepMemory> Extraction::extractMemory() {
  values.addTo(program);
  if (failed(addOps()))
    return failure();
  StepMemory memory;
  for (auto [value, offset] : values.getOffsets()) {
    Id whole = values.lookup(getWholeValue(value));
    memory.places[value] = {whole, offset - program.values[whole].offset};
  }
  memory.program = std::move(program);
  return std::move(memory);
}

FailureOr<StepMemory> fsdp::extractStepMemory(ProgramOp step) {
  SmallVector<Operation *> origins;
  return Extraction(step, /*isPlaced=*/false, origins).extractMemory();
}

/// What kernels cost, and what they do, is in their bodies.
static LogicalResult checkKernels(ProgramOp step) {
  auto module = step->getParentOfType<ModuleOp>();
  llvm::StringMap<func::FuncOp> declared;
  for (auto kernel : module.getOps<func::FuncOp>())
    if (kernel.isDeclaration())
      declared[kernel.getSymName()] = kernel;
  for (auto launch : step.getOps<LaunchOp>())
    if (auto kernel = declared.find(launch.getKernel());
        kernel != declared.end()) {
      InFlightDiagnostic diag =
          launch.emitOpError("expected a kernel with a body, got a "
                             "declaration");
      diag.attachNote(kernel->second.getLoc()) << "that is here";
      return diag;
    }
  return success();
}

FailureOr<StepProgram>
fsdp::extractStepProgram(ProgramOp step,
                         SmallVectorImpl<Operation *> *origins) {
  if (failed(checkPlacedStep(step)) || failed(checkKernels(step)))
    return failure();
  auto meshes = step->getParentOfType<ModuleOp>().getOps<MeshOp>();
  SmallVector<Operation *> ignored;
  if (origins)
    origins->clear();
  FailureOr<StepProgram> program =
      Extraction(step, /*isPlaced=*/true, origins ? *origins : ignored)
          .extract();
  if (failed(program))
    return failure();
  if (!meshes.empty())
    program->worldSize = (*meshes.begin()).getWorldSize();
  program->isStep = getTraits(step.getKind()).isStep;
  return program;
}
