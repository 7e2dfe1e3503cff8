//===- RulePlan.cpp - Decisions that need no cost model -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Planning/RulePlan.h"
#include "fsdp/Planning/Recomputation.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir::fsdp;
using namespace mlir::fsdp::sched;

//===----------------------------------------------------------------------===//
// Checkpoints
//===----------------------------------------------------------------------===//

/// By value: forward reads it outside of the checkpointed module whose launch
/// makes it.
static std::vector<bool> getHandedOut(const StepProgram &program) {
  std::vector<Id> maker = getMakers(program);
  std::vector<bool> isHandedOut(program.values.size());
  auto read = [&](const ByteRange &range, Id checkpoint) {
    if (Id from = maker[range.value];
        from >= 0 && program.ops[from].checkpoint != checkpoint)
      isHandedOut[range.value] = true;
  };
  for (const StepOp &op : program.ops)
    if (!op.backward)
      for (const ByteRange &range : op.reads)
        read(range, op.checkpoint);
  for (const ByteRange &range : program.results)
    read(range, -1);
  return isHandedOut;
}

StepPlan mlir::fsdp::sched::addCheckpoints(const StepProgram &program,
                                           StepPlan plan) {
  if (llvm::all_of(program.ops,
                   [](const StepOp &op) { return op.checkpoint < 0; }))
    return plan;
  PlanChoices choices = getPlanChoices(program);
  std::vector<bool> isHandedOut = getHandedOut(program);
  StepPlan asked = plan;
  for (auto [i, op] : llvm::enumerate(program.ops))
    if (op.checkpoint >= 0 && choices.canRecompute[i])
      for (const ByteRange &range : op.writes)
        if (!isHandedOut[range.value] && !plan.offload[range.value])
          asked.recompute[range.value] = true;
  std::vector<bool> isRead = getReadInBackward(program, asked);
  for (size_t v = 0; v != program.values.size(); ++v)
    if (asked.recompute[v] && isRead[v])
      plan.recompute[v] = true;
  return plan;
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

/// Times of launches in bytes moved. Only what they are to each other counts,
/// and that only for where stretches of forward end.
static TimedProgram timeByWork(const StepProgram &program) {
  // About what a device computes while it moves a byte.
  constexpr int64_t kFlopsOfAByte = 64;
  TimedProgram times;
  for (const StepOp &op : program.ops) {
    TimedOp &timed = times.ops.emplace_back();
    timed.work = op.copiedBytes;
    if (op.kernel < 0)
      continue;
    const KernelCost &kernel = program.kernels[op.kernel];
    timed.work += std::max<Time>(
        kernel.bytes,
        std::accumulate(kernel.flops.begin(), kernel.flops.end(), int64_t(0)) /
            kFlopsOfAByte);
  }
  return times;
}

StepPlan mlir::fsdp::sched::planByRules(const StepProgram &program,
                                        const PlanRules &rules,
                                        StepPlan given) {
  PlanChoices choices = getPlanChoices(program);
  StepPlan plan = addCheckpoints(program, std::move(given));
  if (rules.keep == PlanRules::Keep::Always)
    for (size_t i = 0; i != program.ops.size(); ++i)
      if (choices.earlierGather[i] >= 0 && plan.group[i] < 0)
        plan.keep[i] = true;
  if (rules.recompute != PlanRules::Recompute::Full)
    return plan;
  // More for a byte than any launch takes.
  constexpr double kAnything = 1e6;
  TimedProgram times = timeByWork(program);
  Recomputation::Choice choice =
      Recomputation(program, times, choices).choose({kAnything});
  for (size_t v = 0; v != program.values.size(); ++v)
    if (choice.recompute[v] && !plan.offload[v])
      plan.recompute[v] = true;
  return plan;
}
