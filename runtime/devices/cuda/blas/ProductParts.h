//===- ProductParts.h - Products in extents that are fast -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuBLASLt has fast code for tensor cores where each matrix is a multiple of 16
// bytes along the dimension in which its elements are neighbours. Aligned rows
// are not enough: 8192 x 768 by 768 x 50257 took 6.6 ms on an H200 with rows of
// 50264 elements, and 0.86 ms with 50304 columns (docs/measured). That 50256
// columns are as fast follows from what the library's kernels load at once, and
// has not been measured.
//
// So such an extent is cut into the largest multiple and the rest, fewer than
// 16 bytes, each a product of its own: 50257 logits are 50256 and 1.
//
//     C[:, :n0] = A B[:, :n0]        C[:, n0:] = A B[:, n0:]
//     C = A[:, k0:] B[k0:, :], then C += A[:, :k0] B[:k0, :]
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_BLAS_PRODUCTPARTS_H
#define FSDP_RT_DEVICES_CUDA_BLAS_PRODUCTPARTS_H

#include "fsdp-rt/abi.h"

#include <vector>

namespace fsdp::rt {

/// Products that compute @desc, which hal::checkMatmul() accepts, one after
/// another, the first or last of which has fast code. @desc alone where no cut
/// leads there: f32 without TF32, f64, addresses or leading dimensions that are
/// no multiples of 16 bytes, extents below 16 bytes; or where it would round
/// the whole sum twice: k, of narrow types, if something is added to C.
std::vector<fsdp_rt_matmul_desc> cutExtents(const fsdp_rt_matmul_desc &desc);

/// Whether @parts take less time than @desc does by slow code, by operations
/// and bytes: each of the others reads a whole operand again, or the result.
bool areFaster(const std::vector<fsdp_rt_matmul_desc> &parts,
               const fsdp_rt_matmul_desc &desc);

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_BLAS_PRODUCTPARTS_H
