//===- KernelUtils.cpp - Kernels and their implementations ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelUtils.h"
#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::fsdp;

SmallVector<func::FuncOp> fsdp::getKernels(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::SetVector<func::FuncOp> kernels;
  module.walk([&](LaunchOp op) {
    auto kernel = symbols.lookup<func::FuncOp>(op.getKernel());
    if (kernel && !kernel.isExternal())
      kernels.insert(kernel);
  });
  return kernels.takeVector();
}

bool fsdp::hasImplementation(func::FuncOp kernel) {
  return kernel->hasAttr(names::kImpl) || kernel->hasAttr(names::kMatmul);
}

MemRefType fsdp::getScratchType(MLIRContext *context, int64_t bytes) {
  return MemRefType::get({std::max<int64_t>(bytes, 1)},
                         IntegerType::get(context, 8));
}

func::FuncOp fsdp::createImplementation(func::FuncOp kernel, OpBuilder &builder,
                                        ArrayRef<Type> types, int64_t grid,
                                        int64_t grain, int64_t scratch,
                                        int64_t traffic) {
  auto impl = func::FuncOp::create(builder, kernel.getLoc(),
                                   (kernel.getSymName() + "_cpu").str(),
                                   builder.getFunctionType(types, {}));
  impl.setPrivate();
  setImplementation(kernel, kCpuTarget,
                    CpuKernelAttr::get(kernel.getContext(),
                                       FlatSymbolRefAttr::get(impl), grid,
                                       grain, scratch, traffic));
  return impl;
}

Value fsdp::createGlobalConstant(ModuleOp module, OpBuilder &builder,
                                 Location loc, MemRefType type,
                                 DenseElementsAttr values) {
  unsigned count = 0;
  StringAttr name;
  for (auto global : module.getOps<memref::GlobalOp>()) {
    ++count;
    if (global.getType() == type && global.getInitialValueAttr() == values)
      name = global.getSymNameAttr();
  }
  if (!name) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    name = builder.getStringAttr("constant_" + Twine(count));
    memref::GlobalOp::create(builder, loc, name,
                             builder.getStringAttr("private"),
                             TypeAttr::get(type), values, builder.getUnitAttr(),
                             builder.getI64IntegerAttr(64));
  }
  return memref::GetGlobalOp::create(builder, loc, type, name.getValue());
}
