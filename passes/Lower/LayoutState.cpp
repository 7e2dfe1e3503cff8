//===- LayoutState.cpp - Where states lie, for all programs ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Analysis/Step/GuardPlan.h"
#include "fsdp/Arena/ArenaPacking.h"
#include "fsdp/Passes/Passes.h"

#include "llvm/Support/MathExtras.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_LAYOUTSTATE
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
struct LayoutState : fsdp::impl::LayoutStateBase<LayoutState> {
  using LayoutStateBase::LayoutStateBase;

  void runOnOperation() override {
    SmallVector<StateOp> states;
    for (auto state : getOperation().getOps<StateOp>()) {
      if (!getTensor(state.getType()) || !isOfCountableBytes(state.getType())) {
        state.emitOpError("expected a local tensor of at most ")
            << kMostTensorBytes << " bytes, got " << state.getType();
        return signalPassFailure();
      }
      states.push_back(state);
    }
    if (states.empty() || failed(checkNames(states)) ||
        failed(checkUses(states)))
      return states.empty() ? markAllAnalysesPreserved() : signalPassFailure();

    // Large ones first; equal ones in the module's order.
    auto getBytes = [](StateOp state) {
      return getPlaceBytes(getTensorBytes(state.getType()));
    };
    auto order = llvm::to_vector(llvm::seq<unsigned>(0, states.size()));
    llvm::sort(order, [&](unsigned a, unsigned b) {
      return std::make_pair(-getBytes(states[a]), a) <
             std::make_pair(-getBytes(states[b]), b);
    });
    // On the device and on the host.
    int64_t ends[2] = {0, 0};
    for (unsigned i : order) {
      StateOp state = states[i];
      int64_t &offset = ends[isa<HostType>(state.getType())];
      state.setOffset(offset);
      int64_t bytes = getBytes(state) + (guard ? kGuardBorder : 0);
      if (llvm::AddOverflow(offset, bytes, offset)) {
        state.emitOpError("expected states of less than 2^63 bytes together");
        return signalPassFailure();
      }
    }
  }

private:
  /// layout_state_c2: what no program of the module reads or writes would take
  /// memory for nothing.
  LogicalResult checkUses(ArrayRef<StateOp> states) {
    auto programs = getOperation().getOps<ProgramOp>();
    if (programs.empty())
      return success();
    llvm::DenseSet<Attribute> used;
    for (ProgramOp program : programs) {
      for (unsigned i = 0, e = program.getNumArguments(); i != e; ++i)
        if (Attribute state = program.getArgAttr(i, names::kState))
          used.insert(state);
      for (unsigned i = 0, e = program.getNumResults(); i != e; ++i)
        if (Attribute state = program.getResultAttr(i, names::kState))
          used.insert(state);
    }
    for (StateOp state : states)
      if (!used.contains(FlatSymbolRefAttr::get(state)))
        return state.emitOpError("expected a program that reads or writes it, "
                                 "got none");
    return success();
  }

  /// layout_state_c1: what checkpoints know a state by is one state's.
  static LogicalResult checkNames(ArrayRef<StateOp> states) {
    llvm::DenseMap<std::tuple<int, Attribute, Attribute>, StateOp> known;
    for (StateOp state : states) {
      auto [it, isNew] = known.try_emplace({int(state.getKind()),
                                            state.getCheckpointNameAttr(),
                                            state.getFlatParamAttr()},
                                           state);
      if (isNew)
        continue;
      InFlightDiagnostic diag = state.emitOpError("expected one state of kind ")
                                << stringifyStateKind(state.getKind());
      if (state.getCheckpointNameAttr())
        diag << " named " << state.getCheckpointNameAttr();
      if (state.getFlatParamAttr())
        diag << " of " << state.getFlatParamAttr();
      diag << ", got a second";
      diag.attachNote(it->second.getLoc()) << "the first one is here";
      return diag;
    }
    return success();
  }
};
} // namespace
