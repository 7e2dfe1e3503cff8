//===- KernelImplementations.cpp - A kernel's code by target --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

using namespace mlir;
using namespace mlir::fsdp;

Attribute fsdp::getImplementation(Operation *kernel, StringRef target) {
  auto byTarget = kernel->getAttrOfType<DictionaryAttr>(names::kImpl);
  return byTarget ? byTarget.get(target) : Attribute();
}

template <typename Attr>
static Attr getCode(Operation *kernel, StringRef target) {
  return dyn_cast_if_present<Attr>(getImplementation(kernel, target));
}

CpuKernelAttr fsdp::getCpuKernel(Operation *kernel) {
  return getCode<CpuKernelAttr>(kernel, kCpuTarget);
}

CudaCodeAttr fsdp::getCudaCode(Operation *kernel) {
  return getCode<CudaCodeAttr>(kernel, kCudaTarget);
}

int64_t fsdp::getWorkspaceBytes(Operation *kernel) {
  if (CudaCodeAttr code = getCudaCode(kernel))
    return code.getWorkspace();
  auto product = getCode<CudaProductAttr>(kernel, kCudaTarget);
  return product ? product.getWorkspace() : 0;
}

void fsdp::setImplementation(Operation *kernel, StringRef target,
                             Attribute code) {
  NamedAttrList byTarget(kernel->getAttrOfType<DictionaryAttr>(names::kImpl));
  byTarget.set(target, code);
  kernel->setAttr(names::kImpl, byTarget.getDictionary(kernel->getContext()));
}
