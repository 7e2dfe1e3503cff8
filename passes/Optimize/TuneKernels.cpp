//===- TuneKernels.cpp - Shapes of kernels by a table ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Cost/TuningTable.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_TUNEKERNELS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

static std::optional<CostDtype> getDtype(Type type) {
  if (type.isBF16())
    return CostDtype::BF16;
  if (type.isF16())
    return CostDtype::F16;
  return std::nullopt;
}

/// What the table has for an attention's functions, of `directions`.
template <typename Attention>
static void addTiles(Attention attention, const TuningTable &table,
                     ArrayRef<unsigned> directions, NamedAttrList &tuning) {
  auto dtype = getDtype(attention.getQ().getType().getElementType());
  if (!dtype)
    return;
  Builder builder(attention.getContext());
  for (unsigned direction : directions)
    if (const TuningTable::Attention *row =
            table.find(attention.getShape().getHead(), *dtype, direction))
      tuning.set(
          kAttentionDirections[direction],
          builder.getDenseI64ArrayAttr({row->rows, row->columns, row->stages}));
}

static DictionaryAttr findTuning(func::FuncOp kernel,
                                 const TuningTable &table) {
  Builder builder(kernel.getContext());
  NamedAttrList tuning;
  bool reduces = false;
  kernel.walk([&](Operation *op) {
    if (auto forward = dyn_cast<AttentionOp>(op))
      addTiles(forward, table, {0}, tuning);
    else if (auto backward = dyn_cast<AttentionBackwardOp>(op))
      addTiles(backward, table, {1, 2}, tuning);
    else if (auto generic = dyn_cast<linalg::GenericOp>(op))
      reduces |= generic.getNumReductionLoops() != 0;
  });
  if (reduces && table.rowThreads)
    tuning.set("rows", builder.getI64IntegerAttr(*table.rowThreads));
  if (reduces && table.columnThreads)
    tuning.set("columns", builder.getI64IntegerAttr(*table.columnThreads));
  return tuning.getDictionary(kernel.getContext());
}

namespace {
struct TuneKernels : fsdp::impl::TuneKernelsBase<TuneKernels> {
  using TuneKernelsBase::TuneKernelsBase;

  void runOnOperation() override {
    llvm::Expected<TuningTable> found = TuningTable::load(table);
    if (!found) {
      emitInputError(getOperation(), llvm::toString(found.takeError()));
      return signalPassFailure();
    }
    for (auto kernel : getOperation().getOps<func::FuncOp>())
      if (DictionaryAttr tuning = findTuning(kernel, *found); !tuning.empty())
        kernel->setAttr(names::kTuning, tuning);
    Builder builder(&getContext());
    getOperation()->setAttr(
        names::kTunedFor,
        builder.getDictionaryAttr(
            {builder.getNamedAttr("capability",
                                  builder.getStringAttr(found->capability)),
             builder.getNamedAttr("device",
                                  builder.getStringAttr(found->device)),
             builder.getNamedAttr("digest",
                                  builder.getStringAttr(found->digest))}));
  }
};
} // namespace
