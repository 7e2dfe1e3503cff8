//===- VectorizeKernels.cpp - CPU code for loop kernels -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuKernels.h"
#include "KernelEmitter.h"
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

/// Memory of `type`, as one dimension; bools take a byte.
static MemRefType getFlatMemRef(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  Type element = tensor.getElementType();
  if (element.isInteger(1))
    element = IntegerType::get(type.getContext(), 8);
  return MemRefType::get({tensor.getNumElements()}, element);
}

/// The constants a kernel reads from memory, as globals of the module.
static void createConstants(func::FuncOp kernel, OpBuilder &builder,
                            IRMapping &memory) {
  auto module = kernel->getParentOfType<ModuleOp>();
  for (auto constant : kernel.getBody().front().getOps<arith::ConstantOp>()) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!dense || dense.isSplat())
      continue;
    MemRefType type = getFlatMemRef(constant.getType());
    auto flat = RankedTensorType::get(type.getShape(), type.getElementType());
    DenseElementsAttr values = dense;
    if (dense.getElementType().isInteger(1))
      values = dense.mapValues(type.getElementType(),
                               [](const APInt &v) { return v.zext(8); });
    values = values.reshape(flat);
    memory.map(
        constant.getResult(),
        createGlobalConstant(module, builder, constant.getLoc(), type, values));
  }
}

namespace {
struct VectorizeKernels : fsdp::impl::VectorizeKernelsBase<VectorizeKernels> {
  void runOnOperation() override {
    for (func::FuncOp kernel : getKernels(getOperation())) {
      if (hasCpuCode(kernel))
        continue;
      std::string why;
      std::optional<KernelLoops> loops = KernelLoops::create(kernel, why);
      if (!loops) {
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
    createConstants(kernel, builder, memory);
    Operation *ret = func::ReturnOp::create(builder, kernel.getLoc());
    builder.setInsertionPoint(ret);
    KernelEmitter(loops, builder, kernel.getLoc(), memory, body->getArgument(2))
        .emit(body->getArgument(0), body->getArgument(1));
  }
};
} // namespace
