//===- VerifyLifetimes.cpp - Nothing outlives its reshard -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/StepStructure.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_VERIFYLIFETIMES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// No reader of what is computed from the gathered value alone stands behind
/// `reshard`. A result of the step outlives it in any case, in memory of its
/// own: the terminator is no reader.
static LogicalResult verifyReaders(ReshardOp reshard, UnshardOp unshard) {
  Block *block = reshard->getBlock();
  DerivedValues derived(block, unshard.getResult());
  for (Value value : derived.getValues())
    for (Operation *reader : getReaders(value, block)) {
      // lifetimes_c1. The step's own results (a loss that reads no input) may
      // be returned.
      if (reader->hasTrait<OpTrait::IsTerminator>() ||
          !reshard->isBeforeInBlock(reader))
        continue;
      InFlightDiagnostic diag =
          reader->emitOpError("expected to read nothing that is computed from "
                              "the parameters of ")
          << unshard.getResult().getType().getFlatParam()
          << " alone, behind their reshard";
      diag.attachNote(reshard.getLoc()) << "they are resharded here";
      if (Operation *producer = value.getDefiningOp())
        diag.attachNote(producer->getLoc()) << "the value is computed here";
      return diag;
    }
  return success();
}

namespace {
struct VerifyLifetimes : fsdp::impl::VerifyLifetimesBase<VerifyLifetimes> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(verifyBlock(getOperation().getBody().front())))
      signalPassFailure();
  }

private:
  /// @kept: the unshards before @unshard of flat parameters with `keep`.
  LogicalResult verifyKept(UnshardOp unshard,
                           llvm::DenseMap<Attribute, UnshardOp> &kept) {
    FlatSymbolRefAttr name = unshard.getResult().getType().getFlatParam();
    auto flat =
        SymbolTable::lookupNearestSymbolFrom<FlatParamOp>(unshard, name);
    if (!flat || !flat.getKeep())
      return success();
    auto [first, isNew] = kept.try_emplace(name, unshard);
    // lifetimes_c3
    if (isNew)
      return success();
    InFlightDiagnostic diag = unshard.emitOpError("expected one unshard of ")
                              << name
                              << ", which is kept gathered (keep), got another";
    diag.attachNote(first->second.getLoc()) << "the first is here";
    diag.attachNote(flat.getLoc()) << "the flat parameter is here";
    return diag;
  }

  /// @secondary: the secondary shards that were gathered before @gather.
  LogicalResult
  verifySecondary(GatherSecondaryOp gather,
                  llvm::DenseMap<Attribute, GatherSecondaryOp> &secondary) {
    FlatSymbolRefAttr name = gather.getType().getFlatParam();
    auto [first, isNew] = secondary.try_emplace(name, gather);
    // lifetimes_c4
    if (isNew)
      return success();
    InFlightDiagnostic diag =
        gather.emitOpError("expected one secondary shard of ")
        << name << ", which forward and backward gather the whole of, got "
        << "another";
    diag.attachNote(first->second.getLoc()) << "the first is here";
    return diag;
  }

  LogicalResult verifyBlock(Block &block) {
    // Gathers that have begun and not ended, by flat parameter; those of flat
    // parameters that are gathered once.
    llvm::DenseMap<Attribute, UnshardOp> open, kept;
    llvm::DenseMap<Attribute, GatherSecondaryOp> secondary;
    for (Operation &op : block) {
      if (auto gather = dyn_cast<GatherSecondaryOp>(op))
        if (failed(verifySecondary(gather, secondary)))
          return failure();
      if (auto unshard = dyn_cast<UnshardOp>(op)) {
        Attribute flat = unshard.getResult().getType().getFlatParam();
        auto [it, fresh] = open.try_emplace(flat, unshard);
        // lifetimes_c2
        if (fresh) {
          if (failed(verifyKept(unshard, kept)))
            return failure();
          continue;
        }
        InFlightDiagnostic diag =
            op.emitOpError("expected ")
            << flat << " to be resharded before it is gathered again";
        diag.attachNote(it->second.getLoc()) << "it was gathered here";
        return diag;
      }
      auto reshard = dyn_cast<ReshardOp>(op);
      if (!reshard)
        continue;
      auto unshard = reshard.getUnsharded().getDefiningOp<UnshardOp>();
      open.erase(reshard.getUnsharded().getType().getFlatParam());
      if (failed(verifyReaders(reshard, unshard)))
        return failure();
    }
    return success();
  }
};
} // namespace
