//===- CpuKernels.cpp - Code of kernels for processors --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuKernels.h"

#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::fsdp;

MemRefType fsdp::getScratchType(MLIRContext *context, int64_t bytes) {
  return MemRefType::get({std::max<int64_t>(bytes, 1)},
                         IntegerType::get(context, 8));
}

func::FuncOp fsdp::createCpuKernel(func::FuncOp kernel, OpBuilder &builder,
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
