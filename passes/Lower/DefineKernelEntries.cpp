//===- DefineKernelEntries.cpp - What the runtime calls -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Passes/Passes.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_DEFINEKERNELENTRIES
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// entry(operands, scratch, begin, end) { impl(begin, end, scratch,
/// operands[0], operands[1], ...); }
static void defineEntry(LLVM::LLVMFuncOp entry, LLVM::LLVMFuncOp impl) {
  OpBuilder builder(entry.getContext());
  Location loc = entry.getLoc();
  Block *block = entry.addEntryBlock(builder);
  builder.setInsertionPointToStart(block);
  auto pointer = LLVM::LLVMPointerType::get(entry.getContext());
  SmallVector<Value> args{block->getArgument(2), block->getArgument(3),
                          block->getArgument(1)};
  for (unsigned i = 0, e = impl.getNumArguments() - 3; i != e; ++i) {
    Value slot = LLVM::GEPOp::create(builder, loc, pointer, pointer,
                                     block->getArgument(0),
                                     ArrayRef<LLVM::GEPArg>{int32_t(i)});
    args.push_back(LLVM::LoadOp::create(builder, loc, pointer, slot));
  }
  LLVM::CallOp::create(builder, loc, impl, args);
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

namespace {
struct DefineKernelEntries
    : fsdp::impl::DefineKernelEntriesBase<DefineKernelEntries> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (auto entry : getOperation().getOps<LLVM::LLVMFuncOp>()) {
      auto name = entry->getAttrOfType<FlatSymbolRefAttr>(names::kImpl);
      if (!name)
        continue;
      auto impl = symbols.lookup<LLVM::LLVMFuncOp>(name.getValue());
      if (!impl) {
        entry.emitError("expected ")
            << name << " to have become an LLVM function";
        return signalPassFailure();
      }
      defineEntry(entry, impl);
      entry.setLinkage(LLVM::Linkage::Internal);
      impl.setLinkage(LLVM::Linkage::Internal);
      entry->removeAttr(names::kImpl);
    }
  }
};
} // namespace
