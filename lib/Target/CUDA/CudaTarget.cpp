//===- CudaTarget.cpp - Code of kernels for CUDA devices ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/CUDA/CudaTarget.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::fsdp;

/// A block computes what is too little to be worth a second launch, which takes
/// as long as some rounds of its threads.
KernelLimits CudaTarget::getKernelLimits() const {
  return {getCpuKernelLimits().minItems, /*smallWork=*/4096};
}

void CudaTarget::buildKernelPipeline(OpPassManager &pm) const {
  buildCudaKernelPipeline(pm);
}

void CudaTarget::describe(LowerOptions &options) const {
  options.cuda = kPtxProcessor.str();
}

llvm::Error CudaTarget::serializeKernels(ModuleOp module) const {
  auto ptx = createPtx(module);
  if (!ptx)
    return ptx.takeError();
  if (Operation *device = module.lookupSymbol(kCudaModule))
    device->erase();
  // Without launches nobody names it.
  auto global = module.lookupSymbol<LLVM::GlobalOp>(kPtxGlobal);
  if (!global)
    return llvm::Error::success();
  OpBuilder builder(global);
  ptx->push_back('\0');
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), ptx->size());
  LLVM::GlobalOp::create(builder, global.getLoc(), type, /*isConstant=*/true,
                         LLVM::Linkage::Internal, kPtxGlobal,
                         builder.getStringAttr(*ptx));
  global.erase();
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<Target>> fsdp::createCudaTarget(StringRef) {
  return std::make_unique<CudaTarget>();
}
