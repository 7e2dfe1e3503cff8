//===- CudaTarget.h - Code of kernels for CUDA devices ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TARGET_CUDA_CUDATARGET_H
#define FSDP_TARGET_CUDA_CUDATARGET_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Target/Target.h"

namespace mlir::fsdp {

class CudaTarget final : public Target {
public:
  StringRef getKind() const override { return kCudaTarget; }
  KernelLimits getKernelLimits() const override;
  void buildKernelPipeline(OpPassManager &pm) const override;
  void describe(LowerOptions &options) const override;
  /// Defines the global that descriptors name with the PTX of `@cuda_kernels`,
  /// which goes.
  llvm::Error serializeKernels(ModuleOp module) const override;
};

llvm::Expected<std::unique_ptr<Target>> createCudaTarget(StringRef march);

/// PTX of the functions of `@cuda_kernels` in `module`, which are of the LLVM
/// and NVVM dialects; empty where there is none. Refuses calls of functions
/// that neither the module nor libclc defines.
llvm::Expected<std::string> createPtx(ModuleOp module);

} // namespace mlir::fsdp

#endif // FSDP_TARGET_CUDA_CUDATARGET_H
