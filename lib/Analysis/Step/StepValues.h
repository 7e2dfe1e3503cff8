//===- StepValues.h - Where values lie, and what shares bytes ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_STEP_STEPVALUES_H
#define FSDP_LIB_ANALYSIS_STEP_STEPVALUES_H

#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Schedule/StepProgram.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/EquivalenceClasses.h"

namespace mlir::fsdp {

/// The values of a step in its IR, and the values and buffers that they are in
/// a StepProgram.
class StepValues {
public:
  /// @isPlaced: the IR says where values lie. Else each gets a place of its
  /// own, after the one before it.
  StepValues(ProgramOp step, const ProgramStates &states, bool isPlaced);

  /// Adds values, buffers and the states that the step does not use.
  void addTo(sched::StepProgram &program);

  int64_t getOffset(Value value) const;
  /// The value of the program; @value is whole: no view.
  sched::Id lookup(Value value) const { return ids.lookup(value); }
  sched::ByteRange getRange(Value value) const;
  /// Where values lie that have no places in the IR.
  const llvm::DenseMap<Value, int64_t> &getOffsets() const { return offsets; }

private:
  void addPlaces();
  void addValues(sched::StepProgram &program);
  void joinValues();
  void addBuffers(sched::StepProgram &program);
  void describe(Value value, sched::StepValue &place,
                sched::StepBuffer &buffer) const;
  void addIdleStates(sched::StepProgram &program);

  ProgramOp step;
  const ProgramStates &states;
  bool isPlaced;
  llvm::DenseMap<Value, int64_t> offsets;
  /// Values of the program, and those of the IR that they are.
  llvm::DenseMap<Value, sched::Id> ids;
  SmallVector<Value> order;
  /// Of values: the buffers.
  llvm::EquivalenceClasses<sched::Id> classes;
};

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_STEP_STEPVALUES_H
