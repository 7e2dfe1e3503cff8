//===- StepPlan.cpp - What a step keeps, groups and repeats ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Says what a plan may decide about a program and why one is refused. What it
// makes of the program is done by PlanRewrite.h and Offloading.h.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/StepPlan.h"
#include "PlanRewrite.h"
#include "fsdp/Planning/Offloading.h"

#include "llvm/ADT/ArrayRef.h"
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

/// Whether @op copies a state from the host to the device.
static bool isFetchOfArgument(const StepProgram &program,
                              llvm::ArrayRef<Id> maker, Id op) {
  const StepOp &fetch = program.ops[op];
  return fetch.kind == StepOpKind::Start && fetch.queue == Queue::H2D &&
         llvm::all_of(fetch.reads, [&](const ByteRange &range) {
           return maker[range.value] < 0;
         });
}

/// @reads, with what a copy from the host writes replaced by what it reads.
static SmallVector<ByteRange>
lookThroughFetches(const StepProgram &program, llvm::ArrayRef<Id> maker,
                   llvm::ArrayRef<ByteRange> reads) {
  SmallVector<ByteRange> sources;
  for (const ByteRange &range : reads)
    if (Id from = maker[range.value];
        from >= 0 && isFetchOfArgument(program, maker, from))
      llvm::append_range(sources, program.ops[from].reads);
    else
      sources.push_back(range);
  return sources;
}

/// What a gather sends: bytes of arguments, what a kernel makes of them, or the
/// secondary shard that another gather brought.
static SmallVector<int64_t> getSentBytes(const StepProgram &program,
                                         llvm::ArrayRef<Id> maker,
                                         const StepOp &gather) {
  SmallVector<int64_t> key = {program.transfers[gather.transfer].group};
  auto add = [&](const ByteRange &range) {
    key.append({range.value, range.offset, range.bytes});
  };
  for (const ByteRange &range :
       lookThroughFetches(program, maker, gather.reads)) {
    Id from = maker[range.value];
    if (from < 0 || isGather(program.ops[from])) {
      add(range);
      continue;
    }
    // Two casts may write the same numbers to different addresses: the key
    // holds which of its results is sent, not where that lies.
    const StepOp &cast = program.ops[from];
    auto result = llvm::find_if(cast.writes, [&](const ByteRange &written) {
      return written.value == range.value;
    });
    key.append({-1 - int64_t(cast.kernel),
                int64_t(result - cast.writes.begin()), range.bytes});
    llvm::for_each(lookThroughFetches(program, maker, cast.reads), add);
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
  auto isArgument = [&](const ByteRange &range) {
    Id from = maker[range.value];
    return from < 0 || isFetchOfArgument(program, maker, from);
  };
  auto isMadeFromArguments = [&](const ByteRange &range) {
    return isArgument(range) ||
           (program.ops[maker[range.value]].kind == StepOpKind::Launch &&
            llvm::all_of(program.ops[maker[range.value]].reads, isArgument));
  };
  auto isSent = [&](const ByteRange &range) {
    Id from = maker[range.value];
    return isMadeFromArguments(range) ||
           (isGather(program.ops[from]) &&
            llvm::all_of(program.ops[from].reads, isMadeFromArguments));
  };
  std::map<SmallVector<int64_t>, Id> gathers;
  // By gather: the one that backward reads, itself or a later one.
  std::vector<bool> isThereInBackward(program.ops.size());
  for (auto [i, op] : llvm::enumerate(program.ops))
    if (isGather(op) && llvm::all_of(op.reads, isSent)) {
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
    bool can = op.kind == StepOpKind::Launch && !op.backward && !op.isSaved &&
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
               source.kind == StepOpKind::Copy || isArgument(range) ||
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
           (maker < 0 ? ""
                      : " (it is of backward, shares a buffer, or is saved)");
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

StepProgram mlir::fsdp::sched::applyPlan(const StepProgram &program,
                                         const StepPlan &plan) {
  StepProgram result = insertCopies(keepAndRepeat(program, plan), plan.offload);
  std::vector<Id> group;
  for (const StepOp &op : result.ops)
    group.push_back(op.source < 0 ? -1 : plan.group[op.source]);
  if (llvm::any_of(group, [](Id number) { return number >= 0; }))
    result = groupTransfers(result, group);
  for (auto [i, op] : llvm::enumerate(result.ops))
    op.source = i;
  return result;
}
