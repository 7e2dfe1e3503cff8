//===- StepTargets.h - Code for the kernels of a step -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DRIVER_STEPTARGETS_H
#define FSDP_DRIVER_STEPTARGETS_H

#include "fsdp/Target/Target.h"

#include "llvm/ADT/SmallVector.h"

#include <memory>
#include <vector>

namespace mlir::fsdp {

/// What the kernels of one step get code for, in the order of the artifact.
using StepTargets = std::vector<std::unique_ptr<Target>>;

/// Kernels are formed once for all targets: as coarse as one of them needs.
/// Without targets: as for processors.
KernelLimits getKernelLimits(const StepTargets &targets);

/// Stages that give the kernels of L2 their code, one for each target, which
/// must outlive them. They come before the plan: what the code needs of the
/// arena (workspace) and beside it (scratch memory) is known afterwards.
llvm::SmallVector<Stage> getKernelCodeStages(const StepTargets &targets);

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_STEPTARGETS_H
