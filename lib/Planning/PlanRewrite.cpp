//===- PlanRewrite.cpp - What a plan makes of a program -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Applies a plan to a program without its IR: gathers that are kept go,
// launches that are repeated come again before their first reader in backward,
// and grouped transfers become one.
//
//===----------------------------------------------------------------------===//

#include "PlanRewrite.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <map>
#include <utility>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

namespace {
/// Keeps and repeats.
class Rewrite {
public:
  Rewrite(const StepProgram &program, const StepPlan &plan)
      : old(program), plan(plan), choices(getPlanChoices(program)),
        maker(getMakers(program)), replacement(program.values.size(), -1),
        isDone(program.ops.size()), isRepeated(program.ops.size()),
        waitOf(getEventOps(program).wait) {}

  StepProgram run();

private:
  void dropKept();
  ByteRange resolve(const ByteRange &range, bool inBackward);
  void repeat(Id op);
  Id prepare(Id launch);
  void clone(Id launch);
  Id getLaterGather(Id value) const;
  void issue(Id gather);
  void add(Id op);
  void returnKept();
  void dropUnread();

  const StepProgram &old;
  const StepPlan &plan;
  PlanChoices choices;
  std::vector<Id> maker;
  /// By old value: what backward reads instead.
  std::vector<Id> replacement;
  /// By old op: it stands in the result already, or will not.
  std::vector<bool> isDone;
  std::vector<bool> isRepeated;
  std::vector<Id> waitOf;
  /// By gather: a later gather of the same bytes that happens.
  llvm::DenseMap<Id, Id> later;
  StepProgram result;
};
} // namespace

void Rewrite::dropKept() {
  // By op: of all of its results.
  std::vector<int> readers(old.ops.size());
  auto addReader = [&](const ByteRange &range) {
    if (Id from = maker[range.value]; from >= 0)
      ++readers[from];
  };
  for (const StepOp &op : old.ops)
    llvm::for_each(op.reads, addReader);
  llvm::for_each(old.results, addReader);
  for (auto [i, op] : llvm::enumerate(old.ops)) {
    Id earlier = choices.earlierGather[i];
    if (earlier < 0)
      continue;
    if (!plan.keep[i]) {
      if (op.backward)
        later.try_emplace(earlier, i);
      continue;
    }
    isDone[i] = isDone[waitOf[op.event]] = true;
    for (auto [mine, kept] : llvm::zip(op.writes, old.ops[earlier].writes))
      replacement[mine.value] = kept.value;
    // A cast goes with the last reader of any of its results, and so does a
    // copy from the host.
    SmallVector<Id> gone = {Id(i)};
    while (!gone.empty())
      for (const ByteRange &range : old.ops[gone.pop_back_val()].reads)
        if (Id from = maker[range.value]; from >= 0 && --readers[from] == 0) {
          isDone[from] = true;
          if (old.ops[from].kind == StepOpKind::Start)
            isDone[waitOf[old.ops[from].event]] = true;
          gone.push_back(from);
        }
  }
}

/// What an op of backward reads where it read @range.
ByteRange Rewrite::resolve(const ByteRange &range, bool inBackward) {
  if (inBackward && plan.recompute[range.value])
    repeat(maker[range.value]);
  Id value = replacement[range.value];
  if (value < 0)
    return range;
  // Through a kept gather to what stands for it.
  return {value,
          range.offset - old.values[range.value].offset +
              result.values[value].offset,
          range.bytes};
}

void Rewrite::issue(Id gather) {
  if (isDone[gather])
    return;
  // With the cast and the copy from the host that it waits for.
  SmallVector<Id> chain = {gather};
  for (size_t i = 0; i != chain.size(); ++i)
    for (const ByteRange &range : old.ops[chain[i]].reads)
      if (Id from = maker[range.value]; from >= 0 && !isDone[from])
        chain.push_back(from);
  for (Id op : llvm::reverse(chain)) {
    if (isDone[op])
      continue;
    add(op);
    if (old.ops[op].kind == StepOpKind::Start)
      add(waitOf[old.ops[op].event]);
  }
}

/// The later gather of the bytes that @value was gathered with; -1: none.
Id Rewrite::getLaterGather(Id value) const {
  auto it = maker[value] < 0 ? later.end() : later.find(maker[value]);
  return it == later.end() ? -1 : it->second;
}

/// Has what @launch reads gathered, up to where it reads what has to be
/// repeated first: returns the launch that makes that, or -1.
Id Rewrite::prepare(Id launch) {
  for (const ByteRange &range : old.ops[launch].reads) {
    // Forward's gather is gone by now.
    if (Id gather = getLaterGather(range.value); gather >= 0)
      issue(gather);
    else if (plan.recompute[range.value] && !isRepeated[maker[range.value]])
      return maker[range.value];
  }
  return -1;
}

/// With what it needs before it, which may be a chain as long as forward.
void Rewrite::repeat(Id launch) {
  SmallVector<Id> work = {launch};
  while (!work.empty()) {
    Id first = isRepeated[work.back()] ? -1 : prepare(work.back());
    if (first >= 0) {
      work.push_back(first);
      continue;
    }
    if (Id ready = work.pop_back_val(); !isRepeated[ready])
      clone(ready);
  }
}

void Rewrite::clone(Id launch) {
  isRepeated[launch] = true;
  StepOp clone = old.ops[launch];
  clone.source = launch;
  clone.backward = true;
  for (ByteRange &range : clone.reads) {
    Id gather = getLaterGather(range.value);
    if (gather < 0) {
      range = resolve(range, /*inBackward=*/true);
      continue;
    }
    const StepOp &earlier = old.ops[maker[range.value]];
    size_t which = llvm::find_if(earlier.writes,
                                 [&](const ByteRange &written) {
                                   return written.value == range.value;
                                 }) -
                   earlier.writes.begin();
    Id value = old.ops[gather].writes[which].value;
    range = {value,
             range.offset - old.values[range.value].offset +
                 old.values[value].offset,
             range.bytes};
  }
  for (ByteRange &range : clone.writes) {
    StepValue value = old.values[range.value];
    value.buffer = result.buffers.size();
    StepBuffer buffer = old.buffers[old.values[range.value].buffer];
    result.buffers.push_back(buffer);
    if (plan.recompute[range.value])
      replacement[range.value] = result.values.size();
    range.value = result.values.size();
    result.values.push_back(value);
  }
  result.ops.push_back(std::move(clone));
}

void Rewrite::add(Id i) {
  isDone[i] = true;
  StepOp op = old.ops[i];
  // Says which decision belongs to it.
  op.source = i;
  for (ByteRange &range : op.reads)
    range = resolve(range, op.backward);
  result.ops.push_back(std::move(op));
}

/// What a gather brought that does not happen may be a result of the step, or a
/// new state.
void Rewrite::returnKept() {
  auto resolveKept = [&](ByteRange &range) {
    if (Id from = maker[range.value]; from >= 0 && plan.keep[from])
      range = resolve(range, /*inBackward=*/false);
  };
  llvm::for_each(result.results, resolveKept);
  for (ReplacedArgument &replaced : result.replaced)
    resolveKept(replaced.value);
}

/// A launch of forward that only backward read is not repeated but moved.
void Rewrite::dropUnread() {
  std::vector<bool> isRead(result.values.size());
  for (const ByteRange &range : result.results)
    isRead[range.value] = true;
  std::vector<StepOp> &ops = result.ops;
  std::vector<bool> isDropped(ops.size());
  for (size_t i = ops.size(); i-- != 0;) {
    const StepOp &op = ops[i];
    bool isUnread = op.kind == StepOpKind::Launch && !op.backward;
    for (const ByteRange &range : op.writes) {
      const StepBuffer &buffer =
          result.buffers[result.values[range.value].buffer];
      isUnread &= !isRead[range.value] && !buffer.isArgument &&
                  !buffer.isResult && op.source >= 0 && isRepeated[op.source];
    }
    isDropped[i] = isUnread;
    if (!isUnread)
      for (const ByteRange &range : op.reads)
        isRead[range.value] = true;
  }
  size_t kept = 0;
  for (size_t i = 0; i != ops.size(); ++i)
    if (!isDropped[i] && kept++ != i)
      ops[kept - 1] = std::move(ops[i]);
  ops.resize(kept);
}

StepProgram Rewrite::run() {
  result = copyWithoutOps(old);
  dropKept();
  for (size_t i = 0; i != old.ops.size(); ++i)
    if (!isDone[i])
      add(i);
  returnKept();
  dropUnread();
  return std::move(result);
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

namespace {
/// Issues grouped transfers of a program together.
class Grouping {
public:
  /// @group: by op of @program.
  Grouping(const StepProgram &program, const std::vector<Id> &group)
      : old(program), group(group), maker(getMakers(program)),
        waitOf(getEventOps(program).wait), isDone(program.ops.size()),
        isLate(program.values.size()) {}

  StepProgram run();

private:
  void add(Id op);
  void addMakers(Id op);
  void merge(llvm::ArrayRef<Id> starts);
  void setLate(Id op, bool late);
  bool readsLate(Id op) const;
  void visitMember(Id op, llvm::ArrayRef<Id> all);
  void visit(Id op);

  const StepProgram &old;
  const std::vector<Id> &group;
  std::vector<Id> maker, waitOf;
  std::vector<bool> isDone;
  /// By value: made by a reduction that waits for the rest of its group, or
  /// from such.
  std::vector<bool> isLate;
  std::vector<Id> delayed;
  /// By number of a group.
  std::map<Id, SmallVector<Id>> members;
  StepProgram result;
};
} // namespace

void Grouping::add(Id op) {
  isDone[op] = true;
  result.ops.push_back(old.ops[op]);
}

/// What @op reads and nobody has made yet: casts, which no transfer feeds.
void Grouping::addMakers(Id op) {
  for (const ByteRange &range : old.ops[op].reads)
    if (Id cast = maker[range.value]; cast >= 0 && !isDone[cast]) {
      addMakers(cast);
      add(cast);
    }
}

void Grouping::merge(llvm::ArrayRef<Id> starts) {
  for (Id start : starts)
    addMakers(start);
  StepOp merged = old.ops[starts.front()];
  StepTransfer transfer = old.transfers[merged.transfer];
  for (Id start : starts.drop_front()) {
    const StepOp &op = old.ops[start];
    for (auto [read, written] : op.inPlace)
      merged.inPlace.push_back(
          {read + Id(merged.reads.size()), written + Id(merged.writes.size())});
    merged.reads.append(op.reads.begin(), op.reads.end());
    merged.writes.append(op.writes.begin(), op.writes.end());
    const StepTransfer &other = old.transfers[op.transfer];
    transfer.atomBytes.append(other.atomBytes.begin(), other.atomBytes.end());
    transfer.dtypes.append(other.dtypes.begin(), other.dtypes.end());
    transfer.divisors.append(other.divisors.begin(), other.divisors.end());
    transfer.atomUnits.append(other.atomUnits);
    isDone[start] = isDone[waitOf[op.event]] = true;
  }
  merged.transfer = result.transfers.size();
  result.transfers.push_back(transfer);
  isDone[starts.front()] = true;
  result.ops.push_back(std::move(merged));
  add(waitOf[old.ops[starts.front()].event]);
}

/// Marks that @op, what it makes and its wait stand after a group that is not
/// complete yet, or no longer do.
void Grouping::setLate(Id op, bool late) {
  for (const ByteRange &range : old.ops[op].writes)
    isLate[range.value] = late;
  if (old.ops[op].kind == StepOpKind::Start)
    isDone[waitOf[old.ops[op].event]] = late;
}

bool Grouping::readsLate(Id op) const {
  return llvm::any_of(old.ops[op].reads, [&](const ByteRange &range) {
    return isLate[range.value];
  });
}

/// A member of a group. Gathers stand where the first of them stood. Others
/// stand where the last one stood, or after what that reads; and after them
/// what was delayed by them.
void Grouping::visitMember(Id op, llvm::ArrayRef<Id> all) {
  if (old.ops[op].queue == Queue::AllGather)
    return merge(all);
  bool isLast = op == all.back();
  if (!isLast || readsLate(op)) {
    setLate(op, true);
    if (isLast)
      delayed.push_back(op);
    return;
  }
  for (Id start : all)
    isDone[waitOf[old.ops[start].event]] = false;
  merge(all);
  for (Id start : all)
    for (const ByteRange &range : old.ops[start].writes)
      isLate[range.value] = false;
  std::vector<Id> again = std::exchange(delayed, {});
  for (Id late : again)
    setLate(late, false);
  for (Id late : again)
    visit(late);
}

/// In program order; what was delayed comes again when its group is complete.
void Grouping::visit(Id i) {
  if (isDone[i])
    return;
  const StepOp &op = old.ops[i];
  Id number = op.kind == StepOpKind::Start ? group[i] : -1;
  if (number >= 0 && members[number].size() > 1)
    return visitMember(i, members[number]);
  if (readsLate(i)) {
    delayed.push_back(i);
    return setLate(i, true);
  }
  add(i);
  if (op.kind == StepOpKind::Start && !isDone[waitOf[op.event]])
    add(waitOf[op.event]);
}

StepProgram Grouping::run() {
  for (auto [i, op] : llvm::enumerate(old.ops))
    if (op.kind == StepOpKind::Start && group[i] >= 0)
      members[group[i]].push_back(i);
  result = copyWithoutOps(old);
  for (size_t i = 0; i != old.ops.size(); ++i)
    visit(i);
  return std::move(result);
}

StepProgram mlir::fsdp::sched::keepAndRepeat(const StepProgram &program,
                                             const StepPlan &plan) {
  return Rewrite(program, plan).run();
}

StepProgram mlir::fsdp::sched::groupTransfers(const StepProgram &program,
                                              const std::vector<Id> &group) {
  return Grouping(program, group).run();
}
