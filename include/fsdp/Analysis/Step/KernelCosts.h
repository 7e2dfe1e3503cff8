//===- KernelCosts.h - What a kernel function does --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_KERNELCOSTS_H
#define FSDP_ANALYSIS_STEP_KERNELCOSTS_H

#include "fsdp/Cost/CostModel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::fsdp {

/// Arithmetic and memory traffic of an outlined kernel in destination-passing
/// style, as fsdp-kernels leaves it: linalg, tensor and scf inside. It depends
/// on the function, and on the functions of its code for CUDA devices.
///
/// - flops: iterations of each loop nest times the float operations of its
///   body, by their type. A loop whose length is not known counts once, so that
///   costs stay below the truth.
/// - an attention is costed as one (makeAttention), in the type of its queries.
/// - m, n, k, batch: of the largest contraction; a convolution counts as the
///   product that it is once its windows are laid out.
/// - bytes: each input that is really read, once, and each result. What a loop
///   reads by index (a table of embeddings) counts as often as it is read, at
///   most the whole.
/// - launches: where the kernel has code for CUDA devices, what that does (see
///   LaunchCosts.h).
KernelCost getKernelCost(func::FuncOp kernel);

/// The type that @type's arithmetic is costed in; none for integers.
std::optional<CostDtype> getCostDtype(Type type);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_KERNELCOSTS_H
