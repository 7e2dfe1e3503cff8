//===- OpRoles.cpp - Which ops have a place in the order ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Classifies the ops of a step by what binds them: compute that is in order,
// casts that only feed gathers, updates that only reductions feed, and what
// follows those.
//
//===----------------------------------------------------------------------===//

#include "OpRoles.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;
using llvm::SmallVector;

Accesses::Accesses(const StepProgram &program)
    : maker(getMakers(program)), readers(program.values.size()) {
  for (auto [i, op] : llvm::enumerate(program.ops))
    for (const ByteRange &range : op.reads)
      readers[range.value].push_back(i);
}

namespace {
class RoleFinder {
public:
  RoleFinder(const StepProgram &program, const Accesses &accesses)
      : program(program), maker(accesses.maker), readers(accesses.readers) {}

  std::vector<OpRole> run();

private:
  bool isStart(Id op) const {
    return program.ops[op].kind == StepOpKind::Start;
  }
  Id getBuffer(Id value) const { return program.values[value].buffer; }
  bool isFetched(Id value) const {
    Id from = maker[value];
    return from >= 0 && isStart(from) && isFetch(program.ops[from].queue);
  }
  bool isCast(Id op) const;
  void assign();
  bool findEarly();

  const StepProgram &program;
  const std::vector<Id> &maker;
  const std::vector<SmallVector<Id, 2>> &readers;
  std::vector<OpRole> roles;
  /// By op: a reduction that the spine reads.
  std::vector<bool> isEarly;
};
} // namespace

bool RoleFinder::isCast(Id op) const {
  const StepOp &cast = program.ops[op];
  if (cast.reads.empty() || cast.writes.empty())
    return false;
  for (const ByteRange &range : cast.reads)
    if (maker[range.value] >= 0)
      return false;
  Id gather = -1;
  for (const ByteRange &range : cast.writes) {
    const StepBuffer &buffer = program.buffers[getBuffer(range.value)];
    if (buffer.isArgument || buffer.isResult)
      return false;
    for (Id reader : readers[range.value]) {
      if (!isStart(reader) || program.ops[reader].queue != Queue::AllGather ||
          (gather >= 0 && gather != reader))
        return false;
      gather = reader;
    }
  }
  return gather >= 0;
}

/// Whether the step fetches what an update reads from a state on the host.
static bool fetchesStates(const StepProgram &program) {
  return llvm::any_of(program.ops, [&](const StepOp &op) {
    return op.queue == Queue::H2D &&
           llvm::any_of(op.reads, [&](const ByteRange &range) {
             return program.values[range.value].isArgument;
           });
  });
}

/// Given which reductions are early.
void RoleFinder::assign() {
  // A fetch brings what an op of the spine reads, and what is copied to the
  // host is made by one: updates are in the spine where they need either.
  bool hasTails = !fetchesStates(program);
  roles.assign(program.ops.size(), OpRole::Spine);
  // By buffer: what tails and the epilogue read of it.
  std::vector<SmallVector<std::pair<OpRole, ByteRange>, 2>> readLate(
      program.buffers.size());
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    if (op.kind == StepOpKind::Wait)
      continue;
    OpRole role = OpRole::Spine;
    // Who writes over that comes after it.
    if (op.kind != StepOpKind::Start)
      for (const ByteRange &written : op.writes)
        for (auto &[reader, range] : readLate[getBuffer(written.value)])
          if (range.overlaps(written))
            role = std::max(role, reader);
    for (const ByteRange &range : op.reads) {
      Id from = maker[range.value];
      if (from < 0 || from >= Id(i))
        continue;
      OpRole source = roles[from];
      // What a tail made and is sent again ends the freedom of tails.
      if (source == OpRole::Tail && op.kind == StepOpKind::Start)
        source = OpRole::Epilogue;
      if (hasTails && isStart(from) && !isFetched(range.value) &&
          !isEarly[from] && source == OpRole::Spine &&
          op.kind != StepOpKind::Start)
        source = OpRole::Tail;
      // What only a cast made does not bind a gather to anything.
      if (source != OpRole::Cast)
        role = std::max(role, source);
    }
    if (role == OpRole::Spine && op.kind != StepOpKind::Start && isCast(i))
      role = OpRole::Cast;
    // The return makes the copies of the end, after all else.
    if (op.replaces >= 0)
      role = OpRole::Epilogue;
    roles[i] = role;
    if (role == OpRole::Tail || role == OpRole::Epilogue)
      for (const ByteRange &range : op.reads)
        readLate[getBuffer(range.value)].push_back({role, range});
  }
}

/// Tails run after the spine, but results of gathers and fetches are held for
/// segments of the spine alone. So a tail that reads one has to be a segment:
/// marks all reductions that it depends on, through other tails too, as early.
/// Returns whether one of them was not marked before.
bool RoleFinder::findEarly() {
  SmallVector<Id> work;
  for (auto [i, op] : llvm::enumerate(program.ops))
    if (roles[i] == OpRole::Tail &&
        llvm::any_of(op.reads, [&](const ByteRange &range) {
          return isFetched(range.value);
        }))
      work.push_back(i);
  std::vector<bool> seen(program.ops.size());
  bool isNew = false;
  while (!work.empty()) {
    Id op = work.pop_back_val();
    if (seen[op])
      continue;
    seen[op] = true;
    for (const ByteRange &range : program.ops[op].reads) {
      Id from = maker[range.value];
      if (from < 0 || isFetched(range.value))
        continue;
      if (roles[from] == OpRole::Tail) {
        work.push_back(from);
      } else if (isStart(from) && !isEarly[from]) {
        isEarly[from] = true;
        isNew = true;
      }
    }
  }
  return isNew;
}

/// Each round but the last finds a reduction more that is early.
std::vector<OpRole> RoleFinder::run() {
  isEarly.assign(program.ops.size(), false);
  do
    assign();
  while (findEarly());
  return std::move(roles);
}

std::vector<OpRole> mlir::fsdp::sched::getOpRoles(const StepProgram &program,
                                                  const Accesses &accesses) {
  return RoleFinder(program, accesses).run();
}

std::vector<bool>
mlir::fsdp::sched::findPrelude(const StepProgram &program,
                               const Accesses &accesses,
                               const std::vector<OpRole> &roles) {
  std::vector<bool> prelude(program.ops.size());
  using Ranges = SmallVector<ByteRange, 4>;
  std::vector<Ranges> touched(program.buffers.size()),
      written(program.buffers.size());
  auto isIn = [&](const std::vector<Ranges> &ranges, const ByteRange &range) {
    return llvm::any_of(
        ranges[program.values[range.value].buffer],
        [&](const ByteRange &other) { return other.overlaps(range); });
  };
  for (auto [i, op] : llvm::enumerate(program.ops)) {
    bool isReadLate = false;
    prelude[i] = op.kind != StepOpKind::Check && op.kind != StepOpKind::Start &&
                 op.kind != StepOpKind::Wait && roles[i] == OpRole::Spine;
    for (const ByteRange &range : op.reads)
      if (Id from = accesses.maker[range.value];
          (from >= 0 && !prelude[from]) || isIn(written, range))
        prelude[i] = false;
    for (const ByteRange &range : op.writes) {
      if (isIn(touched, range))
        prelude[i] = false;
      for (Id reader : accesses.readers[range.value]) {
        isReadLate |= roles[reader] > OpRole::Cast;
        if (roles[reader] == OpRole::Cast)
          prelude[i] = false;
      }
    }
    if (!isReadLate)
      prelude[i] = false;
    if (prelude[i])
      continue;
    for (const ByteRange &range :
         llvm::concat<const ByteRange>(op.reads, op.writes))
      touched[program.values[range.value].buffer].push_back(range);
    for (const ByteRange &range : op.writes)
      written[program.values[range.value].buffer].push_back(range);
  }
  return prelude;
}
