//===- OwnKernels.h - Kernels of the runtime itself -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What calls of programs ask of the device beyond the compiler's kernels and
// the driver's copies: MLIR beside this header, which Kernels.cmake has
// compiled to PTX, an image for marks and one for sums of each type.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_KERNELS_OWNKERNELS_H
#define FSDP_RT_DEVICES_CUDA_KERNELS_OWNKERNELS_H

#include "core/Dtype.h"
#include "devices/cuda/driver/DriverApi.h"
#include "fsdp-rt/abi.h"

#include <vector>

namespace fsdp::rt {

/// Blocks of all of these.
constexpr int64_t ownKernelBlock = 256;
/// Least capability: conversions to bfloat16.
constexpr int64_t ownKernelCapability = 80;

/// A launch of one of them.
struct OwnLaunch {
  fsdp_rt_cuda_kernel_desc kernel;
  std::vector<cu::Pointer> parameters;
};

/// A number that a run places in the device's memory or fetches from there, as
/// kernels read it and write its value: in pinned memory.
struct PlacedNumber {
  int64_t offset, bytes;
  char value[8];
};
/// Before a run's first call, of parameters (run, current, numbers, base,
/// count): the marks and reports below hold `run`, counted from 1, from now on,
/// 64 bits at `current` become it, and `count` numbers at `numbers` take their
/// places from `base` on. A block has ownKernelBlock of them.
fsdp_rt_cuda_kernel_desc beginRunKernel();
/// After its last call, of (numbers, base, count): the numbers become what lies
/// at their places.
fsdp_rt_cuda_kernel_desc endRunKernel();

/// One thread writes the run to 64 bits at `mark`, of the host or the device.
OwnLaunch markLaunch(cu::Pointer mark);

/// What the host reads of a check or a guard: the first run in which it failed,
/// 0 while there is none, and what it found then. In pinned memory; nobody but
/// the device and its streams' functions writes it.
struct RunReport {
  uint64_t run, found;
};
/// The byte at `flag` should be 1.
OwnLaunch checkLaunch(cu::Pointer flag, cu::Pointer report);
/// What searchLaunch found, unless that is `untouched`.
OwnLaunch reportTouchedLaunch(cu::Pointer found, cu::Pointer report);

/// The number of 64 bits at `found`, which is `untouched` before, becomes
/// 256 * i + the byte for the first of `bytes` bytes from `start` on, i, that
/// is not dead, if there is one.
OwnLaunch searchLaunch(cu::Pointer start, cu::Pointer found, int64_t bytes);
constexpr uint64_t untouched = ~uint64_t(0);

/// What a sum adds up and what it writes: one type, or a narrow float and F32,
/// in which narrow floats are added: a sum of some ranks that is not rounded,
/// or a sum of such sums.
struct SumTypes {
  SumTypes(Dtype both) : element(both), result(both) {}
  SumTypes(Dtype element, Dtype result) : element(element), result(result) {}
  Dtype element, result;
};

/// A sum over some ranks and one place among them:
///   dst[i] = treeSum over ranks of their element i / divisor
/// with its bits (core/Reduce.h; NaNs may have others). The rank's own elements
/// lie at `own`, which may be dst, those of the others one after another at
/// `others`, `stride` bytes apart. Of one rank, it divides.
struct RankSum {
  SumTypes types;
  cu::Pointer own, dst;
  int64_t count, divisor;
  cu::Pointer others = 0;
  int64_t stride = 0;
  int ranks = 1, place = 0;
};
OwnLaunch sumLaunch(const RankSum &sum);

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_KERNELS_OWNKERNELS_H
