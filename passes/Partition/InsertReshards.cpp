//===- InsertReshards.cpp - Free gathered parameters ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_INSERTRESHARDS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// The last op, before the terminator, that reads the gathered value or what is
/// computed from it alone.
static Operation *getLastReader(UnshardOp unshard) {
  Block *block = unshard->getBlock();
  Operation *last = unshard;
  DerivedValues derived(block, unshard.getResult());
  for (Value value : derived.getValues())
    for (Operation *reader : getReaders(value, block))
      if (!reader->hasTrait<OpTrait::IsTerminator>() &&
          last->isBeforeInBlock(reader))
        last = reader;
  return last;
}

namespace {
struct InsertReshards : fsdp::impl::InsertReshardsBase<InsertReshards> {
  void runOnOperation() override {
    ProgramOp program = getOperation();
    SmallVector<std::pair<UnshardOp, Operation *>> plan;
    for (auto unshard : program.getBody().front().getOps<UnshardOp>())
      if (llvm::none_of(unshard.getResult().getUsers(),
                        llvm::IsaPred<ReshardOp>))
        plan.push_back({unshard, getLastReader(unshard)});
    for (auto [unshard, last] : plan) {
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfter(last);
      ReshardOp::create(builder, last->getLoc(), unshard.getResult());
    }
  }
};
} // namespace
