//===- StepChanger.cpp - Changes of a placed step -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepChanger.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Arena/ArenaPacking.h"
#include "fsdp/Schedule/ArenaPurpose.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::fsdp;
using namespace mlir::fsdp::test;

bool StepChanger::isInFocus(StartOp start) {
  if (focus == Focus::All)
    return true;
  SmallVector<TransferOpInterface> transfers = getTransfers(start);
  return focus == Focus::Buckets ? transfers.size() > 1
                                 : isa<OffloadOp, ReloadOp>(*transfers.front());
}

StepChanger::StepChanger(ModuleOp module, Focus focus, unsigned seed)
    : step(getTrainProgram(module)), focus(focus), builder(module.getContext()),
      random(seed) {
  auto addReader = [&](Operation *op, Value value) {
    readers.push_back({op, value, getWholeValue(value)});
  };
  for (Operation &op : step.getBody().front()) {
    places[&op] = places.size();
    if (auto wait = dyn_cast<WaitOp>(op)) {
      if (isInFocus(getStart(wait)))
        waits.push_back(wait);
    } else if (auto start = dyn_cast<StartOp>(op)) {
      eventCount = std::max<int64_t>(eventCount, start.getEvent() + 1);
      if (isInFocus(start))
        starts.push_back(start);
      for (TransferOpInterface transfer : getTransfers(start)) {
        addReader(&op, transfer.getSource());
        if (isInFocus(start))
          values.push_back(transfer.getBrought());
      }
    } else if (!isView(&op)) {
      for (Value operand : op.getOperands())
        addReader(&op, operand);
      if (focus == Focus::All)
        llvm::append_range(values, op.getResults());
    }
  }
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

void StepChanger::setPlace(Value value, int64_t offset) {
  Operation *op = value.getDefiningOp();
  auto offsets = op->getAttrOfType<DenseI64ArrayAttr>(names::kOffsets);
  SmallVector<int64_t> changed(offsets.asArrayRef());
  changed[cast<OpResult>(value).getResultNumber()] = offset;
  op->setAttr(names::kOffsets, builder.getDenseI64ArrayAttr(changed));
}

/// @whole, and all names of its bytes, lie from @offset on.
void StepChanger::move(Value whole, int64_t offset) {
  int64_t by = offset - getArenaOffset(whole);
  SmallVector<Value> names;
  step.walk([&](Operation *op) {
    for (Value result : op->getResults())
      if (!isa<TokenType>(result.getType()) && getWholeValue(result) == whole)
        names.push_back(result);
  });
  for (Value name : names)
    setPlace(name, getArenaOffset(name) + by);
}

bool StepChanger::isSent(Value whole) {
  if (isa<CollectiveOpInterface>(whole.getDefiningOp()))
    return true;
  return llvm::any_of(readers, [&](const Reader &reader) {
    return reader.whole == whole && isa<StartOp>(reader.op);
  });
}

/// Bytes for @value at the end of its arena, which nobody else has; where
/// collectives send them, the segment that is communicated holds everything.
int64_t StepChanger::addRoom(Value value) {
  int64_t bytes = getTensorBytes(value.getType());
  bool isHost = isa<HostType>(value.getType());
  ArenaAttr arena = step.getArenaAttr();
  int64_t offset = isHost ? arena.getHost() : arena.getWorkspaceOffset();
  int64_t end = llvm::alignTo(offset + bytes, kArenaAlignment);
  auto set = [&](int64_t size, int64_t host, int64_t communicated,
                 int64_t transient, DenseI64ArrayAttr peak) {
    step.setArenaAttr(ArenaAttr::get(step.getContext(), size, arena.getState(),
                                     arena.getInputs(), communicated, transient,
                                     arena.getWorkspace(), host,
                                     arena.getBorder(), peak));
  };
  if (isHost) {
    set(arena.getBytes(), end, arena.getCommunicated(), arena.getTransient(),
        arena.getPeak());
    return offset;
  }
  // As much more may be in use at once.
  SmallVector<int64_t> peak(arena.getPeak().asArrayRef());
  peak[unsigned(Purpose::Other)] += end - offset;
  int64_t base = arena.getState() + arena.getInputs();
  int64_t communicated = isSent(value) ? end - base : arena.getCommunicated();
  set(end + arena.getWorkspace(), arena.getHost(), communicated,
      end - base - communicated, builder.getDenseI64ArrayAttr(peak));
  return offset;
}

//===----------------------------------------------------------------------===//
// Buckets
//===----------------------------------------------------------------------===//

/// Behind @start, one that issues @parts of it, in their order.
StartOp StepChanger::copyPart(StartOp start, ArrayRef<unsigned> parts,
                              int64_t event) {
  StartOp copy = cloneBehind(start);
  copy.setEvent(event);
  SmallVector<TransferOpInterface> transfers = getTransfers(copy);
  Operation *yield = copy.getBody().front().getTerminator();
  SmallVector<Value> brought;
  SmallVector<Type> types;
  for (unsigned part : parts) {
    transfers[part]->moveBefore(yield);
    brought.push_back(transfers[part].getBrought());
    types.push_back(brought.back().getType());
  }
  yield->setOperands(brought);
  for (auto [i, transfer] : llvm::enumerate(transfers))
    if (!llvm::is_contained(parts, i))
      transfer->erase();
  copy.getToken().setType(TokenType::get(builder.getContext(), types));
  return copy;
}

/// For all of @start, where @wait stands.
WaitOp StepChanger::copyWait(StartOp start, WaitOp wait) {
  builder.setInsertionPoint(wait);
  auto copy =
      WaitOp::create(builder, wait.getLoc(),
                     start.getToken().getType().getTypes(), start.getToken());
  SmallVector<int64_t> offsets;
  for (Value brought : start.getYielded())
    offsets.push_back(getArenaOffset(brought));
  copy->setAttr(names::kOffsets, builder.getDenseI64ArrayAttr(offsets));
  return copy;
}

/// What transfer @part of @wait's start reads, as compute sees it at @wait.
/// Null where it does not.
Value StepChanger::getOuterSource(WaitOp wait, unsigned part) {
  StartOp start = getStart(wait);
  Value source = getTransfers(start)[part].getSource();
  unsigned number = cast<BlockArgument>(source).getArgNumber();
  if (number < start.getInputs().size())
    return start.getInputs()[number];
  // Behind another transfer: compute waits for that one instead.
  number -= start.getInputs().size();
  for (Value token : start.getAfter()) {
    auto before = token.getDefiningOp<StartOp>();
    unsigned count = before.getYielded().size();
    if (number < count) {
      if (wait->isBeforeInBlock(before.getWait()))
        before.getWait()->moveBefore(wait);
      return before.getWait()->getResult(number);
    }
    number -= count;
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Harmful: waits
//===----------------------------------------------------------------------===//

/// The step ends while the transfer may run. (Where something reads what it
/// brings, no step can be written without the wait.)
bool StepChanger::dropWait() {
  WaitOp wait = pickFrom(waits);
  if (!wait->use_empty())
    return false;
  wait.erase();
  return true;
}

/// Nobody knows yet what is waited for.
bool StepChanger::waitBeforeStart() {
  WaitOp wait = pickFrom(waits);
  StartOp start = getStart(wait);
  Block::iterator at = start->getBlock()->begin();
  std::advance(at, pick(getPlace(start) + 1));
  wait->moveBefore(&*at);
  return true;
}

/// A reader does not wait for what it reads.
bool StepChanger::waitBehindUse() {
  WaitOp wait = pickFrom(waits);
  if (wait->use_empty())
    return false;
  Operation *first = nullptr;
  for (Operation *user : wait->getUsers()) {
    user = step.getBody().front().findAncestorOpInBlock(*user);
    if (!first || user->isBeforeInBlock(first))
      first = user;
  }
  if (first->hasTrait<OpTrait::IsTerminator>())
    return false;
  wait->moveAfter(first);
  return true;
}

/// An event has one wait.
bool StepChanger::waitTwice() {
  WaitOp wait = pickFrom(waits);
  cloneBehind(wait);
  return true;
}

/// What one transfer brings is looked for in the place of another, and that
/// one's is there.
bool StepChanger::waitForAnother() {
  WaitOp a = pickFrom(waits), b = pickFrom(waits);
  if (a == b || a->getResultTypes() != b->getResultTypes() ||
      getArenaOffset(a->getResult(0)) == getArenaOffset(b->getResult(0)))
    return false;
  Value token = a.getToken();
  a.getTokenMutable().assign(b.getToken());
  b.getTokenMutable().assign(token);
  return true;
}

//===----------------------------------------------------------------------===//
// Harmful: transfers
//===----------------------------------------------------------------------===//

/// One event would come twice.
bool StepChanger::startTwice() {
  StartOp start = pickFrom(starts);
  cloneBehind(start);
  return true;
}

/// As a dropped wait, of a transfer with an event of its own.
bool StepChanger::startUnwaited() {
  StartOp start = pickFrom(starts);
  StartOp again = cloneBehind(start);
  again.setEvent(eventCount + pick(8));
  return true;
}

/// It would begin behind an event that has not been given out.
bool StepChanger::startBehindWhatComesAfter() {
  StartOp start = pickFrom(starts);
  for (Operation *user : start.getToken().getUsers())
    if (isa<StartOp>(user)) {
      start->moveAfter(user);
      return true;
    }
  return false;
}

/// Replicas, or the losses and norms that they report, go their own ways: what
/// each rank computed for itself is taken for what they have in common.
bool StepChanger::dropReduction() {
  WaitOp wait = pickFrom(waits);
  StartOp start = getStart(wait);
  TransferOpInterface transfer = getTransfer(start);
  if (!isa<ReduceScatterOp, AllReduceOp>(*transfer) ||
      !start.getToken().hasOneUse() || wait->getNumResults() != 1)
    return false;
  replaceBySource(wait->getResult(0), getOuterSource(wait, 0));
  wait.erase();
  start.erase();
  return true;
}

/// Readers of @result read @source, from which a reduction would make it.
void StepChanger::replaceBySource(Value result, Value source) {
  if (source.getType() != result.getType()) {
    builder.setInsertionPoint(result.getDefiningOp());
    int64_t offset = getArenaOffset(source);
    auto view = ViewOp::create(builder, result.getLoc(), result.getType(),
                               source, /*offset=*/0);
    view->setAttr(names::kOffsets, builder.getDenseI64ArrayAttr({offset}));
    source = view;
  }
  result.replaceAllUsesWith(source);
}

/// The same for one transfer of several.
bool StepChanger::dropFromBucket() {
  WaitOp wait = pickFrom(waits);
  StartOp start = getStart(wait);
  unsigned count = wait->getNumResults(), dropped = pick(count);
  if (count == 1 || !isa<ReduceScatterOp, AllReduceOp>(*getTransfer(start)) ||
      !start.getToken().hasOneUse())
    return false;
  SmallVector<unsigned> rest;
  for (unsigned i = 0; i != count; ++i)
    if (i != dropped)
      rest.push_back(i);
  WaitOp left = copyWait(copyPart(start, rest, start.getEvent()), wait);
  for (auto [i, part] : llvm::enumerate(rest))
    wait->getResult(part).replaceAllUsesWith(left->getResult(i));
  replaceBySource(wait->getResult(dropped), getOuterSource(wait, dropped));
  wait.erase();
  start.erase();
  return true;
}

/// What one transfer brings is taken for what another one does, and lies where
/// that does not.
bool StepChanger::swapBrought() {
  StartOp start = pickFrom(starts);
  Operation *yield = start.getBody().front().getTerminator();
  unsigned a = pick(yield->getNumOperands()), b = pick(yield->getNumOperands());
  Value first = yield->getOperand(a), second = yield->getOperand(b);
  if (a == b || first.getType() != second.getType())
    return false;
  yield->setOperand(a, second);
  yield->setOperand(b, first);
  return true;
}

/// The gradient's norm lacks one summand and has another one twice.
bool StepChanger::countAnother() {
  Operation *ret = step.getBody().front().getTerminator();
  SmallVector<Value> sums;
  for (OpOperand &result : ret->getOpOperands())
    if (step.getResultAttr(result.getOperandNumber(), names::kGradNorm))
      sums.push_back(getWholeValue(result.get()));
  SmallVector<std::pair<OpOperand *, Value>> changes;
  for (size_t i = 0; i != sums.size(); ++i) {
    Operation *maker = sums[i].getDefiningOp();
    for (OpOperand &operand : maker->getOpOperands()) {
      if (cast<RankedTensorType>(operand.get().getType()).getRank() != 0)
        continue;
      sums.push_back(getWholeValue(operand.get()));
      for (Value other : maker->getOperands())
        if (other != operand.get() &&
            other.getType() == operand.get().getType())
          changes.push_back({&operand, other});
    }
  }
  if (changes.empty() || focus != Focus::All)
    return false;
  auto [operand, other] = pickFrom(changes);
  operand->set(other);
  return true;
}

/// A rank gives or takes another number of elements than the group needs.
bool StepChanger::resize() {
  TransferOpInterface transfer = getTransfer(pickFrom(starts));
  auto type = dyn_cast<RankedTensorType>(transfer.getBrought().getType());
  if (!type || type.getRank() != 1)
    return false;
  int64_t by = pick(2) ? 1 : -1;
  transfer.getBrought().setType(
      type.clone(ArrayRef<int64_t>{type.getDimSize(0) + by}));
  return true;
}

/// Bytes are taken for numbers that they are not.
bool StepChanger::retype() {
  Value brought = getTransfer(pickFrom(starts)).getBrought();
  auto host = dyn_cast<HostType>(brought.getType());
  auto type =
      cast<RankedTensorType>(host ? host.getTensor() : brought.getType());
  Type other = pick(2) ? Type(builder.getBF16Type()) : builder.getF64Type();
  if (type.getElementType() == other)
    return false;
  type = cast<RankedTensorType>(type.clone(other));
  brought.setType(host ? Type(HostType::get(builder.getContext(), type))
                       : type);
  return true;
}

/// Each collective joins exactly the ranks that hold what it joins.
bool StepChanger::changeGroup() {
  auto collective =
      dyn_cast<CollectiveOpInterface>(*getTransfer(pickFrom(starts)));
  if (!collective)
    return false;
  auto mesh = *step->getParentOfType<ModuleOp>().getOps<MeshOp>().begin();
  SmallVector<Attribute> axes;
  for (auto axis : mesh.getAxes().getAsRange<MeshAxisAttr>())
    if (pick(2))
      axes.push_back(axis.getName());
  ArrayAttr group = builder.getArrayAttr(axes);
  if (group == collective.getAxesAttr())
    return false;
  collective.setAxesAttr(group);
  return true;
}

/// What ranks agree on is a mean: it would be another number.
bool StepChanger::changeDivisor() {
  TransferOpInterface transfer = getTransfer(pickFrom(starts));
  auto change = [&](auto reduce) {
    reduce.setDivisor(reduce.getDivisor() + 1 + pick(8));
    return true;
  };
  if (auto reduce = dyn_cast<AllReduceOp>(*transfer))
    return change(reduce);
  auto scatter = dyn_cast<ReduceScatterOp>(*transfer);
  return scatter && change(scatter);
}

/// Queues have communicators, or links, of their own kind.
bool StepChanger::changeQueue() {
  StartOp start = pickFrom(starts);
  auto queue = *symbolizeTransferQueue(1 + pick(5));
  if (getTransfer(start).runsOn(queue))
    return false;
  start.setQueue(queue);
  return true;
}

//===----------------------------------------------------------------------===//
// Harmful: places
//===----------------------------------------------------------------------===//

/// A value goes over bytes that are there before it is made and are read behind
/// that: whoever reads them may find it.
bool StepChanger::placeOverLive() {
  const Reader &reader = pickFrom(readers);
  Value moved = pickFrom(values);
  if (reader.whole == moved ||
      isa<HostType>(reader.value.getType()) != isa<HostType>(moved.getType()))
    return false;
  auto getOp = [&](Value value) {
    Operation *op = value.getDefiningOp();
    return op ? step.getBody().front().findAncestorOpInBlock(*op) : nullptr;
  };
  Operation *maker = getOp(reader.whole), *other = getOp(moved);
  if ((maker && !maker->isBeforeInBlock(other)) ||
      !other->isBeforeInBlock(reader.op))
    return false;
  move(moved, getArenaOffset(reader.value));
  return true;
}

/// Transfers of one start run at once: what two bring, or one brings and
/// another one reads, lies in the same bytes.
bool StepChanger::placeTogether() {
  SmallVector<TransferOpInterface> transfers = getTransfers(pickFrom(starts));
  unsigned a = pick(transfers.size()), b = pick(transfers.size());
  if (a == b)
    return false;
  move(transfers[a].getBrought(),
       getArenaOffset(pick(2) ? transfers[b].getBrought()
                              : transfers[b].getSource()));
  return true;
}

/// A kernel writes what a transfer reads or brings before compute has waited
/// for anything that was started with it or behind it.
bool StepChanger::overwriteWhileRunning() {
  StartOp start = pickFrom(starts);
  SmallVector<Value> written;
  for (Operation *op = start->getNextNode(); !isa<WaitOp, fsdp::ReturnOp>(op);
       op = op->getNextNode())
    if (isa<LaunchOp>(op))
      llvm::append_range(written, op->getResults());
  TransferOpInterface transfer = getTransfer(start);
  SmallVector<Value> touched;
  for (Value value :
       {Value(transfer.getSource()), Value(transfer.getBrought())})
    if (!isa<HostType>(value.getType()))
      touched.push_back(value);
  if (written.empty())
    return false;
  move(pickFrom(written), getArenaOffset(pickFrom(touched)));
  return true;
}

/// Nothing is there.
bool StepChanger::placeOutside() {
  Value moved = pickFrom(values);
  bool isHost = isa<HostType>(moved.getType());
  move(moved, pick(2) ? (isHost ? step.getArenaAttr().getHost()
                                : step.getArenaAttr().getBytes())
                      : -kArenaAlignment);
  return true;
}

/// A view, or what a wait gives, is looked for where it is not.
bool StepChanger::placeWhatIsNamed() {
  SmallVector<Value> named;
  for (Operation &op : step.getBody().front())
    if (llvm::is_contained(waits, &op) || (isView(&op) && focus == Focus::All))
      llvm::append_range(named, op.getResults());
  Value value = pickFrom(named);
  setPlace(value, getArenaOffset(value) + (pick(2) ? 1 : -1) * kArenaAlignment);
  return true;
}

//===----------------------------------------------------------------------===//
// Harmful: ties
//===----------------------------------------------------------------------===//

LaunchOp StepChanger::pickLaunch() {
  auto launches = llvm::to_vector(step.getOps<LaunchOp>());
  return pickFrom(launches);
}

/// A kernel writes where it reads, and nothing says that it may.
bool StepChanger::dropTie() {
  LaunchOp launch = pickLaunch();
  unsigned result = pick(launch.getNumResults());
  int64_t tied = launch.getTiedInput(result);
  if (focus != Focus::All || tied < 0 ||
      getArenaOffset(launch.getResult(result)) !=
          getArenaOffset(launch.getInputs()[tied]))
    return false;
  launch.setTiedInput(result, -1);
  return true;
}

/// Elements of a product are written over factors of those behind them.
bool StepChanger::tieToFactor() {
  LaunchOp launch = pickLaunch();
  auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      launch, launch.getKernelAttr());
  unsigned result = pick(launch.getNumResults());
  unsigned input = pick(launch.getInputs().size());
  Value factor = launch.getInputs()[input];
  if (focus != Focus::All || launch.getTiedInput(result) >= 0 ||
      factor.getType() != launch.getResult(result).getType())
    return false;
  if (llvm::none_of(kernel.getArgument(input).getUsers(), [](Operation *user) {
        return linalg::isaContractionOpInterface(
            dyn_cast<linalg::LinalgOp>(user));
      }))
    return false;
  launch.setTiedInput(result, input);
  if (pick(2))
    move(launch.getResult(result), getArenaOffset(factor));
  return true;
}

//===----------------------------------------------------------------------===//
// Harmless
//===----------------------------------------------------------------------===//

/// Whoever waits longer knows more; places stay, and every order that is left
/// was possible before.
bool StepChanger::waitEarlier() {
  WaitOp wait = pickFrom(waits);
  unsigned from = getPlace(getStart(wait)), to = getPlace(wait);
  Operation *behind = getStart(wait);
  for (size_t i = pick(to - from); i != 0; --i)
    behind = behind->getNextNode();
  if (behind->getNextNode() == wait)
    return false;
  wait->moveAfter(behind);
  return true;
}

/// Past computation that it may have run beside: each order that is left was
/// possible before. Queues keep their orders.
bool StepChanger::startLater() {
  StartOp start = pickFrom(starts);
  Operation *behind = nullptr;
  for (Operation *op = start->getNextNode();
       !isa<StartOp, WaitOp, fsdp::ReturnOp>(op); op = op->getNextNode())
    if (!behind || pick(2))
      behind = op;
  if (!behind)
    return false;
  start->moveAfter(behind);
  return true;
}

/// As with a wait.
bool StepChanger::startAfterMore() {
  StartOp start = pickFrom(starts), before = pickFrom(starts);
  if (!before->isBeforeInBlock(start) ||
      llvm::is_contained(start.getAfter(), before.getToken()))
    return false;
  start.getAfterMutable().append(before.getToken());
  for (Type type : before.getToken().getType().getTypes())
    start.getBody().addArgument(type, start.getLoc());
  return true;
}

/// To bytes that nobody else has. What was in place is copied then.
bool StepChanger::placeApart() {
  Value moved = pickFrom(values);
  move(moved, addRoom(moved));
  return true;
}

/// All ranks gather or copy one thing once more, to bytes that nobody else has,
/// and wait.
bool StepChanger::transferMore() {
  StartOp start = pickFrom(starts);
  if (isa<ReduceScatterOp, AllReduceOp>(*getTransfer(start)) ||
      !start.getAfter().empty())
    return false;
  StartOp again = cloneBehind(start);
  again.setEvent(eventCount);
  for (TransferOpInterface transfer : getTransfers(again))
    setPlace(transfer.getBrought(), addRoom(transfer.getBrought()));
  WaitOp wait = copyWait(again, start.getWait());
  wait->moveAfter(again);
  return true;
}

/// They are names.
bool StepChanger::renumberEvents() {
  StartOp a = pickFrom(starts), b = pickFrom(starts);
  auto event = a.getEvent();
  a.setEvent(b.getEvent());
  b.setEvent(event);
  return a != b;
}

/// The queue issues one behind the other what it issued at once; compute waits
/// for both where it waited.
bool StepChanger::splitBucket() {
  StartOp start = pickFrom(starts);
  unsigned count = start.getYielded().size();
  if (count == 1)
    return false;
  SmallVector<unsigned> first, second;
  for (unsigned i = 0, end = 1 + pick(count - 1); i != count; ++i)
    (i < end ? first : second).push_back(i);
  StartOp b = copyPart(start, second, eventCount),
          a = copyPart(start, first, start.getEvent());
  WaitOp wait = start.getWait();
  WaitOp waitA = copyWait(a, wait), waitB = copyWait(b, wait);
  for (OpResult result : wait->getResults()) {
    unsigned i = result.getResultNumber();
    result.replaceAllUsesWith(i < first.size()
                                  ? waitA->getResult(i)
                                  : waitB->getResult(i - first.size()));
  }
  wait.erase();
  // Who comes after it finds the same values in the same order.
  for (Operation *user : llvm::to_vector(start.getToken().getUsers())) {
    SmallVector<Value> after;
    for (Value token : cast<StartOp>(user).getAfter())
      if (token == start.getToken())
        llvm::append_range(after, ValueRange{a.getToken(), b.getToken()});
      else
        after.push_back(token);
    cast<StartOp>(user).getAfterMutable().assign(after);
  }
  start.erase();
  return true;
}

/// On all ranks: each meets what it met.
bool StepChanger::reorderBucket() {
  StartOp start = pickFrom(starts);
  unsigned count = start.getYielded().size();
  if (count == 1 || !start.getToken().hasOneUse())
    return false;
  SmallVector<unsigned> order = llvm::to_vector(llvm::seq(count));
  std::shuffle(order.begin(), order.end(), random);
  WaitOp wait = start.getWait(),
         again = copyWait(copyPart(start, order, start.getEvent()), wait);
  for (auto [i, part] : llvm::enumerate(order))
    wait->getResult(part).replaceAllUsesWith(again->getResult(i));
  wait.erase();
  start.erase();
  return !llvm::is_sorted(order);
}
