//===- OffloadParameters.cpp - Parameters in the host's memory ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostStates.h"
#include "fsdp/Analysis/Step/StepArguments.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_OFFLOADPARAMETERS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// The value that @program returns for the state @arg; null where it returns
/// none, or that which the state has.
static Value getNewValue(ProgramOp program, BlockArgument arg) {
  for (auto [result, replaced] : getReplacedArguments(program))
    if (Value value = program.getReturn().getOperand(result);
        replaced == arg && value != arg)
      return value;
  return {};
}

/// One copy for forward and one for backward and the update: what is between
/// them has no shard on the device. Only where the new value depends on both:
/// no order of the copies then writes over what one is to read.
static SmallVector<Readers> chooseCopies(ProgramOp program, BlockArgument arg,
                                         Readers all) {
  Operation *end = getForwardEnd(program);
  if (!end)
    return {std::move(all)};
  auto middle = llvm::partition_point(
      all, [&](Operation *reader) { return !end->isBeforeInBlock(reader); });
  Readers forward(all.begin(), middle), rest(middle, all.end());
  Value written = getNewValue(program, arg);
  auto isBefore = [&](const Readers &readers) {
    return !written || llvm::any_of(readers, [&](Operation *reader) {
      return dependsOn(written, reader);
    });
  };
  if (forward.empty() || rest.empty() || !isBefore(forward) || !isBefore(rest))
    return {std::move(all)};
  return {std::move(forward), std::move(rest)};
}

namespace {
struct OffloadParameters
    : fsdp::impl::OffloadParametersBase<OffloadParameters> {
  using OffloadParametersBase::OffloadParametersBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto states =
        llvm::filter_to_vector(module.getOps<StateOp>(), [&](StateOp state) {
          return state.getKind() == StateKind::parameter &&
                 isOffloaded(state, HostPart::parameters, all);
        });
    bool isChanged = false;
    if (failed(moveToHost(module, states, chooseCopies, isChanged)))
      return signalPassFailure();
    if (!isChanged)
      markAllAnalysesPreserved();
  }
};
} // namespace
