//===- StepProgram.h - A scheduled step without its IR ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What one rank issues in one step, flat: ops in issue order with their queue,
// events, and the memory they touch. Its rules:
//
//   - Each queue runs its ops one after the other, in this order.
//   - A start begins when its queue is free, all compute ops before it are
//     done, and the events in `after` have come.
//   - A wait, on compute, ends when its event has come.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_STEPPROGRAM_H
#define FSDP_SCHEDULE_STEPPROGRAM_H

#include "fsdp/Schedule/ArenaPurpose.h"
#include "fsdp/Schedule/ScheduleProblem.h"

#include <string>
#include <vector>

namespace mlir::fsdp::sched {

enum class StepOpKind { Launch, Copy, Check, Start, Wait };

/// Ranks that communicate: @size of them, each @stride from the next.
struct RankGroup {
  int64_t size = 1, stride = 1;
  bool operator==(const RankGroup &o) const {
    return size == o.size && stride == o.stride;
  }
};

/// Part of a value: bytes from @offset of the arena on.
struct ByteRange {
  Id value = -1;
  int64_t offset = 0, bytes = 0;
  int64_t end() const { return offset + bytes; }
  bool overlaps(const ByteRange &o) const {
    return offset < o.end() && o.offset < end();
  }
};

/// What a start sends, before anybody knows where its ranks stand.
struct StepTransfer {
  TransferKind kind = TransferKind::AllGather;
  /// As in TransferKey: the whole buffer of each collective.
  llvm::SmallVector<int64_t, 1> atomBytes;
  /// -1: a copy between device and host.
  Id group = -1;
  /// Of each collective: its element type, in MLIR's words, and what a sum is
  /// divided by (1 where nothing is added up). Empty: nobody has said.
  llvm::SmallVector<std::string, 1> dtypes = {};
  llvm::SmallVector<int64_t, 1> divisors = {};
  /// For the reader. As atomBytes: place in StepProgram::units, or -1.
  llvm::SmallVector<Id, 1> atomUnits = {};
  /// Of sums: whether the runtime adds up in a fixed tree, not NCCL.
  bool isExactSum = false;

  int64_t getBytes() const;

  bool isCopy() const { return !isCollective(kind); }
};

struct StepOp {
  StepOpKind kind = StepOpKind::Launch;
  Queue queue = Queue::Compute;
  /// Start: its own event. Wait: the one it waits for.
  Id event = -1;
  /// Start: events that it comes after.
  llvm::SmallVector<Id, 2> after;
  llvm::SmallVector<ByteRange, 4> reads;
  /// A start's result is written until its event.
  llvm::SmallVector<ByteRange, 2> writes;
  /// Places in reads and in writes of what may be one range: an operand that a
  /// result goes over, what an all_reduce reduces.
  llvm::SmallVector<std::pair<Id, Id>, 1> inPlace;
  /// Copy: the byte of the arena at which each of its reads comes to stand.
  llvm::SmallVector<int64_t, 0> places;
  /// Launch: place in StepProgram::kernels.
  Id kernel = -1;
  /// Bytes that are copied or zeroed beside it: parts of a pack that could not
  /// be computed in place, tied operands that must be kept.
  int64_t copiedBytes = 0;
  /// Launch: the first bytes of StepProgram::workspace that it may write while
  /// it runs.
  int64_t workspaceBytes = 0;
  /// Start: place in StepProgram::transfers.
  Id transfer = -1;
  /// Copy of a new state to where the old one lies, at the end of a step: place
  /// in StepProgram::replaced. Else -1.
  Id replaces = -1;
  /// Which op it is, whatever its place: of a start and of what computes, its
  /// place before anything was reordered.
  Id source = -1;
  // For the reader.
  std::string name;
  /// Place in StepProgram::units, or -1.
  Id unit = -1;
  /// Launch: the module of the model that it works for; start of no unit: what
  /// it adds up. Place in StepProgram::modules, or -1.
  Id module = -1;
  bool backward = false;
  /// Launch of forward: the checkpointed module that it is part of, a place in
  /// StepProgram::checkpoints, or -1; and whether its results are kept all the
  /// same.
  Id checkpoint = -1;
  bool isSaved = false;
  /// Start: why it does not stand earlier; Data where nothing but what it sends
  /// held it.
  Cause heldBy = Cause::Data;
};

/// Memory that is free outside of its life.
struct StepBuffer {
  int64_t offset = 0, bytes = 0;
  Purpose purpose = Purpose::Activations;
  /// There before the step, or needed behind it.
  bool isArgument = false, isResult = false;
  /// In the host's memory: its offset is one of the host arena, and only copies
  /// touch it.
  bool isHost = false;
  /// Of a state: its place in the arena, which it has in all programs of the
  /// artifact. -1: no state, or one that has no place yet.
  int64_t stateOffset = -1;
};

struct StepValue {
  Id buffer = -1;
  int64_t offset = 0, bytes = 0;
  /// There before the step.
  bool isArgument = false;
  /// Of a pack: the parts of other values that were computed in their place
  /// inside of it, by offset and apart. Their bytes stay those values.
  llvm::SmallVector<ByteRange, 0> parts = {};
};

/// What a step returns for the next one to find in an argument's place.
struct ReplacedArgument {
  /// Place in StepProgram::results, and the argument's value.
  Id result = -1, argument = -1;
  /// What it is before a copy brings it there, where it lies elsewhere.
  ByteRange value = {};
};

struct StepProgram {
  std::vector<StepOp> ops;
  std::vector<KernelCost> kernels;
  /// A digest of the code of all kernels. Empty where nobody asked for it.
  std::string kernelCode;
  std::vector<StepTransfer> transfers;
  std::vector<RankGroup> groups;
  std::vector<StepBuffer> buffers;
  /// States that other programs of the artifact use and this one does not: they
  /// take their bytes all the same.
  std::vector<StepBuffer> idleStates;
  std::vector<StepValue> values;
  /// What must be in its place behind the last op.
  std::vector<ByteRange> results;
  std::vector<ReplacedArgument> replaced;
  std::vector<std::string> units;
  /// As units: the parameters of each, by name. Empty where nobody knows.
  std::vector<std::vector<std::string>> unitMembers;
  /// Names of modules of the model, "loss", "loss count" and "gradient norm".
  std::vector<std::string> modules;
  /// Names of checkpointed modules: what backward computes again.
  std::vector<std::string> checkpoints;
  int64_t worldSize = 1;
  /// Whether this is the program of kind train.
  bool isStep = true;
  /// Whether kernels have code for CUDA devices, which run it as a graph.
  bool isGraph = false;
  /// 0 where nobody has placed the buffers for this order. Then offsets are
  /// those of another order: they still say which ranges of one buffer overlap.
  int64_t arenaBytes = 0;
  /// The same for the arena of the host.
  int64_t hostBytes = 0;
  /// Where no value lies: what launches may use, one after another. It takes
  /// its bytes all the time.
  StepBuffer workspace = {0, 0, Purpose::Workspace};
};

/// Bytes of the states in the host's memory, those that @program does not use
/// included.
int64_t getHostStateBytes(const StepProgram &program);

/// What StepProgram::workspace must hold: the most that an op uses.
int64_t getWorkspaceBytes(const StepProgram &program);

/// Makes @op the copy of a new state to the place of the old one, which is
/// @program.replaced[@i]. Returns what it writes: what the step returns
/// instead.
ByteRange makeKeep(StepProgram &program, Id i, StepOp &op);

/// All but the ops of @program, for other ones: its buffers are not placed.
StepProgram copyWithoutOps(const StepProgram &program);

/// By value the first op that writes it; -1 where none does: an argument.
std::vector<Id> getMakers(const StepProgram &program);

/// The start and the wait of each event; -1 where there is none.
struct EventOps {
  std::vector<Id> start, wait;
};
EventOps getEventOps(const StepProgram &program);

/// The first rule that @program breaks, or an empty string: places in range,
/// each event started once and waited once behind its start, `after` only of
/// earlier starts, ranges inside of their buffers.
std::string checkProgram(const StepProgram &program);

/// @changed has the ops of @original (by their `source`) in another order, with
/// other waits and events. Two ops that touch the same bytes of a buffer, one
/// of them writing, must be ordered as they were. Returns the first pair that
/// is not, or an empty string.
std::string findBrokenDependency(const StepProgram &original,
                                 const StepProgram &changed);

} // namespace mlir::fsdp::sched

#endif // FSDP_SCHEDULE_STEPPROGRAM_H
