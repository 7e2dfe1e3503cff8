//===- KernelImplementations.cpp - Kernels' code in descriptors -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelImplementations.h"
#include "fsdp-rt/cpu-attention.h"
#include "fsdp/Analysis/Contract/InputContract.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

FailureOr<FlatSymbolRefAttr>
KernelImplementations::create(func::FuncOp kernel, AttentionShapeAttr shape) {
  if (FlatSymbolRefAttr made = known.lookup(kernel))
    return made;
  SmallVector<FlatSymbolRefAttr> all;
  for (StringRef target : targets) {
    FailureOr<FlatSymbolRefAttr> code = createFor(target, kernel, shape);
    if (failed(code))
      return failure();
    all.push_back(*code);
  }
  return known[kernel] = descriptors.createPointerArray(all);
}

FailureOr<FlatSymbolRefAttr>
KernelImplementations::createFor(StringRef target, func::FuncOp kernel,
                                 AttentionShapeAttr shape) {
  if (target == kCpuTarget)
    if (CpuKernelAttr code = getCpuKernel(kernel))
      return createCpu(kernel, code, shape);
  if (target == kCudaTarget)
    if (CudaCodeAttr code = getCudaCode(kernel))
      return createCuda(code);
  auto diagnostic = kernel.emitError("expected a kernel with code for ")
                    << target << ", got @" << kernel.getSymName();
  SmallVector<StringRef> others;
  if (auto code = kernel->getAttrOfType<DictionaryAttr>(names::kImpl))
    for (NamedAttribute entry : code)
      others.push_back(entry.getName().getValue());
  if (others.empty())
    return diagnostic << " without any in fsdp.impl";
  return diagnostic << " with code for " << llvm::join(others, ", ")
                    << " alone: choose the target that has code, as --target "
                    << llvm::join(others, ",");
}

//===----------------------------------------------------------------------===//
// cpu
//===----------------------------------------------------------------------===//

/// `<kernel>_entry`, declared; fsdp-define-kernel-entries gives it a body.
FlatSymbolRefAttr KernelImplementations::getEntry(func::FuncOp kernel,
                                                  CpuKernelAttr code) {
  FlatSymbolRefAttr &entry = entries[kernel];
  if (entry)
    return entry;
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64 = builder.getI64Type();
  auto function = LLVM::LLVMFuncOp::create(
      builder, kernel.getLoc(), (kernel.getSymName() + "_entry").str(),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                  {pointer, pointer, i64, i64}));
  function->setAttr(names::kImpl, code.getFunction());
  return entry = FlatSymbolRefAttr::get(function);
}

FlatSymbolRefAttr KernelImplementations::createCpu(func::FuncOp kernel,
                                                   CpuKernelAttr code,
                                                   AttentionShapeAttr shape) {
  using namespace ::fsdp::rt;
  if (shape) {
    Descriptor descriptor("cpu_attention");
    descriptor.set("tile", getEntry(kernel, code));
    descriptor.set("tile_queries",
                   getQueryTile(shape.getQueries(), shape.getBatchSize()));
    descriptor.set("tile_keys", getTileSize(shape.getKeys(), kMaxTileKeys));
    descriptor.set("scratch_bytes", code.getScratch());
    return descriptors.createDescriptor(descriptor);
  }
  Descriptor descriptor("cpu_kernel");
  descriptor.set("function", getEntry(kernel, code));
  descriptor.set("grid", code.getGrid());
  descriptor.set("grain", code.getGrain());
  descriptor.set("scratch_bytes", code.getScratch());
  return descriptors.createDescriptor(descriptor);
}

//===----------------------------------------------------------------------===//
// cuda
//===----------------------------------------------------------------------===//

FlatSymbolRefAttr KernelImplementations::getImage() {
  if (image)
    return image;
  OpBuilder builder(module.getBodyRegion());
  auto declare = [&](StringRef name) {
    auto unknown = LLVM::LLVMArrayType::get(builder.getI8Type(), 0);
    LLVM::GlobalOp::create(builder, module.getLoc(), unknown,
                           /*isConstant=*/true, LLVM::Linkage::External, name,
                           Attribute());
    return FlatSymbolRefAttr::get(builder.getContext(), name);
  };
  Descriptor descriptor("cuda_image");
  descriptor.set("ptx", declare(kPtxGlobal));
  descriptor.set("capability", kPtxCapability);
  descriptor.set("cubin", declare(kCubinGlobal));
  descriptor.set("cubin_capability", kCubinCapability);
  descriptor.set("grid_waits", 1);
  return image = descriptors.createDescriptor(descriptor);
}

FlatSymbolRefAttr KernelImplementations::createCuda(CudaCodeAttr code) {
  SmallVector<FlatSymbolRefAttr> kernels;
  for (CudaKernelAttr kernel : code.getKernels()) {
    Descriptor descriptor("cuda_kernel");
    descriptor.set("image", getImage());
    descriptor.set("function", kernel.getFunction().getLeafReference().str());
    descriptor.set("grid", kernel.getGrid());
    descriptor.set("block", kernel.getBlock());
    descriptor.set("shared_bytes", kernel.getShared());
    kernels.push_back(descriptors.createDescriptor(descriptor));
  }
  Descriptor descriptor("cuda_code");
  descriptor.set("kernels", descriptors.createPointerArray(kernels));
  descriptor.set("kernel_count", int64_t(kernels.size()));
  descriptor.set("workspace_bytes", code.getWorkspace());
  return descriptors.createDescriptor(descriptor);
}
