//===- PlacedStep.cpp - Are a step's places well formed? ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/PlacedStep.h"
#include "fsdp/Analysis/ArenaPacking.h"
#include "fsdp/Analysis/ArenaPurpose.h"
#include "fsdp/Analysis/ComputeOps.h"
#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/StepArguments.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

/// An entry of fsdp.arena, in bytes, or of fsdp.schedule, in picoseconds; none
/// if it is not a number from 0 on.
static std::optional<int64_t> getCount(DictionaryAttr attrs, const Twine &key) {
  auto count = attrs.getAs<IntegerAttr>(key.str());
  if (!count || !count.getType().isSignlessInteger(64) || count.getInt() < 0)
    return std::nullopt;
  return count.getInt();
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

namespace {
class PlaceChecker {
public:
  explicit PlaceChecker(func::FuncOp step) : step(step) {}
  LogicalResult run();

private:
  LogicalResult checkMesh();
  LogicalResult checkArena();
  LogicalResult checkSchedule();
  LogicalResult checkType(Location loc, Type type);
  LogicalResult checkPlace(Location loc, Type type, int64_t offset);
  LogicalResult checkArguments();
  LogicalResult checkResults(Operation &op);
  LogicalResult checkSame(Operation &op, Value value, Value source,
                          int64_t distance);
  LogicalResult checkViews(Operation &op);

  func::FuncOp step;
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
  auto arena = step->getAttrOfType<DictionaryAttr>(names::kArena);
  if (!step->hasAttr(names::kArena))
    return step.emitError("expected a planned arena (run fsdp-plan-arena "
                          "first)");
  auto bytes = arena ? getCount(arena, "bytes") : std::nullopt;
  if (!bytes)
    return step.emitError("expected fsdp.arena = {bytes = N : i64, ..} of at "
                          "least 0 bytes, got ")
           << step->getAttr(names::kArena);
  arenaBytes = *bytes;
  if (arena.contains("host_bytes")) {
    auto host = getCount(arena, "host_bytes");
    if (!host)
      return step.emitError("expected host_bytes in fsdp.arena of at least 0, "
                            "got ")
             << arena.get("host_bytes");
    hostBytes = *host;
  }
  return success();
}

/// What fsdp-schedule-step has written for readers and for the manifest.
LogicalResult PlaceChecker::checkSchedule() {
  Attribute attr = step->getAttr(names::kSchedule);
  if (!attr)
    return success();
  auto schedule = dyn_cast<DictionaryAttr>(attr);
  auto order = schedule ? schedule.getAs<StringAttr>("order") : StringAttr();
  auto bound = schedule ? getCount(schedule, "bound") : std::nullopt;
  auto time = schedule ? getCount(schedule, "step") : std::nullopt;
  if (!order || schedule.size() != 3 || !bound || !time ||
      !llvm::is_contained({"scheduled", "fsdp", "in_order"}, order.getValue()))
    return step.emitError("expected fsdp.schedule = {bound = N : i64, order = "
                          "\"..\", step = N : i64} of at least 0 picoseconds "
                          "and order scheduled, fsdp or in_order, got ")
           << attr;
  if (*bound > *time)
    return step.emitError("expected a bound of at most the step's ")
           << *time << " picoseconds in fsdp.schedule, got " << *bound;
  return success();
}

LogicalResult PlaceChecker::checkType(Location loc, Type type) {
  auto host = dyn_cast<HostType>(type);
  auto tensor = dyn_cast<RankedTensorType>(host ? host.getTensor() : type);
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
  auto host = dyn_cast<HostType>(type);
  auto tensor = cast<RankedTensorType>(host ? host.getTensor() : type);
  int64_t room = host ? hostBytes : arenaBytes, bytes = getTensorBytes(type);
  if (offset < 0 || bytes > room || offset > room - bytes)
    return emitError(loc) << "expected " << bytes << " bytes inside the arena"
                          << (host ? " of the host" : "") << " of " << room
                          << ", got a place at " << offset;
  int64_t element = llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
  if (offset % element)
    return emitError(loc) << "expected a place at a multiple of " << element
                          << " bytes for " << tensor << ", got " << offset;
  return success();
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
  if (step.isDeclaration() || !step.getBody().hasOneBlock())
    return step.emitError("expected a step with one block");
  if (failed(checkMesh()) || failed(checkArena()) || failed(checkSchedule()) ||
      failed(checkArguments()))
    return failure();
  for (Operation &op : step.getBody().front()) {
    if (!isa<LaunchOp, PackOp, CheckOp, StartOp, WaitOp, func::ReturnOp>(op) &&
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

LogicalResult fsdp::checkPlacedStep(func::FuncOp step) {
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
  int64_t used = 0;
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
/// the state's parts are known, the others can only be too large or too small
/// together.
static LogicalResult checkPeak(func::FuncOp step, const StepProgram &program,
                               int64_t arenaBytes, int64_t border) {
  auto arena = step->getAttrOfType<DictionaryAttr>(names::kArena);
  auto getPart = [&](StringRef purpose) {
    return arena.get(("peak_" + purpose).str());
  };
  if (llvm::none_of(kPurposeNames, getPart))
    return success();
  std::array<int64_t, kPurposeNames.size()> state = {};
  for (const StepBuffer &buffer : program.buffers)
    if (buffer.isArgument)
      state[unsigned(buffer.purpose)] += getPlaceBytes(buffer.bytes) + border;
  int64_t peak = 0;
  for (auto [i, purpose] : llvm::enumerate(kPurposeNames)) {
    Attribute attr = getPart(purpose);
    auto bytes = getCount(arena, "peak_" + purpose);
    if (!attr)
      return step.emitError("expected peak_")
             << purpose
             << " beside the other parts of the peak in fsdp.arena, got "
                "none";
    if (!bytes || *bytes > arenaBytes - peak)
      return step.emitError("expected the peak's parts from 0 to ")
             << arenaBytes << " bytes together in fsdp.arena, got peak_"
             << purpose << " = " << attr;
    bool isStateAlone =
        Purpose(i) == Purpose::Parameters || Purpose(i) == Purpose::Optimizer;
    if (*bytes < state[i] || (isStateAlone && *bytes > state[i]))
      return step.emitError("expected peak_")
             << purpose << (isStateAlone ? " = " : " of at least ") << state[i]
             << " in fsdp.arena, what the state takes, got " << *bytes;
    peak += *bytes;
  }
  // More may be in use where queues run ahead, less cannot.
  if (int64_t least = getPeakInOrder(program); peak < least)
    return step.emitError("expected the peak's parts of at least ")
           << least << " bytes together in fsdp.arena, got " << peak;
  return success();
}

LogicalResult fsdp::checkArenaSummary(func::FuncOp step,
                                      const StepProgram &program,
                                      int64_t budget) {
  auto arena = step->getAttrOfType<DictionaryAttr>(names::kArena);
  int64_t border = getCount(arena, "border").value_or(0);
  Extent state, sent, all, host;
  for (BlockArgument arg : step.getArguments()) {
    state.add(arg, border);
    all.add(arg, border);
  }
  step.walk([&](Operation *op) {
    bool isSent = isa<CollectiveOpInterface>(op);
    for (Value result : op->getResults())
      if (!isa<TokenType>(result.getType())) {
        (isa<HostType>(result.getType()) ? host : all).add(result, border);
        if (isSent)
          sent.add(result, border);
      }
    // State is sent from where it is.
    if (isSent)
      for (Value operand : op->getOperands())
        if (!isa<BlockArgument>(getWholeValue(operand)))
          sent.add(operand, border);
  });
  auto expect = [&](const Twine &key, int64_t expected) -> LogicalResult {
    auto bytes = getCount(arena, key);
    if (bytes && *bytes == expected)
      return success();
    InFlightDiagnostic diag = step.emitError("expected ")
                              << key << " = " << expected
                              << " in fsdp.arena, as the places are, got ";
    if (Attribute attr = arena.get(key.str()))
      return diag << attr;
    return diag << "none";
  };
  if (failed(expect("bytes", all.end)))
    return failure();
  if ((host.end || arena.contains("host_bytes")) &&
      failed(expect("host_bytes", host.end)))
    return failure();
  // One behind the other; what is sent ends in the second one.
  if (failed(expect("state_offset", 0)) ||
      failed(expect("state_bytes", state.end)) ||
      failed(expect("communicated_offset", state.end)))
    return failure();
  int64_t room = all.end - state.end;
  auto communicated = getCount(arena, "communicated_bytes");
  if (!communicated || *communicated > room ||
      (sent.end > state.end && state.end + *communicated < sent.end))
    return step.emitError("expected communicated_bytes from ")
           << std::max<int64_t>(0, sent.end - state.end) << " to " << room
           << " in fsdp.arena, got " << arena.get("communicated_bytes");
  if (failed(expect("transient_offset", state.end + *communicated)) ||
      failed(expect("transient_bytes", room - *communicated)))
    return failure();
  if (failed(checkPeak(step, program, all.end, border)))
    return failure();
  if (budget && all.end > budget)
    return step.emitError("expected an arena of at most ")
           << budget << " bytes, the budget, got " << all.end;
  return success();
}
