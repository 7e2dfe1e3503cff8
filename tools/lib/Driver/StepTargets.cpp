//===- StepTargets.cpp - Code for the kernels of a step -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Driver/StepTargets.h"

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

using namespace mlir;
using namespace mlir::fsdp;

KernelLimits fsdp::getKernelLimits(const StepTargets &targets) {
  if (targets.empty())
    return getCpuKernelLimits();
  KernelLimits all = targets.front()->getKernelLimits();
  for (const std::unique_ptr<Target> &target : targets) {
    KernelLimits limits = target->getKernelLimits();
    all.minItems = std::max(all.minItems, limits.minItems);
    all.smallWork = std::min(all.smallWork, limits.smallWork);
    all.sumItems = std::max(all.sumItems, limits.sumItems);
    all.rowAlignment = std::max(all.rowAlignment, limits.rowAlignment);
    all.savedByte = std::max(all.savedByte, limits.savedByte);
    all.epilogues &= limits.epilogues;
    all.sweeps &= limits.sweeps;
  }
  return all;
}

SmallVector<Stage> fsdp::getKernelCodeStages(const StepTargets &targets) {
  SmallVector<Stage> stages;
  for (const std::unique_ptr<Target> &target : targets)
    stages.push_back(target->getKernelStage());
  return stages;
}
