//===- StepChanger.h - Changes of a placed step -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Changes of the L3 of a compiled model, as all ranks run it. A step is too
// large to be run in every order, and what the verifiers say must not decide
// what they should have said. So each class of changes is harmful or harmless
// by construction; the comment at each says why. Not among them are changes
// that make another program of the same sense, such as layers that exchange
// their weights: L3 is all that says what is meant.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_TARGET_STEPCHANGER_H
#define FSDP_TEST_TARGET_STEPCHANGER_H

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepArguments.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <random>

namespace mlir::fsdp::test {

/// Which transfers are changed.
enum class Focus { All, Buckets, Copies };

/// What an op of the step reads: @value's bytes, as a part of `whole`.
struct Reader {
  Operation *op;
  Value value, whole;
};

/// A copy of a step, and what may be done to it. Each change returns whether it
/// found something to do it to.
class StepChanger {
public:
  StepChanger(ModuleOp module, Focus focus, unsigned seed);

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
  bool swapBrought();
  bool dropFromBucket();
  bool countAnother();
  bool placeTogether();
  bool overwriteWhileRunning();
  bool placeOverLive();
  bool placeOutside();
  bool placeWhatIsNamed();
  bool dropTie();
  bool tieToFactor();
  // Harmless.
  bool waitEarlier();
  bool startLater();
  bool startAfterMore();
  bool placeApart();
  bool transferMore();
  bool renumberEvents();
  bool splitBucket();
  bool reorderBucket();

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
  static SmallVector<TransferOpInterface> getTransfers(StartOp start) {
    SmallVector<TransferOpInterface> transfers;
    for (Operation &op : start.getTransfers())
      transfers.push_back(cast<TransferOpInterface>(op));
    return transfers;
  }
  /// One that @start issues.
  TransferOpInterface getTransfer(StartOp start) {
    SmallVector<TransferOpInterface> transfers = getTransfers(start);
    return pickFrom(transfers);
  }
  bool isInFocus(StartOp start);
  StartOp copyPart(StartOp start, ArrayRef<unsigned> parts, int64_t event);
  WaitOp copyWait(StartOp start, WaitOp wait);
  Value getOuterSource(WaitOp wait, unsigned part);
  void replaceBySource(Value result, Value source);
  void setPlace(Value value, int64_t offset);
  void move(Value whole, int64_t offset);
  int64_t addRoom(Value value);
  bool isSent(Value whole);
  LaunchOp pickLaunch();

  /// The same op once more, next to @op.
  template <typename Op>
  Op cloneBehind(Op op) {
    builder.setInsertionPointAfter(op);
    return cast<Op>(builder.clone(*op));
  }

  ProgramOp step;
  Focus focus;
  OpBuilder builder;
  std::mt19937 random;
  /// In focus.
  SmallVector<StartOp> starts;
  SmallVector<WaitOp> waits;
  /// All that has memory of its own, but arguments; of what is brought, what is
  /// in focus, and nothing else where not all is.
  SmallVector<Value> values;
  /// More than any event there is.
  int64_t eventCount = 0;
  SmallVector<Reader> readers;
  llvm::DenseMap<Operation *, unsigned> places;
};

} // namespace mlir::fsdp::test

#endif // FSDP_TEST_TARGET_STEPCHANGER_H
