//===- CpuTarget.h - Code of kernels for processors -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TARGET_CPU_CPUTARGET_H
#define FSDP_TARGET_CPU_CPUTARGET_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Target/CPU/CodeGen.h"
#include "fsdp/Target/Target.h"

namespace mlir::fsdp {

/// The host's processors. Kernels are functions of the host's object.
class CpuTarget final : public Target {
public:
  explicit CpuTarget(TargetCpu cpu) : cpu(std::move(cpu)) {}

  StringRef getKind() const override { return kCpuTarget; }
  KernelLimits getKernelLimits() const override { return getCpuKernelLimits(); }
  Stage getKernelStage() const override;
  void describe(LowerOptions &options) const override;
  llvm::Error serializeKernels(ModuleOp module) override;

private:
  TargetCpu cpu;
};

llvm::Expected<std::unique_ptr<Target>>
createCpuTarget(const TargetOptions &options);

} // namespace mlir::fsdp

#endif // FSDP_TARGET_CPU_CPUTARGET_H
