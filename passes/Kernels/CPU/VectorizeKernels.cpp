//===- VectorizeKernels.cpp - CPU code for loop kernels -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuKernels.h"
#include "KernelEmitter.h"
#include "Kernels/Common/KernelMemory.h"
#include "Kernels/Common/KernelUtils.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Remarks.h"

namespace mlir::fsdp {
#define GEN_PASS_DEF_VECTORIZEKERNELS
#include "fsdp/Passes/Passes.h.inc"
} // namespace mlir::fsdp

using namespace mlir;
using namespace mlir::fsdp;

/// A thread is worth waking for this many element operations.
constexpr int64_t kGrainCost = 16384;

namespace {
struct VectorizeKernels : fsdp::impl::VectorizeKernelsBase<VectorizeKernels> {
  void runOnOperation() override {
    for (func::FuncOp kernel : getKernels(getOperation())) {
      if (hasCodeFor(kernel, kCpuTarget))
        continue;
      std::string why;
      std::optional<KernelLoops> loops = KernelLoops::create(kernel, why);
      if (loops && !loops->getColumnSums().empty())
        why = "it sums columns beside rows";
      if (!why.empty()) {
        remark::missed(kernel.getLoc(), remark::RemarkOpts::name("Vectorized")
                                            .category("fsdp-vectorize-kernels")
                                            .function(kernel.getSymName()))
            << remark::reason("{0}", why);
        continue;
      }
      vectorize(kernel, *loops);
    }
  }

private:
  void vectorize(func::FuncOp kernel, const KernelLoops &loops) {
    MLIRContext *context = &getContext();
    // Sizes are known before any code is emitted.
    OpBuilder builder(kernel);
    builder.setInsertionPointAfter(kernel);
    KernelEmitter sizes(loops, builder, kernel.getLoc(), {}, {});
    int64_t scratch = sizes.getScratchBytes(), grid = sizes.getItemCount();
    int64_t grain = std::max<int64_t>(
        1, kGrainCost / std::max<int64_t>(1, sizes.getItemCost()));

    SmallVector<Type> types{builder.getIndexType(), builder.getIndexType(),
                            getScratchType(context, scratch)};
    for (Type type : kernel.getArgumentTypes())
      types.push_back(getFlatMemRef(type));
    auto impl = createCpuKernel(kernel, builder, types, grid, grain, scratch,
                                loops.getTrafficBytes());
    Block *body = impl.addEntryBlock();
    builder.setInsertionPointToStart(body);
    IRMapping memory;
    for (auto [arg, buffer] :
         llvm::zip(kernel.getArguments(), body->getArguments().drop_front(3)))
      memory.map(arg, buffer);
    createConstants(kernel, kernel->getParentOfType<ModuleOp>(), builder,
                    memory);
    Operation *ret = func::ReturnOp::create(builder, kernel.getLoc());
    builder.setInsertionPoint(ret);
    KernelEmitter(loops, builder, kernel.getLoc(), memory, body->getArgument(2))
        .emit(body->getArgument(0), body->getArgument(1));
  }
};
} // namespace
