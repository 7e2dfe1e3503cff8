//===- OwnKernels.h - Kernels of the runtime itself -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What calls of programs ask of the device beyond the compiler's kernels and
// the driver's copies. One image of PTX holds all of it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_KERNELS_OWNKERNELS_H
#define FSDP_RT_DEVICES_CUDA_KERNELS_OWNKERNELS_H

#include "core/Dtype.h"
#include "fsdp-rt/abi.h"

#include <string>

namespace fsdp::rt {

/// Blocks of all of these.
constexpr int64_t ownKernelBlock = 256;
/// Least capability: conversions to bfloat16.
constexpr int64_t ownKernelCapability = 80;

/// What each of these executes before its first access to global memory.
std::string dependentLaunchLines();

/// The image, whose text lives as long as the process.
const fsdp_rt_cuda_image_desc &ownKernels();

/// fsdp_divide_T(src, dst, count, divisor): dst[i] = src[i] / divisor, a thread
/// for each element; as treeSum() of one source divides. `dst` may be `src`.
std::string divideKernel(Dtype dtype);

/// fsdp_find_touched(start, found, bytes): a thread for each byte. The number
/// of 64 bits at `found`, which is untouched before, becomes 256 * i + the byte
/// for the first byte i that is not dead, if there is one.
constexpr const char *searchKernel = "fsdp_find_touched";
constexpr uint64_t untouched = ~uint64_t(0);

/// fsdp_mark(mark): one thread writes 1 to 32 bits, of the host or the device.
constexpr const char *markKernel = "fsdp_mark";

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_KERNELS_OWNKERNELS_H
