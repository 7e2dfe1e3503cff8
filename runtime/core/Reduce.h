//===- Reduce.h - Sums over ranks -------------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that adds up what ranks contribute: every CPU backend calls it,
// which is why their bits agree.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_CORE_REDUCE_H
#define FSDP_RT_CORE_REDUCE_H

#include "core/Dtype.h"
#include "core/Status.h"

#include <cstdint>

namespace fsdp::rt {

class ThreadPool;

/// Refuses what has no sum over ranks: types that are no numbers, and divisors
/// below 1 (or beyond the type).
Status checkReduction(Dtype dtype, int64_t divisor);

/// dst[i] = tree(0, numSources) over sources[s][i], divided by `divisor`, for i
/// in [begin, end), with
///   tree(lo, hi) = tree(lo, mid) + tree(mid, hi),
///   mid = lo + (hi - lo + 1) / 2.
/// float16 and bfloat16 are added and divided in float32 and rounded once;
/// integers wrap around and divide towards zero. `dst` may equal a source.
/// Bits depend on neither the processor nor how a caller cuts the range.
void treeSum(const void *const *sources, int numSources, void *dst,
             int64_t begin, int64_t end, Dtype dtype, int64_t divisor);

/// The same for i in [0, count) on the threads of `pool`, where it pays; null:
/// on the caller's.
void treeSum(ThreadPool *pool, const void *const *sources, int numSources,
             void *dst, int64_t count, Dtype dtype, int64_t divisor);

/// memcpy on the threads of `pool`, where it pays. `dst` may equal `src`.
void copyBytes(ThreadPool *pool, void *dst, const void *src, int64_t bytes);

/// memset to zero, likewise.
void fillZero(ThreadPool *pool, void *dst, int64_t bytes);

/// Widens and narrows elements of BF16 or F16.
void narrowToFloat(const void *src, float *dst, int64_t count, Dtype dtype);
void floatToNarrow(const float *src, void *dst, int64_t count, Dtype dtype);

} // namespace fsdp::rt

#endif // FSDP_RT_CORE_REDUCE_H
