//===- PlacedStep.cpp - Are a step's places well formed? ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/PlacedStep.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Arena/ArenaPacking.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Schedule/ArenaPurpose.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

namespace {
class PlaceChecker {
public:
  explicit PlaceChecker(ProgramOp step) : step(step), states(step) {}

  /// A state that only other programs use.
  struct Idle {
    int64_t begin, end;
    StateOp state;
  };
  LogicalResult run();

private:
  LogicalResult checkMesh();
  LogicalResult checkArena();
  LogicalResult checkStates();
  LogicalResult checkType(Location loc, Type type);
  LogicalResult checkPlace(Location loc, Type type, int64_t offset);
  LogicalResult checkArguments();
  LogicalResult checkResults(Operation &op);
  LogicalResult checkSame(Operation &op, Value value, Value source,
                          int64_t distance);
  LogicalResult checkViews(Operation &op);

  ProgramOp step;
  ProgramStates states;
  /// By place, on the device and on the host.
  SmallVector<Idle> idleIn[2];
  int64_t arenaBytes = 0, hostBytes = 0;
};
} // namespace

/// Groups and divisors are those of one mesh, whose ranks run the step.
LogicalResult PlaceChecker::checkMesh() {
  MeshOp first;
  for (auto mesh : step->getParentOfType<ModuleOp>().getOps<MeshOp>()) {
    if (!first) {
      first = mesh;
      continue;
    }
    InFlightDiagnostic diag =
        mesh.emitOpError("expected one mesh, got a second: @")
        << mesh.getSymName();
    diag.attachNote(first.getLoc()) << "the first one is here";
    return diag;
  }
  return success();
}

LogicalResult PlaceChecker::checkArena() {
  ArenaAttr arena = step.getArenaAttr();
  if (!arena)
    return step.emitOpError("expected a planned arena (run fsdp-plan-arena "
                            "first)");
  arenaBytes = arena.getBytes();
  hostBytes = arena.getHost();
  return success();
}

/// States have places of their own, also those that the program does not use.
LogicalResult PlaceChecker::checkStates() {
  auto module = step->getParentOfType<ModuleOp>();
  if (failed(checkStateLayout(module)))
    return failure();
  llvm::SmallDenseSet<Operation *> used;
  for (unsigned i = 0, e = step.getNumArguments(); i != e; ++i)
    used.insert(states.getRead(i));
  for (auto state : module.getOps<StateOp>()) {
    int64_t offset = *state.getOffset();
    if (!used.contains(state))
      idleIn[isa<HostType>(state.getType())].push_back(
          {offset, offset + getTensorBytes(state.getType()), state});
  }
  for (SmallVector<Idle> &idle : idleIn)
    llvm::sort(idle,
               [](const Idle &a, const Idle &b) { return a.end < b.end; });
  return success();
}

LogicalResult PlaceChecker::checkType(Location loc, Type type) {
  RankedTensorType tensor = getTensor(type);
  if (!tensor || !tensor.hasStaticShape() ||
      !tensor.getElementType().isIntOrFloat())
    return emitError(loc) << "expected tensors of numbers and static shape in "
                             "a planned step, got "
                          << type;
  if (!isOfCountableBytes(type))
    return emitError(loc) << "expected tensors of at most " << kMostTensorBytes
                          << " bytes in a planned step, got " << type;
  return success();
}

LogicalResult PlaceChecker::checkPlace(Location loc, Type type,
                                       int64_t offset) {
  bool isHost = isa<HostType>(type);
  int64_t room = isHost ? hostBytes : arenaBytes, bytes = getTensorBytes(type);
  if (offset < 0 || bytes > room || offset > room - bytes)
    return emitError(loc) << "expected " << bytes << " bytes inside the arena"
                          << (isHost ? " of the host" : "") << " of " << room
                          << ", got a place at " << offset;
  RankedTensorType tensor = getTensor(type);
  int64_t element = llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
  if (offset % element)
    return emitError(loc) << "expected a place at a multiple of " << element
                          << " bytes for " << tensor << ", got " << offset;
  ArrayRef<Idle> idle = idleIn[isHost];
  auto *after = llvm::upper_bound(
      idle, offset, [](int64_t at, const Idle &it) { return at < it.end; });
  if (after == idle.end() || after->begin >= offset + bytes)
    return success();
  StateOp state = after->state;
  InFlightDiagnostic diag = emitError(loc)
                            << "expected a place apart from state @"
                            << state.getSymName()
                            << ", which the program does not use, got " << bytes
                            << " bytes at " << offset;
  diag.attachNote(state.getLoc()) << "the state is here";
  return diag;
}

LogicalResult PlaceChecker::checkArguments() {
  for (BlockArgument arg : step.getArguments()) {
    if (failed(checkType(arg.getLoc(), arg.getType())))
      return failure();
    Attribute attr = step.getArgAttr(arg.getArgNumber(), names::kOffset);
    auto offset = dyn_cast_if_present<IntegerAttr>(attr);
    if (!offset || !offset.getType().isSignlessInteger(64)) {
      InFlightDiagnostic diag = emitError(arg.getLoc())
                                << "expected fsdp.offset of i64 on argument "
                                << arg.getArgNumber() << ", got ";
      return attr ? diag << attr : diag << "none";
    }
    if (failed(checkPlace(arg.getLoc(), arg.getType(), offset.getInt())))
      return failure();
    // Every program finds a state where its symbol says that it is.
    StateOp state = states.getRead(arg.getArgNumber());
    if (!state || int64_t(*state.getOffset()) == offset.getInt())
      continue;
    InFlightDiagnostic diag = emitError(arg.getLoc())
                              << "expected argument " << arg.getArgNumber()
                              << " at " << *state.getOffset()
                              << ", the place of its state, got "
                              << offset.getInt();
    diag.attachNote(state.getLoc()) << "the state is here";
    return diag;
  }
  return success();
}

LogicalResult PlaceChecker::checkResults(Operation &op) {
  SmallVector<OpResult> placed;
  for (OpResult result : op.getResults())
    if (!isa<TokenType>(result.getType())) {
      if (failed(checkType(op.getLoc(), result.getType())))
        return failure();
      placed.push_back(result);
    }
  if (placed.empty())
    return success();
  Attribute attr = op.getAttr(names::kOffsets);
  auto offsets = dyn_cast_if_present<DenseI64ArrayAttr>(attr);
  if (!offsets || offsets.size() != int64_t(placed.size())) {
    InFlightDiagnostic diag = op.emitOpError("expected fsdp.offsets = array<"
                                             "i64> of ")
                              << placed.size() << " places, got ";
    return attr ? diag << attr : diag << "none";
  }
  for (OpResult result : placed)
    if (failed(checkPlace(op.getLoc(), result.getType(),
                          offsets[result.getResultNumber()])))
      return failure();
  return success();
}

LogicalResult PlaceChecker::checkSame(Operation &op, Value value, Value source,
                                      int64_t distance) {
  int64_t expected = getArenaOffset(source) + distance;
  if (getArenaOffset(value) == expected)
    return success();
  InFlightDiagnostic diag = op.emitOpError("expected its place at ")
                            << expected << ", where what it names lies, got "
                            << getArenaOffset(value);
  diag.attachNote(source.getLoc()) << "that is here";
  return diag;
}

/// What gives bytes another name gives them no other place.
LogicalResult PlaceChecker::checkViews(Operation &op) {
  if (auto wait = dyn_cast<WaitOp>(op)) {
    auto start = wait.getToken().getDefiningOp<StartOp>();
    for (auto [result, value] :
         llvm::zip_equal(wait.getResults(), start.getYielded()))
      if (failed(checkSame(op, result, value, 0)))
        return failure();
    return success();
  }
  if (!isView(&op))
    return success();
  int64_t distance = 0;
  if (auto view = dyn_cast<ViewOp>(op))
    distance = view.getOffset() *
               llvm::divideCeil(view.getType().getElementTypeBitWidth(), 8);
  return checkSame(op, op.getResult(0), op.getOperand(0), distance);
}

LogicalResult PlaceChecker::run() {
  if (failed(checkMesh()) || failed(checkArena()) || failed(checkStates()) ||
      failed(checkArguments()))
    return failure();
  for (Operation &op : step.getBody().front()) {
    if (!isa<LaunchOp, PackOp, CheckOp, StartOp, WaitOp, fsdp::ReturnOp>(op) &&
        !isa<TransferOpInterface>(op) && !isView(&op))
      return op.emitOpError("expected a launch, a transfer, a pack, a check or "
                            "a view in a planned step");
    if (failed(checkResults(op)))
      return failure();
    if (auto start = dyn_cast<StartOp>(op))
      for (Operation &transfer : start.getTransfers())
        if (failed(checkResults(transfer)))
          return failure();
    if (failed(checkViews(op)))
      return failure();
  }
  return success();
}

LogicalResult fsdp::checkPlacedStep(ProgramOp step) {
  return PlaceChecker(step).run();
}

//===----------------------------------------------------------------------===//
// Summary
//===----------------------------------------------------------------------===//

namespace {
/// From the lowest byte to behind the highest one, as whole buffers.
struct Extent {
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
  void add(Value value, int64_t border) {
    int64_t offset = getArenaOffset(value);
    int64_t bytes = std::max<int64_t>(getTensorBytes(value.getType()), 1);
    begin = std::min(begin, offset);
    end = std::max<int64_t>(
        end, llvm::alignTo(offset + bytes, kArenaAlignment) + border);
  }
};
} // namespace

/// What a step uses at its fullest when its ops run one after the other, in
/// bytes: the device's buffers from the first op that touches them to the last
/// one; arguments and results throughout.
static int64_t getPeakInOrder(const StepProgram &program) {
  size_t size = program.ops.size();
  SmallVector<size_t> first(program.buffers.size(), size),
      last(program.buffers.size());
  for (auto [i, op] : llvm::enumerate(program.ops))
    for (const ByteRange &range :
         llvm::concat<const ByteRange>(op.reads, op.writes)) {
      Id buffer = program.values[range.value].buffer;
      first[buffer] = std::min(first[buffer], i);
      last[buffer] = i;
    }
  SmallVector<int64_t> change(size + 1);
  int64_t used = program.workspace.bytes;
  for (const StepBuffer &state : program.idleStates)
    if (!state.isHost)
      used += llvm::alignTo(state.bytes, kArenaAlignment);
  for (auto [i, buffer] : llvm::enumerate(program.buffers)) {
    int64_t bytes = llvm::alignTo(buffer.bytes, kArenaAlignment);
    if (buffer.isHost)
      continue;
    if (buffer.isArgument) {
      used += bytes;
    } else if (first[i] != size) {
      change[first[i]] += bytes;
      if (!buffer.isResult)
        change[last[i] + 1] -= bytes;
    }
  }
  int64_t peak = used;
  for (int64_t more : change)
    peak = std::max(peak, used += more);
  return peak;
}

/// How what the step uses at its fullest is split by purpose, if it is said:
/// the parts of states and inputs are known, the others can only be too large
/// or too small together.
static LogicalResult checkPeak(ProgramOp step, const StepProgram &program) {
  ArenaAttr arena = step.getArenaAttr();
  if (!arena.getPeak())
    return success();
  ArrayRef<int64_t> peak = arena.getPeak().asArrayRef();
  std::array<int64_t, kPurposeNames.size()> fixed = {};
  auto add = [&](const StepBuffer &buffer) {
    if (!buffer.isHost)
      fixed[unsigned(buffer.purpose)] +=
          getPlaceBytes(buffer.bytes) + arena.getBorder();
  };
  for (const StepBuffer &buffer : program.buffers)
    if (buffer.isArgument)
      add(buffer);
  llvm::for_each(program.idleStates, add);
  fixed[unsigned(Purpose::Workspace)] = program.workspace.bytes;
  int64_t total = 0;
  for (auto [i, purpose] : llvm::enumerate(kPurposeNames)) {
    bool isFixed = llvm::is_contained(
        {Purpose::Parameters, Purpose::Optimizer, Purpose::Workspace},
        Purpose(i));
    if (peak[i] < fixed[i] || (isFixed && peak[i] > fixed[i]))
      return step.emitOpError("expected ")
             << (isFixed ? "" : "at least ") << fixed[i] << " bytes of "
             << purpose << " in the arena's peak, what states, inputs and the "
             << "workspace take, got " << peak[i];
    total += peak[i];
  }
  // More may be in use where queues run ahead, less cannot.
  if (int64_t least = getPeakInOrder(program); total < least)
    return step.emitOpError("expected the parts of the arena's peak to be at "
                            "least ")
           << least << " bytes together, got " << total;
  return success();
}

LogicalResult fsdp::checkArenaSummary(ProgramOp step,
                                      const StepProgram &program,
                                      int64_t budget) {
  ArenaAttr arena = step.getArenaAttr();
  int64_t border = arena.getBorder();
  ProgramStates states(step);
  Extent state, inputs, sent, all, host;
  for (const StepBuffer &idle : program.idleStates) {
    int64_t &end = (idle.isHost ? host : state).end;
    end = std::max(end, idle.stateOffset + getPlaceBytes(idle.bytes) + border);
  }
  for (BlockArgument arg : step.getArguments()) {
    if (isa<HostType>(arg.getType()))
      host.add(arg, border);
    else
      (states.getRead(arg.getArgNumber()) ? state : inputs).add(arg, border);
  }
  inputs.end = std::max(inputs.end, state.end);
  all.end = inputs.end;
  step.walk([&](Operation *op) {
    bool isSent = isa<CollectiveOpInterface>(op);
    for (Value result : op->getResults())
      if (!isa<TokenType>(result.getType())) {
        (isa<HostType>(result.getType()) ? host : all).add(result, border);
        if (isSent)
          sent.add(result, border);
      }
    // States and inputs are sent from where they are.
    if (isSent)
      for (Value operand : op->getOperands())
        if (!isa<BlockArgument>(getWholeValue(operand)))
          sent.add(operand, border);
  });
  auto expect = [&](StringRef name, int64_t got,
                    int64_t expected) -> LogicalResult {
    if (got == expected)
      return success();
    return step.emitOpError("expected ")
           << name << " = " << expected
           << " in its arena, as the places are, got " << got;
  };
  int64_t workspace =
      llvm::alignTo(getWorkspaceBytes(program), kArenaAlignment);
  if (failed(expect("bytes", arena.getBytes(), all.end + workspace)) ||
      failed(expect("workspace", arena.getWorkspace(), workspace)) ||
      failed(expect("host", arena.getHost(), host.end)) ||
      failed(expect("state", arena.getState(), state.end)) ||
      failed(expect("inputs", arena.getInputs(), inputs.end - state.end)))
    return failure();
  // What is sent ends in the third segment. The rest is the fourth (arena_c2).
  if (int64_t least = std::max<int64_t>(0, sent.end - inputs.end);
      arena.getCommunicated() < least)
    return step.emitOpError("expected at least ")
           << least << " bytes as communicated in its arena, got "
           << arena.getCommunicated();
  if (failed(checkPeak(step, program)))
    return failure();
  if (budget && arena.getBytes() > budget)
    return step.emitOpError("expected an arena of at most ")
           << budget << " bytes, the budget, got " << arena.getBytes();
  return success();
}
