//===- CpuTarget.cpp - Code of kernels for processors ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/CPU/CpuTarget.h"

using namespace mlir;
using namespace mlir::fsdp;

Stage CpuTarget::getKernelStage() const {
  return {kKernelCodeStage,
          buildCpuKernelPipeline,
          {{"fsdp-vectorize-kernels", false, true}}};
}

void CpuTarget::describe(LowerOptions &options) const {
  options.cpu = cpu.name;
  options.features = ArrayRef(cpu.features);
}

llvm::Error CpuTarget::serializeKernels(ModuleOp) {
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<Target>>
fsdp::createCpuTarget(const TargetOptions &options) {
  auto cpu = TargetCpu::parse(options.march);
  if (!cpu)
    return cpu.takeError();
  return std::make_unique<CpuTarget>(std::move(*cpu));
}
