//===- SumKernels.h - Sums over ranks as kernels ----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_KERNELS_SUMKERNELS_H
#define FSDP_RT_DEVICES_CUDA_KERNELS_SUMKERNELS_H

#include "core/Dtype.h"
#include "fsdp-rt/abi.h"

#include <string>

namespace fsdp::rt {

/// A function fsdp_sum(own, dst, count, divisor, others, stride), a thread for
/// each element, for a sum over some ranks and one place among them:
///   dst[i] = treeSum over ranks of their element i / divisor
/// with its bits (core/Reduce.h; NaNs may have others). The rank's own elements
/// lie at `own`, which may be dst, those of the others one after another at
/// `others`, `stride` bytes apart.
struct SumKernel {
  std::string name;
  /// Both live as long as the process.
  const fsdp_rt_cuda_image_desc *image = nullptr;
};
SumKernel sumKernel(Dtype dtype, int ranks, int own);

/// The text of the image.
std::string writeSumKernel(Dtype dtype, int ranks, int own);

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_KERNELS_SUMKERNELS_H
