//===- Matmul.h - Batched matrix products over threads ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product is cut into blocks that depend on its shape alone, never on the
// number of threads: OpenBLAS and oneDNN choose their inner loops by the shape
// that they are given, so that on many processors (OpenBLAS on Haswell and Zen,
// oneDNN with AVX2) every other cut gives other bits. Cutting costs them some
// percent in packing, which is why blocks are few and wide.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CPU_MATMUL_H
#define FSDP_RT_DEVICES_CPU_MATMUL_H

#include "core/Status.h"
#include "devices/cpu/Blas.h"
#include "fsdp-rt/abi.h"

#include <cstdint>

namespace fsdp::rt {

class ThreadPool;

/// The least that runMatmul can work with, in bytes per thread.
constexpr int64_t minMatmulWorkspaceBytes = int64_t(64) << 10;

/// Memory that every thread has for itself: thread t's begins at
/// base + t * stride, is 64-byte aligned and `bytes` long.
struct MatmulWorkspace {
  char *base = nullptr;
  int64_t stride = 0;
  int64_t bytes = 0;
};

/// How one matrix product is cut: blocks of at most rows x columns of C.
struct MatmulCut {
  int64_t rows = 0;
  int64_t columns = 0;
};

/// The cut of each of `batch` products of m x k by k x n matrices in F32 or
/// F64. Narrow types are cut into the tiles that fit the workspace.
MatmulCut cutMatmul(int64_t m, int64_t n, int64_t k, int64_t batch);

/// What hal::checkMatmul() refuses, and sizes or types that `blas` does not
/// take.
Status checkMatmul(const fsdp_rt_matmul_desc &desc, int64_t arenaBytes,
                   const Blas &blas);

/// Runs a descriptor that checkMatmul accepts. bf16 and f16 are widened panel
/// by panel into the workspace, added up in float32 and rounded once if the
/// result is narrow, too. Fails only where the library does.
Status runMatmul(const fsdp_rt_matmul_desc &desc, char *arena, const Blas &blas,
                 ThreadPool &pool, const MatmulWorkspace &workspace);

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CPU_MATMUL_H
