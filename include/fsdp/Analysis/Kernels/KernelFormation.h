//===- KernelFormation.h - Which ops become one kernel ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_KERNELS_KERNELFORMATION_H
#define FSDP_ANALYSIS_KERNELS_KERNELFORMATION_H

#include "fsdp/Analysis/Kernels/KernelDomain.h"
#include "fsdp/Analysis/Kernels/StepGraph.h"

namespace mlir::fsdp {

/// Limits of a fused kernel, to keep registers and compile time in bounds.
struct FusionLimits {
  FusionLimits(int64_t minItems, int64_t smallWork)
      : minItems(minItems), smallWork(smallWork) {}
  unsigned maxOps = 96;
  /// Of the target. Fewer work items than that are acceptable only where fusion
  /// does not make them fewer, or where there is little work at all.
  int64_t minItems, smallWork;
  /// What needs nothing but numbers that the step takes (an optimizer makes its
  /// factors of a counter) is not computed with anything else: whoever reads it
  /// does not wait for that.
  bool scalarsApart = false;
  /// Of the target: whether column sums may join kernels of rows, which then
  /// run one row after another (KernelDomain::getSweep).
  bool sweeps = false;
};

/// The kernel of each node of the graph, numbered in the order of their first
/// op; -1 for boundaries. Loop ops are fused where it saves memory traffic and
/// where all of the following holds: they share work items (KernelDomain.h), no
/// path leads out of the kernel and back, they read at most one flat parameter,
/// and they belong to one phase. Deterministic; near linear in ops.
std::vector<int> formKernels(const StepGraph &graph,
                             const FusionLimits &limits);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_KERNELS_KERNELFORMATION_H
