//===- StepPlan.cpp - What a step keeps, groups and repeats ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/StepPlan.h"
#include "fsdp/Planning/Offloading.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <map>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;
using llvm::Twine;

static bool isGather(const StepOp &op) {
  return op.kind == StepOpKind::Start && op.queue == Queue::AllGather;
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

/// What a gather sends: bytes of arguments, or what a kernel makes of them.
static SmallVector<int64_t> getSentBytes(const StepProgram &program,
                                         const std::vector<Id> &maker,
                                         const StepOp &gather) {
  SmallVector<int64_t> key = {program.transfers[gather.transfer].group};
  auto add = [&](const ByteRange &range) {
    key.append({range.value, range.offset, range.bytes});
  };
  for (const ByteRange &range : gather.reads) {
    Id from = maker[range.value];
    if (from < 0) {
      add(range);
      continue;
    }
    // A cast's result is the part of its place: where that lies is no matter.
    const StepOp &cast = program.ops[from];
    auto result = llvm::find_if(cast.writes, [&](const ByteRange &written) {
      return written.value == range.value;
    });
    key.append({-1 - int64_t(cast.kernel),
                int64_t(result - cast.writes.begin()), range.bytes});
    for (const ByteRange &read : cast.reads)
      add(read);
  }
  return key;
}

/// What could be in the host's memory meanwhile. Tails run beside each other in
/// any order: what they read has no first reader.
static std::vector<bool> getOffloadable(const StepProgram &program,
                                        llvm::ArrayRef<Id> maker,
                                        llvm::ArrayRef<int> valuesOf) {
  std::vector<bool> can(program.values.size());
  auto isOfStep = [&](const ByteRange &range) {
    const StepBuffer &buffer =
        program.buffers[program.values[range.value].buffer];
    return buffer.isArgument || buffer.isResult;
  };
  for (const StepOp &op : program.ops) {
    // With the loss, forward ends.
    bool isForward = op.kind == StepOpKind::Launch && !op.backward &&
                     llvm::none_of(op.writes, isOfStep);
    for (const ByteRange &range : op.writes)
      can[range.value] = isForward && range.bytes > 0 &&
                         valuesOf[program.values[range.value].buffer] == 1;
  }
  std::vector<bool> isReduced(program.ops.size());
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    for (const ByteRange &range : op.reads)
      if (Id from = maker[range.value]; from >= 0 && from < Id(i)) {
        const StepOp &source = program.ops[from];
        isReduced[i] =
            isReduced[i] || isReduced[from] ||
            (source.kind == StepOpKind::Start && !isFetch(source.queue));
      }
    if (op.kind == StepOpKind::Start || op.kind == StepOpKind::Copy ||
        isReduced[i])
      for (const ByteRange &range : op.reads)
        can[range.value] = false;
  }
  for (const ByteRange &range : program.results)
    can[range.value] = false;
  return can;
}

PlanChoices mlir::fsdp::sched::getPlanChoices(const StepProgram &program) {
  PlanChoices choices;
  choices.earlierGather.assign(program.ops.size(), -1);
  choices.canRecompute.assign(program.ops.size(), false);
  std::vector<Id> maker = getMakers(program);
  auto isMadeFromArguments = [&](const ByteRange &range) {
    Id from = maker[range.value];
    return from < 0 ||
           (program.ops[from].kind == StepOpKind::Launch &&
            llvm::all_of(program.ops[from].reads, [&](const ByteRange &read) {
              return maker[read.value] < 0;
            }));
  };
  std::map<SmallVector<int64_t>, Id> gathers;
  // By gather: the one that backward reads, itself or a later one.
  std::vector<bool> isThereInBackward(program.ops.size());
  for (auto [i, op] : llvm::enumerate(program.ops))
    if (isGather(op) && llvm::all_of(op.reads, isMadeFromArguments)) {
      auto [it, isNew] =
          gathers.try_emplace(getSentBytes(program, maker, op), Id(i));
      if (isNew)
        continue;
      choices.earlierGather[i] = it->second;
      isThereInBackward[it->second] =
          isThereInBackward[it->second] || op.backward;
    }
  for (const StepOp &op : program.ops)
    if (op.backward)
      for (const ByteRange &range : op.reads)
        if (Id from = maker[range.value];
            from >= 0 && isGather(program.ops[from]))
          isThereInBackward[from] = true;

  std::vector<int> valuesOf(program.buffers.size());
  for (const StepValue &value : program.values)
    ++valuesOf[value.buffer];
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    bool can = op.kind == StepOpKind::Launch && !op.backward &&
               op.copiedBytes == 0 && !op.writes.empty();
    for (const ByteRange &range : op.writes) {
      const StepBuffer &buffer =
          program.buffers[program.values[range.value].buffer];
      can &= !buffer.isArgument && !buffer.isResult &&
             valuesOf[program.values[range.value].buffer] == 1;
    }
    for (const ByteRange &range : op.reads)
      if (Id from = maker[range.value]; from >= 0) {
        const StepOp &source = program.ops[from];
        can &= source.kind == StepOpKind::Launch ||
               source.kind == StepOpKind::Copy ||
               (isGather(source) && isThereInBackward[from]);
      }
    choices.canRecompute[i] = can;
  }
  choices.canOffload = getOffloadable(program, maker, valuesOf);
  return choices;
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

std::vector<bool>
mlir::fsdp::sched::getReadInBackward(const StepProgram &program,
                                     const StepPlan &plan) {
  std::vector<Id> maker = getMakers(program);
  std::vector<bool> isRead(program.values.size());
  SmallVector<Id> work;
  auto read = [&](const StepOp &op) {
    for (const ByteRange &range : op.reads)
      if (!isRead[range.value]) {
        isRead[range.value] = true;
        if (plan.recompute[range.value])
          work.push_back(maker[range.value]);
      }
  };
  for (const StepOp &op : program.ops)
    if (op.backward)
      read(op);
  while (!work.empty())
    read(program.ops[work.pop_back_val()]);
  return isRead;
}

static std::string findWrongValue(const StepProgram &program,
                                  const StepPlan &plan,
                                  const PlanChoices &choices,
                                  const std::vector<bool> &isRead, Id v,
                                  Id maker) {
  std::string name = maker < 0 ? "an argument" : program.ops[maker].name;
  if (plan.recompute[v] && (maker < 0 || !choices.canRecompute[maker]))
    return "expected the result of a launch that can be repeated, got " + name +
           (maker < 0 ? "" : " (it is of backward, or shares a buffer)");
  if (!plan.offload[v])
    return "";
  if (plan.recompute[v])
    return "expected a result offloaded or computed again, got both";
  if (!choices.canOffload[v])
    return "expected the result of a launch of forward that only compute "
           "reads, in memory of its own, to be offloaded, got " +
           name;
  if (!isRead[v])
    return "expected a reader in backward of what is offloaded, got none";
  return "";
}

/// The first of @members, transfers of one group in order, that has to come
/// behind something that the group cannot come behind: another member, or,
/// since gathers are issued where the first of them stands, any transfer from
/// there on. -1: none.
static Id findDependentMember(const StepProgram &program,
                              llvm::ArrayRef<Id> members) {
  bool isGather = program.ops[members.front()].queue == Queue::AllGather;
  llvm::DenseSet<Id> isLate;
  size_t next = 0;
  for (Id i = members.front(); i <= members.back(); ++i) {
    const StepOp &op = program.ops[i];
    bool isMember = i == members[next];
    bool readsLate = llvm::any_of(op.reads, [&](const ByteRange &range) {
      return isLate.contains(range.value);
    });
    if (isMember && readsLate)
      return i;
    next += isMember;
    if (isMember || readsLate || (isGather && op.kind == StepOpKind::Start))
      for (const ByteRange &range : op.writes)
        isLate.insert(range.value);
  }
  return -1;
}

/// Why two transfers cannot be one; empty if they can. Says what differs.
static std::string findDifference(const StepProgram &program, const StepOp &op,
                                  const StepOp &other) {
  const StepTransfer &mine = program.transfers[op.transfer],
                     &its = program.transfers[other.transfer];
  bool isOtherGroup = mine.group != its.group,
       isOtherPhase = op.backward != other.backward;
  if (op.queue == other.queue && mine.kind == its.kind && !isOtherGroup &&
      !isOtherPhase)
    return "";
  auto describe = [&](const StepOp &op) {
    std::string text = op.name;
    Id group = program.transfers[op.transfer].group;
    if (isOtherPhase)
      text += op.backward ? " of backward" : " of forward";
    if (isOtherGroup && group >= 0)
      text += (" over " + Twine(program.groups[group].size) + " ranks, each " +
               Twine(program.groups[group].stride) + " from the next")
                  .str();
    return text;
  };
  return "expected transfers of one kind, group and phase in a group, got " +
         describe(op) + " beside " + describe(other);
}

std::optional<PlanError>
mlir::fsdp::sched::findPlanError(const StepProgram &program,
                                 const StepPlan &plan) {
  size_t size = program.ops.size();
  if (plan.keep.size() != size || plan.group.size() != size ||
      plan.recompute.size() != program.values.size() ||
      plan.offload.size() != program.values.size())
    return PlanError{-1,
                     ("expected a decision for each of " + Twine(size) +
                      " ops and " + Twine(program.values.size()) + " values")
                         .str()};
  PlanChoices choices = getPlanChoices(program);
  std::vector<Id> maker = getMakers(program);
  for (size_t v = 0; v != program.values.size(); ++v)
    if (plan.recompute[v] && maker[v] < 0)
      return PlanError{-1,
                       findWrongValue(program, plan, choices, {}, v, maker[v])};
  std::vector<bool> isRead = getReadInBackward(program, plan);
  for (size_t v = 0; v != program.values.size(); ++v)
    if (std::string what =
            findWrongValue(program, plan, choices, isRead, v, maker[v]);
        !what.empty())
      return PlanError{maker[v], std::move(what)};
  std::map<Id, SmallVector<Id>> groups;
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    if (plan.keep[i] && choices.earlierGather[i] < 0)
      return PlanError{Id(i), "expected an earlier gather of the same bytes "
                              "where one is kept"};
    if (plan.group[i] < 0)
      continue;
    if (op.kind != StepOpKind::Start || plan.keep[i] ||
        program.transfers[op.transfer].isCopy())
      return PlanError{Id(i), "expected a collective in a group, got " +
                                  op.name +
                                  (plan.keep[i] ? " that is kept" : "")};
    groups[plan.group[i]].push_back(i);
    const StepOp &other = program.ops[groups[plan.group[i]].front()];
    if (std::string what = findDifference(program, op, other); !what.empty())
      return PlanError{Id(i), std::move(what)};
  }
  for (const auto &[number, members] : groups)
    if (Id op = findDependentMember(program, members); op >= 0)
      return PlanError{op, "expected transfers of a group to be independent of "
                           "each other, got " +
                               program.ops[op].name +
                               " that needs one behind the first of them"};
  return std::nullopt;
}

std::string mlir::fsdp::sched::checkPlan(const StepProgram &program,
                                         const StepPlan &plan) {
  std::optional<PlanError> error = findPlanError(program, plan);
  if (!error)
    return "";
  return error->op < 0 ? error->what
                       : ("op " + Twine(error->op) + ": " + error->what).str();
}

//===----------------------------------------------------------------------===//
// Application
//===----------------------------------------------------------------------===//

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
    // A cast goes with the last reader of any of its results.
    for (const ByteRange &range : op.reads)
      if (Id cast = maker[range.value]; cast >= 0 && --readers[cast] == 0)
        isDone[cast] = true;
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
  for (const ByteRange &range : old.ops[gather].reads)
    if (Id cast = maker[range.value]; cast >= 0 && !isDone[cast])
      add(cast);
  add(gather);
  add(waitOf[old.ops[gather].event]);
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

  const StepProgram &old;
  const std::vector<Id> &group;
  std::vector<Id> maker, waitOf;
  std::vector<bool> isDone;
  /// By value: made by a reduction that waits for the rest of its group, or
  /// from such.
  std::vector<bool> isLate;
  std::vector<Id> delayed;
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

StepProgram Grouping::run() {
  std::map<Id, SmallVector<Id>> members;
  for (auto [i, op] : llvm::enumerate(old.ops))
    if (op.kind == StepOpKind::Start && group[i] >= 0)
      members[group[i]].push_back(i);
  result = copyWithoutOps(old);
  auto isReadLate = [&](const StepOp &op) {
    return llvm::any_of(
        op.reads, [&](const ByteRange &range) { return isLate[range.value]; });
  };
  auto delay = [&](Id i) {
    delayed.push_back(i);
    for (const ByteRange &range : old.ops[i].writes)
      isLate[range.value] = true;
    if (old.ops[i].kind == StepOpKind::Start)
      isDone[waitOf[old.ops[i].event]] = true;
  };
  // In program order, what is delayed when its group is complete.
  auto step = [&](Id i, auto &&step) -> void {
    if (isDone[i])
      return;
    const StepOp &op = old.ops[i];
    Id number = op.kind == StepOpKind::Start ? group[i] : -1;
    if (number >= 0 && members[number].size() > 1) {
      llvm::ArrayRef<Id> all = members[number];
      if (isGather(op))
        return merge(all);
      if (i != all.back() || isReadLate(op)) {
        for (const ByteRange &range : op.writes)
          isLate[range.value] = true;
        isDone[waitOf[op.event]] = true;
        if (i != all.back())
          return;
        delayed.push_back(i);
        return;
      }
      for (Id start : all)
        isDone[waitOf[old.ops[start].event]] = false;
      merge(all);
      for (Id start : all)
        for (const ByteRange &range : old.ops[start].writes)
          isLate[range.value] = false;
      std::vector<Id> again = std::move(delayed);
      delayed.clear();
      for (Id late : again) {
        for (const ByteRange &range : old.ops[late].writes)
          isLate[range.value] = false;
        if (old.ops[late].kind == StepOpKind::Start)
          isDone[waitOf[old.ops[late].event]] = false;
      }
      for (Id late : again)
        step(late, step);
      return;
    }
    if (isReadLate(op))
      return delay(i);
    add(i);
    if (op.kind == StepOpKind::Start && !isDone[waitOf[op.event]])
      add(waitOf[op.event]);
  };
  for (size_t i = 0; i != old.ops.size(); ++i)
    step(i, step);
  return std::move(result);
}

StepProgram mlir::fsdp::sched::applyPlan(const StepProgram &program,
                                         const StepPlan &plan) {
  StepProgram result = insertCopies(Rewrite(program, plan).run(), plan.offload);
  std::vector<Id> group;
  for (const StepOp &op : result.ops)
    group.push_back(op.source < 0 ? -1 : plan.group[op.source]);
  if (llvm::any_of(group, [](Id number) { return number >= 0; }))
    result = Grouping(result, group).run();
  for (auto [i, op] : llvm::enumerate(result.ops))
    op.source = i;
  return result;
}
