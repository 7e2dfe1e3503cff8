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
  /// `tf32`: whether products of f32 may round their factors. `tuning`: a file
  /// of shapes, or empty. `math`: how functions of results of 16 bits are
  /// computed.
  CudaTarget(bool tf32, std::string tuning, MathMode math)
      : tf32(tf32), tuning(std::move(tuning)), math(math) {}
  StringRef getKind() const override { return kCudaTarget; }
  KernelLimits getKernelLimits() const override;
  Stage getKernelStage() const override;
  void describe(LowerOptions &options) const override;
  /// Defines the globals that descriptors name with the code of
  /// `@cuda_kernels`, which goes: PTX, and machine code where the toolkit's
  /// assembler or libnvJitLink is found.
  llvm::Error serializeKernels(ModuleOp module) override;
  std::string getNote() const override { return note; }

private:
  bool tf32;
  std::string tuning, note;
  MathMode math;
};

llvm::Expected<std::unique_ptr<Target>>
createCudaTarget(const TargetOptions &options);

/// PTX of the functions of `@cuda_kernels` in `module`, which are of the LLVM
/// and NVVM dialects; empty where there is none. Refuses calls of functions
/// that neither the module nor libclc defines.
llvm::Expected<std::string> createPtx(ModuleOp module);

/// NVIDIA's assembler: on PATH, in CUDA_HOME/bin, or where that is not set in
/// /usr/local/cuda/bin; empty where it is nowhere.
std::string findPtxas();

/// Machine code that the assembler at `ptxas` makes of `ptx` for `processor`,
/// as sm_90; the error is what it said.
llvm::Expected<std::string> assemblePtx(llvm::StringRef ptxas,
                                        llvm::StringRef ptx,
                                        llvm::StringRef processor);

/// libnvJitLink: in lib64 of that toolkit, among the wheels of a Python
/// environment ($VIRTUAL_ENV, $CONDA_PREFIX, that of python3 on PATH), or where
/// the system looks; empty where it is nowhere.
std::string findNvJitLink();

/// Machine code that `library`, a libnvJitLink, makes of `ptx` for `processor`,
/// as sm_90; the error is what it said.
llvm::Expected<std::string> linkPtx(const std::string &library,
                                    llvm::StringRef ptx,
                                    llvm::StringRef processor);

} // namespace mlir::fsdp

#endif // FSDP_TARGET_CUDA_CUDATARGET_H
