//===- CudaKernels.cpp - Kernels' code for CUDA devices -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaKernels.h"

using namespace mlir;
using namespace mlir::fsdp;

gpu::GPUModuleOp fsdp::getCudaModule(ModuleOp module) {
  if (Operation *known = SymbolTable::lookupSymbolIn(module, kCudaModule)) {
    auto device = dyn_cast<gpu::GPUModuleOp>(known);
    if (!device)
      known->emitError("expected @") << kCudaModule
                                     << " to be a gpu.module, where code for "
                                        "CUDA devices goes, got "
                                     << known->getName();
    return device;
  }
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  return gpu::GPUModuleOp::create(builder, module.getLoc(), kCudaModule);
}

Attribute fsdp::getGlobalSpace(MLIRContext *context) {
  return gpu::AddressSpaceAttr::get(context, gpu::AddressSpace::Global);
}

Attribute fsdp::getSharedSpace(MLIRContext *context) {
  return gpu::AddressSpaceAttr::get(context, gpu::AddressSpace::Workgroup);
}

Value fsdp::createDynamicShared(OpBuilder &builder, Location loc) {
  return gpu::DynamicSharedMemoryOp::create(
      builder, loc,
      MemRefType::get({ShapedType::kDynamic}, builder.getI8Type(),
                      MemRefLayoutAttrInterface(),
                      getSharedSpace(builder.getContext())));
}

gpu::GPUFuncOp fsdp::createCudaFunction(gpu::GPUModuleOp device, Location loc,
                                        StringRef name,
                                        ArrayRef<Type> arguments, int64_t block,
                                        int64_t slots) {
  MLIRContext *context = device.getContext();
  OpBuilder builder = OpBuilder::atBlockEnd(device.getBody());
  SmallVector<Type> shared;
  if (slots != 0)
    shared.push_back(MemRefType::get({slots}, builder.getI64Type(),
                                     MemRefLayoutAttrInterface(),
                                     getSharedSpace(context)));
  auto function = gpu::GPUFuncOp::create(
      builder, loc, name, builder.getFunctionType(arguments, {}), shared);
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(),
                    builder.getUnitAttr());
  // ptxas gives a thread no more registers than so many threads have, and the
  // thread's number has a range.
  function.setKnownBlockSizeAttr(
      builder.getDenseI32ArrayAttr({int32_t(block), 1, 1}));
  builder.setInsertionPointToEnd(&function.getBody().front());
  gpu::ReturnOp::create(builder, loc);
  return function;
}

CudaKernelAttr fsdp::getCudaLaunch(gpu::GPUFuncOp function, int64_t grid,
                                   int64_t block, int64_t shared) {
  MLIRContext *context = function.getContext();
  auto name = SymbolRefAttr::get(
      context, kCudaModule, {FlatSymbolRefAttr::get(function.getNameAttr())});
  return CudaKernelAttr::get(context, name, grid, block, shared);
}
