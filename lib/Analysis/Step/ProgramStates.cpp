//===- ProgramStates.cpp - The states that a program uses -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/ProgramStates.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Arena/ArenaPacking.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

ProgramStates::ProgramStates(ProgramOp program) {
  llvm::DenseMap<StringAttr, StateOp> states;
  for (auto state : program->getParentOfType<ModuleOp>().getOps<StateOp>())
    states[state.getSymNameAttr()] = state;
  auto lookup = [&](FlatSymbolRefAttr name) {
    return name ? states.lookup(name.getAttr()) : StateOp();
  };
  for (unsigned i = 0, e = program.getNumArguments(); i != e; ++i)
    read.push_back(lookup(program.getReadState(i)));
  for (unsigned i = 0, e = program.getNumResults(); i != e; ++i)
    written.push_back(lookup(program.getWrittenState(i)));
}

FlatSymbolRefAttr ProgramStates::getShard(unsigned argument) const {
  StateOp state = read[argument];
  return state && state.getKind() == StateKind::parameter
             ? state.getFlatParamAttr()
             : FlatSymbolRefAttr();
}

FlatSymbolRefAttr ProgramStates::getParameter(unsigned argument) const {
  StateOp state = read[argument];
  return state && state.getKind() == StateKind::gathered
             ? state.getFlatParamAttr()
             : getShard(argument);
}

LogicalResult fsdp::checkStateLayout(ModuleOp module, int64_t alignment,
                                     int64_t border) {
  SmallVector<StateOp> states;
  for (auto state : module.getOps<StateOp>()) {
    if (!getTensor(state.getType()) || !isOfCountableBytes(state.getType()))
      return state.emitOpError("expected a local tensor of at most ")
             << kMostTensorBytes << " bytes, got " << state.getType();
    if (!state.getOffset())
      return state.emitOpError(
          "expected a place, got none (run fsdp-layout-state first)");
    states.push_back(state);
  }
  llvm::sort(states, [](StateOp a, StateOp b) {
    return *a.getOffset() < *b.getOffset();
  });
  // On the device and on the host.
  int64_t ends[2] = {0, 0};
  for (StateOp state : states) {
    int64_t &end = ends[isa<HostType>(state.getType())];
    int64_t offset = *state.getOffset();
    if (offset < end || offset % alignment) {
      InFlightDiagnostic diag = state.emitOpError("expected its place at ");
      if (alignment > 1)
        diag << "a multiple of " << alignment << " from " << end << " on";
      else
        diag << end << " or after it";
      diag << ", got " << offset;
      if (border)
        diag << " (run fsdp-layout-state=guard=true first)";
      return diag;
    }
    int64_t bytes =
        llvm::alignTo(getTensorBytes(state.getType()), alignment) + border;
    if (llvm::AddOverflow(offset, bytes, end))
      return state.emitOpError("expected its end below byte 2^63, got it at ")
             << offset;
  }
  return success();
}

int64_t fsdp::getHostStateBytes(ModuleOp module, int64_t border) {
  int64_t end = 0;
  for (auto state : module.getOps<StateOp>())
    if (isa<HostType>(state.getType()))
      end = std::max(end, int64_t(*state.getOffset()) +
                              getPlaceBytes(getTensorBytes(state.getType())) +
                              border);
  return end;
}

Purpose fsdp::getPurpose(StateKind kind) {
  switch (kind) {
  case StateKind::gathered:
    return Purpose::Gathered;
  case StateKind::parameter:
    return Purpose::Parameters;
  case StateKind::optimizer:
    return Purpose::Optimizer;
  case StateKind::accumulator:
  case StateKind::residual:
    return Purpose::Gradients;
  case StateKind::buffer:
    return Purpose::Other;
  }
  llvm_unreachable("unknown kind");
}
