//===- GuardPlan.h - What a guarded step checks -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A guarded step fills memory that is dead, and looks at it again before it is
// used. When which memory is dead is read from the step as it will run, with
// its places, not taken from what placed it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_GUARDPLAN_H
#define FSDP_ANALYSIS_STEP_GUARDPLAN_H

#include "fsdp/Analysis/Step/StepExtraction.h"

#include "llvm/ADT/DenseMap.h"

#include <string>

namespace mlir::fsdp {

/// Bytes behind each buffer of a guarded step that belong to nobody.
constexpr int64_t kGuardBorder = 256;

/// In the order of fsdp_rt_guard_action.
enum class GuardAction { Fill, Begin, End, Keep };

/// An action on a buffer and on what lies behind it.
struct GuardedBuffer {
  GuardAction action;
  /// For the reader: "result 0 of k4 (op 17)".
  std::string name;
  int64_t offset = 0, bytes = 0, border = 0;
  /// In the host's arena.
  bool isHost = false;
};

struct GuardPlan {
  using Buffers = SmallVector<GuardedBuffer, 2>;
  /// Before the first op and behind the last.
  Buffers atEntry, atExit;
  /// By op of the step. What is before fsdp.start belongs around its transfer,
  /// on the queue: lives that begin or end with it.
  llvm::DenseMap<Operation *, Buffers> before, behind;
  /// "k4 (op 17)", of each op in the two.
  llvm::DenseMap<Operation *, std::string> names;
};

/// Plans the guards of the module's @step, which fsdp-plan-arena has placed
/// with borders. @program and @origins are what extractStepProgram makes of it.
GuardPlan planGuards(ProgramOp step, const sched::StepProgram &program,
                     ArrayRef<Operation *> origins);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_GUARDPLAN_H
