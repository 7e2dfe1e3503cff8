//===- CountFlops.cpp - Arithmetic of products and attention --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/ProgramFlops.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_COUNTFLOPS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

namespace {
struct CountFlops : fsdp::impl::CountFlopsBase<CountFlops> {
  using CountFlopsBase::CountFlopsBase;

  void runOnOperation() override {
    ProgramOp program = getOperation();
    if (std::optional<ModelFlops> flops = countFlops(program))
      program.setFlopsAttr(getFlopsAttr(&getContext(), *flops));
    else
      program.removeFlopsAttr();
  }
};
} // namespace
