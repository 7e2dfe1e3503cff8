//===- PlacedStepMutantsTest.cpp - Changed steps are refused --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Changes the L3 of a compiled model, as all ranks run it, and asks the ops'
// verifiers and fsdp-verify-schedule.
//
// A step is too large to be run in every order, and what the verifiers say must
// not decide what they should have said. So each class of changes is harmful or
// harmless by construction; the comment at each says why. Not among them are
// changes that make another program of the same sense, such as layers that
// exchange their weights: L3 is all that says what is meant.
//
//===----------------------------------------------------------------------===//

#include "../Schedule/MutantCounts.h"
#include "fsdp/Analysis/ArenaPacking.h"
#include "fsdp/Analysis/ComputeOps.h"
#include "fsdp/Analysis/InputContract.h"
#include "fsdp/Analysis/StepArguments.h"
#include "fsdp/Passes/Passes.h"
#include "fsdp/Target/Frontend.h"
#include "fsdp/Target/StepScheduler.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace mlir::fsdp;

namespace {

/// What an op of the step reads: @value's bytes, as a part of `whole`.
struct Reader {
  Operation *op;
  Value value, whole;
};

/// A copy of a step, and what may be done to it. Each change returns whether it
/// found something to do it to.
class StepChanger {
public:
  StepChanger(ModuleOp module, unsigned seed);

  // Harmful.
  bool dropWait();
  bool waitBeforeStart();
  bool waitBehindUse();
  bool waitTwice();
  bool waitForAnother();
  bool startTwice();
  bool startUnwaited();
  bool startBehindWhatComesAfter();
  bool dropReduction();
  bool resize();
  bool retype();
  bool changeGroup();
  bool changeQueue();
  bool changeDivisor();
  bool placeOverLive();
  bool placeOutside();
  bool placeWhatIsNamed();
  // Harmless.
  bool waitEarlier();
  bool startLater();
  bool startAfterMore();
  bool placeApart();
  bool transferMore();
  bool renumberEvents();

private:
  size_t pick(size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random);
  }
  template <typename Range>
  auto pickFrom(Range &range) {
    return range[pick(range.size())];
  }
  unsigned getPlace(Operation *op) { return places.lookup(op); }
  StartOp getStart(WaitOp wait) {
    return wait.getToken().getDefiningOp<StartOp>();
  }
  TransferOpInterface getTransfer(StartOp start) {
    return cast<TransferOpInterface>(start.getBody().front().front());
  }
  int64_t getArena(StringRef key) {
    return step->getAttrOfType<DictionaryAttr>(names::kArena)
        .getAs<IntegerAttr>(key)
        .getInt();
  }
  void setArena(StringRef key, int64_t bytes);
  void setPlace(Value value, int64_t offset);
  void move(Value whole, int64_t offset);
  int64_t addRoom(int64_t bytes, bool isSent);
  bool isSent(Value whole);

  func::FuncOp step;
  OpBuilder builder;
  std::mt19937 random;
  SmallVector<StartOp> starts;
  SmallVector<WaitOp> waits;
  /// All that has memory of its own on the device, but arguments.
  SmallVector<Value> values;
  SmallVector<Reader> readers;
  llvm::DenseMap<Operation *, unsigned> places;
};

} // namespace

StepChanger::StepChanger(ModuleOp module, unsigned seed)
    : step(module.lookupSymbol<func::FuncOp>(names::kStep)),
      builder(module.getContext()), random(seed) {
  auto addReader = [&](Operation *op, Value value) {
    readers.push_back({op, value, getWholeValue(value)});
  };
  auto addValue = [&](Value value) {
    if (!isa<HostType>(value.getType()))
      values.push_back(value);
  };
  for (Operation &op : step.getBody().front()) {
    places[&op] = places.size();
    if (auto wait = dyn_cast<WaitOp>(op)) {
      waits.push_back(wait);
    } else if (auto start = dyn_cast<StartOp>(op)) {
      starts.push_back(start);
      for (Operation &part : start.getTransfers()) {
        auto transfer = cast<TransferOpInterface>(part);
        addReader(&op, transfer.getSource());
        addValue(transfer.getBrought());
      }
    } else if (!isView(&op)) {
      for (Value operand : op.getOperands())
        addReader(&op, operand);
      for (Value result : op.getResults())
        addValue(result);
    }
  }
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

void StepChanger::setArena(StringRef key, int64_t bytes) {
  NamedAttrList arena(step->getAttrOfType<DictionaryAttr>(names::kArena));
  arena.set(key, builder.getI64IntegerAttr(bytes));
  step->setAttr(names::kArena, arena.getDictionary(step.getContext()));
}

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

/// Bytes at the arena's end that nobody else has; where collectives send them,
/// the segment that is communicated holds everything.
int64_t StepChanger::addRoom(int64_t bytes, bool isSent) {
  int64_t offset = getArena("bytes");
  int64_t end = llvm::alignTo(offset + bytes, kArenaAlignment);
  setArena("bytes", end);
  if (isSent) {
    setArena("communicated_bytes", end - getArena("communicated_offset"));
    setArena("transient_offset", end);
  }
  setArena("transient_bytes", end - getArena("transient_offset"));
  return offset;
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
  builder.setInsertionPointAfter(wait);
  builder.clone(*wait);
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
  builder.setInsertionPointAfter(start);
  builder.clone(*start);
  return true;
}

/// As a dropped wait, of a transfer with an event of its own.
bool StepChanger::startUnwaited() {
  StartOp start = pickFrom(starts);
  builder.setInsertionPointAfter(start);
  auto again = cast<StartOp>(builder.clone(*start));
  again.setEvent(starts.size() + pick(8));
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
  Value source = transfer.getSource();
  auto arg = cast<BlockArgument>(source);
  if (arg.getArgNumber() < start.getInputs().size()) {
    source = start.getInputs()[arg.getArgNumber()];
  } else {
    // Behind another transfer: compute waits for that one instead.
    auto before = start.getAfter().front().getDefiningOp<StartOp>();
    if (before.getYielded().size() != 1)
      return false;
    if (wait->isBeforeInBlock(before.getWait()))
      before.getWait()->moveBefore(wait);
    source = before.getWait()->getResult(0);
  }
  Value result = wait->getResult(0);
  if (source.getType() != result.getType()) {
    builder.setInsertionPoint(wait);
    int64_t offset = getArenaOffset(source);
    auto view = ViewOp::create(builder, wait.getLoc(), result.getType(), source,
                               /*offset=*/0);
    view->setAttr(names::kOffsets, builder.getDenseI64ArrayAttr({offset}));
    source = view;
  }
  result.replaceAllUsesWith(source);
  wait.erase();
  start.erase();
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
  TransferOpInterface transfer = getTransfer(pickFrom(starts));
  auto type = dyn_cast<RankedTensorType>(transfer.getBrought().getType());
  if (!type)
    return false;
  transfer.getBrought().setType(type.clone(
      pick(2) ? Type(builder.getBF16Type()) : Type(builder.getF64Type())));
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
  if (reader.whole == moved || isa<HostType>(reader.value.getType()))
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

/// Nothing is there.
bool StepChanger::placeOutside() {
  Value moved = pickFrom(values);
  move(moved, pick(2) ? getArena("bytes") : -kArenaAlignment);
  return true;
}

/// A view, or what a wait gives, is looked for where it is not.
bool StepChanger::placeWhatIsNamed() {
  SmallVector<Value> named;
  for (Operation &op : step.getBody().front())
    if (isView(&op) || isa<WaitOp>(op))
      llvm::append_range(named, op.getResults());
  Value value = pickFrom(named);
  setPlace(value, getArenaOffset(value) + (pick(2) ? 1 : -1) * kArenaAlignment);
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
       !isa<StartOp, WaitOp, func::ReturnOp>(op); op = op->getNextNode())
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
  move(moved, addRoom(getTensorBytes(moved.getType()), isSent(moved)));
  return true;
}

/// All ranks gather one thing once more, to bytes that nobody else has, and
/// wait.
bool StepChanger::transferMore() {
  StartOp start = pickFrom(starts);
  auto gather = dyn_cast<AllGatherOp>(*getTransfer(start));
  if (!gather || !start.getAfter().empty())
    return false;
  int64_t place = addRoom(getTensorBytes(gather.getType()), /*isSent=*/true);
  builder.setInsertionPointAfter(start);
  auto again = cast<StartOp>(builder.clone(*start));
  again.setEvent(starts.size());
  setPlace(getTransfer(again).getBrought(), place);
  auto wait =
      WaitOp::create(builder, start.getLoc(),
                     again.getToken().getType().getTypes(), again.getToken());
  wait->setAttr(names::kOffsets, builder.getDenseI64ArrayAttr({place}));
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

//===----------------------------------------------------------------------===//
// Tests
//===----------------------------------------------------------------------===//

namespace {
struct ChangeClass {
  const char *name;
  bool (StepChanger::*change)();
  bool isHarmful;
};

constexpr ChangeClass kClasses[] = {
    {"dropped waits", &StepChanger::dropWait, true},
    {"waits before their starts", &StepChanger::waitBeforeStart, true},
    {"waits behind readers", &StepChanger::waitBehindUse, true},
    {"waits twice", &StepChanger::waitTwice, true},
    {"waits for each other's starts", &StepChanger::waitForAnother, true},
    {"transfers twice", &StepChanger::startTwice, true},
    {"transfers without waits", &StepChanger::startUnwaited, true},
    {"swapped transfers", &StepChanger::startBehindWhatComesAfter, true},
    {"dropped reductions", &StepChanger::dropReduction, true},
    {"resized transfers", &StepChanger::resize, true},
    {"retyped transfers", &StepChanger::retype, true},
    {"wrong groups", &StepChanger::changeGroup, true},
    {"wrong divisors", &StepChanger::changeDivisor, true},
    {"wrong queues", &StepChanger::changeQueue, true},
    {"overlapped buffers", &StepChanger::placeOverLive, true},
    {"places outside", &StepChanger::placeOutside, true},
    {"places of names", &StepChanger::placeWhatIsNamed, true},
    {"earlier waits", &StepChanger::waitEarlier, false},
    {"later transfers", &StepChanger::startLater, false},
    {"more to come after", &StepChanger::startAfterMore, false},
    {"places apart", &StepChanger::placeApart, false},
    {"one more gather", &StepChanger::transferMore, false},
    {"other events", &StepChanger::renumberEvents, false},
};

class PlacedStepMutants : public ::testing::TestWithParam<const char *> {
protected:
  static void check(llvm::Error error) {
    ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
  }
  void compile(Frontend &frontend, const StepOptions &options) {
    check(frontend.read());
    check(frontend.partition(frontend.getModule(), options));
    check(frontend.makeKernels(frontend.getModule(), options));
    ScheduleOptions schedule;
    schedule.cluster = FSDP_CLUSTERS "/h100-sxm.json";
    auto scheduler = StepScheduler::create(schedule, options, /*toolDir=*/"");
    ASSERT_TRUE(bool(scheduler)) << llvm::toString(scheduler.takeError());
    check(scheduler->run(frontend));
  }
  /// What the first to refuse it says, or nothing.
  static std::string getRefusal(ModuleOp module) {
    std::string message;
    ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diag) {
      if (message.empty())
        message = diag.str();
      return success();
    });
    if (failed(verify(module)))
      return message;
    PassManager pm(module.getContext());
    pm.enableVerifier(false);
    pm.addPass(createVerifySchedule());
    return failed(pm.run(module)) ? message : "";
  }
};
} // namespace

TEST_P(PlacedStepMutants, HarmfulOnesAreRefusedAndNoOthers) {
  StepOptions options;
  options.input = FSDP_FIXTURES "/gpt2/model.mlir";
  options.optimizerFile = FSDP_FIXTURES "/gpt2/optimizer.mlir";
  options.mesh = GetParam();
  Frontend frontend(options);
  ASSERT_NO_FATAL_FAILURE(compile(frontend, options));
  ModuleOp module = frontend.getModule();
  ASSERT_EQ(getRefusal(module), "");
  auto original = module.lookupSymbol<func::FuncOp>(names::kStep);
  original->remove();

  int harmful = 0, harmless = 0, rejected = 0, accepted = 0;
  for (const ChangeClass &kind : kClasses) {
    int found = 0;
    for (unsigned seed = 0; seed != 400 && found != 24; ++seed) {
      func::FuncOp step = original.clone();
      module.push_back(step);
      if ((StepChanger(module, seed).*kind.change)()) {
        ++found;
        std::string refusal = getRefusal(module);
        EXPECT_EQ(kind.isHarmful, !refusal.empty())
            << kind.name << ", seed " << seed << ": " << refusal;
        ++(kind.isHarmful ? harmful : harmless);
        ++(refusal.empty() ? accepted : rejected);
      }
      step.erase();
    }
  }
  module.push_back(original);
  sched::test::reportCounts({{"mutants", harmful + harmless},
                             {"harmful", harmful},
                             {"harmless", harmless},
                             {"rejected", rejected},
                             {"accepted", accepted}},
                            std::string(" (gpt2 on ") + GetParam() + ")");
  EXPECT_GT(harmful, 300);
  EXPECT_GT(harmless, 100);
}

INSTANTIATE_TEST_SUITE_P(GPT2, PlacedStepMutants,
                         ::testing::Values("shard=2", "shard=2,replicate=2"));
