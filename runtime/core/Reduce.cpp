//===- Reduce.cpp - Sums over ranks ---------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A sum runs in blocks that stay in the first-level cache. A block's inner
// loops ("leaves") are compiled for several instruction sets and chosen at
// start; each does the same additions in the same order.
//
//===----------------------------------------------------------------------===//

#include "core/Reduce.h"

#include "core/NarrowFloat.h"
#include "core/ThreadPool.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

namespace fsdp::rt {

namespace {

constexpr int64_t blockSize = 1024;
/// Below this many bytes per thread, waking one costs more than it saves.
constexpr int64_t grainBytes = int64_t(128) << 10;
constexpr int64_t copyBlockBytes = int64_t(4) << 10;

/// What elements of type T are added in: wrapping for integers.
template <typename T>
struct Accumulator {
  using Type = std::make_unsigned_t<T>;
};
template <>
struct Accumulator<float> {
  using Type = float;
};
template <>
struct Accumulator<double> {
  using Type = double;
};
template <>
struct Accumulator<Float16> {
  using Type = float;
};
template <>
struct Accumulator<BFloat16> {
  using Type = float;
};

template <typename T>
FSDP_RT_INLINE typename Accumulator<T>::Type widen(T value) {
  if constexpr (std::is_same_v<typename Accumulator<T>::Type, float>)
    return toFloat(value);
  else
    return static_cast<typename Accumulator<T>::Type>(value);
}

template <typename T, typename Acc>
FSDP_RT_INLINE void loadBody(const T *a, Acc *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = widen(a[i]);
}

template <typename T, typename Acc>
FSDP_RT_INLINE void add2Body(const T *a, const T *b, Acc *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<Acc>(widen(a[i]) + widen(b[i]));
}

template <typename T, typename Acc>
FSDP_RT_INLINE void add4Body(const T *a, const T *b, const T *c, const T *d,
                             Acc *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<Acc>(static_cast<Acc>(widen(a[i]) + widen(b[i])) +
                              static_cast<Acc>(widen(c[i]) + widen(d[i])));
}

template <typename Acc>
FSDP_RT_INLINE void addIntoBody(const Acc *a, Acc *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<Acc>(out[i] + a[i]);
}

template <typename T, typename Acc>
FSDP_RT_INLINE void storeBody(const Acc *a, T *out, int64_t count,
                              int64_t divisor) {
  if constexpr (std::is_same_v<Acc, float>) {
    float by = static_cast<float>(divisor);
    if (divisor == 1)
      for (int64_t i = 0; i < count; ++i)
        fromFloat(a[i], out[i]);
    else
      for (int64_t i = 0; i < count; ++i)
        fromFloat(a[i] / by, out[i]);
  } else if constexpr (std::is_same_v<Acc, double>) {
    double by = static_cast<double>(divisor);
    for (int64_t i = 0; i < count; ++i)
      out[i] = a[i] / by;
  } else {
    T by = static_cast<T>(divisor);
    for (int64_t i = 0; i < count; ++i)
      out[i] = static_cast<T>(static_cast<T>(a[i]) / by);
  }
}

/// The leaves of one element type for one instruction set.
template <typename T>
struct Leaves {
  using Acc = typename Accumulator<T>::Type;
  void (*load)(const T *, Acc *, int64_t);
  void (*add2)(const T *, const T *, Acc *, int64_t);
  void (*add4)(const T *, const T *, const T *, const T *, Acc *, int64_t);
  void (*addInto)(const Acc *, Acc *, int64_t);
  void (*store)(const Acc *, T *, int64_t, int64_t);
};

#define FSDP_RT_LEAVES(NAME, TARGET)                                           \
  template <typename T>                                                        \
  struct NAME {                                                                \
    using Acc = typename Accumulator<T>::Type;                                 \
    TARGET static void load(const T *__restrict a, Acc *__restrict out,        \
                            int64_t n) {                                       \
      loadBody(a, out, n);                                                     \
    }                                                                          \
    TARGET static void add2(const T *__restrict a, const T *__restrict b,      \
                            Acc *__restrict out, int64_t n) {                  \
      add2Body(a, b, out, n);                                                  \
    }                                                                          \
    TARGET static void add4(const T *__restrict a, const T *__restrict b,      \
                            const T *__restrict c, const T *__restrict d,      \
                            Acc *__restrict out, int64_t n) {                  \
      add4Body(a, b, c, d, out, n);                                            \
    }                                                                          \
    TARGET static void addInto(const Acc *__restrict a, Acc *__restrict out,   \
                               int64_t n) {                                    \
      addIntoBody(a, out, n);                                                  \
    }                                                                          \
    TARGET static void store(const Acc *__restrict a, T *__restrict out,       \
                             int64_t n, int64_t divisor) {                     \
      storeBody(a, out, n, divisor);                                           \
    }                                                                          \
    static Leaves<T> all() { return {load, add2, add4, addInto, store}; }      \
  };

FSDP_RT_LEAVES(BaselineLeaves, )
#if defined(__x86_64__)
FSDP_RT_LEAVES(Avx2Leaves, __attribute__((target("avx2"))))
FSDP_RT_LEAVES(Avx512Leaves,
               __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))))
#endif
#undef FSDP_RT_LEAVES

template <typename T>
Leaves<T> chooseLeaves() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return Avx512Leaves<T>::all();
  if (__builtin_cpu_supports("avx2"))
    return Avx2Leaves<T>::all();
#endif
  return BaselineLeaves<T>::all();
}

template <typename T>
const Leaves<T> &leavesOf() {
  static const Leaves<T> leaves = chooseLeaves<T>();
  return leaves;
}

/// out = tree(lo, hi) over the `count` elements from `at` on.
template <typename T>
void sumBlock(const Leaves<T> &leaves, const T *const *sources, int lo, int hi,
              int64_t at, int64_t count, typename Accumulator<T>::Type *out) {
  using Acc = typename Accumulator<T>::Type;
  const T *const *s = sources + lo;
  switch (hi - lo) {
  case 1:
    return leaves.load(s[0] + at, out, count);
  case 2:
    return leaves.add2(s[0] + at, s[1] + at, out, count);
  case 4:
    return leaves.add4(s[0] + at, s[1] + at, s[2] + at, s[3] + at, out, count);
  }
  int mid = lo + (hi - lo + 1) / 2;
  alignas(64) Acc right[blockSize];
  sumBlock(leaves, sources, lo, mid, at, count, out);
  sumBlock(leaves, sources, mid, hi, at, count, right);
  leaves.addInto(right, out, count);
}

/// Sums the elements [begin, end) of the sources into those of dst.
template <typename T>
void sumRange(const void *const *sources, int numSources, void *dst,
              int64_t begin, int64_t end, int64_t divisor) {
  using Acc = typename Accumulator<T>::Type;
  const Leaves<T> &leaves = leavesOf<T>();
  auto typed = reinterpret_cast<const T *const *>(sources);
  alignas(64) Acc block[blockSize];
  for (int64_t at = begin; at < end; at += blockSize) {
    int64_t size = std::min(blockSize, end - at);
    sumBlock(leaves, typed, 0, numSources, at, size, block);
    leaves.store(block, static_cast<T *>(dst) + at, size, divisor);
  }
}

template <typename T>
bool fits(int64_t divisor) {
  return divisor <= int64_t(std::numeric_limits<T>::max());
}

} // namespace

Status checkReduction(Dtype dtype, int64_t divisor) {
  bool isBelowMax = true;
  switch (dtype) {
  case FSDP_RT_F32:
  case FSDP_RT_F64:
  case FSDP_RT_F16:
  case FSDP_RT_BF16:
  case FSDP_RT_I64:
    break;
  case FSDP_RT_I32:
    isBelowMax = fits<int32_t>(divisor);
    break;
  case FSDP_RT_I16:
    isBelowMax = fits<int16_t>(divisor);
    break;
  case FSDP_RT_I8:
    isBelowMax = fits<int8_t>(divisor);
    break;
  case FSDP_RT_U8:
    isBelowMax = fits<uint8_t>(divisor);
    break;
  default:
    return Status::failed(
        std::string("expected a number type to add up, got ") +
        dtypeName(dtype));
  }
  if (divisor < 1 || !isBelowMax)
    return Status::failed("expected a divisor of at least 1 that " +
                          std::string(dtypeName(dtype)) + " can hold, got " +
                          std::to_string(divisor));
  return Status::ok();
}

void treeSum(const void *const *sources, int numSources, void *dst,
             int64_t begin, int64_t end, Dtype dtype, int64_t divisor) {
  switch (dtype) {
  case FSDP_RT_F32:
    return sumRange<float>(sources, numSources, dst, begin, end, divisor);
  case FSDP_RT_F64:
    return sumRange<double>(sources, numSources, dst, begin, end, divisor);
  case FSDP_RT_F16:
    return sumRange<Float16>(sources, numSources, dst, begin, end, divisor);
  case FSDP_RT_BF16:
    return sumRange<BFloat16>(sources, numSources, dst, begin, end, divisor);
  case FSDP_RT_I64:
    return sumRange<int64_t>(sources, numSources, dst, begin, end, divisor);
  case FSDP_RT_I32:
    return sumRange<int32_t>(sources, numSources, dst, begin, end, divisor);
  case FSDP_RT_I16:
    return sumRange<int16_t>(sources, numSources, dst, begin, end, divisor);
  case FSDP_RT_I8:
    return sumRange<int8_t>(sources, numSources, dst, begin, end, divisor);
  case FSDP_RT_U8:
    return sumRange<uint8_t>(sources, numSources, dst, begin, end, divisor);
  case FSDP_RT_BOOL:
    // checkReduction refuses it before any backend comes here.
    return;
  }
}

void treeSum(ThreadPool *pool, const void *const *sources, int numSources,
             void *dst, int64_t count, Dtype dtype, int64_t divisor) {
  int64_t blockBytes = numSources * blockSize * dtypeSize(dtype);
  if (!pool)
    return treeSum(sources, numSources, dst, 0, count, dtype, divisor);
  auto part = [&](int, int64_t begin, int64_t end) {
    treeSum(sources, numSources, dst, begin * blockSize,
            std::min(end * blockSize, count), dtype, divisor);
  };
  int64_t blocks = (count + blockSize - 1) / blockSize;
  pool->parallelFor(blocks, grainBytes / blockBytes + 1, part);
}

namespace {

/// Calls move(from, to) for parts of [0, bytes).
template <typename Move>
void overParts(ThreadPool *pool, int64_t bytes, const Move &move) {
  if (!pool)
    return move(0, bytes);
  auto part = [&](int, int64_t begin, int64_t end) {
    move(begin * copyBlockBytes, std::min(end * copyBlockBytes, bytes));
  };
  pool->parallelFor((bytes + copyBlockBytes - 1) / copyBlockBytes,
                    grainBytes / copyBlockBytes, part);
}

} // namespace

void copyBytes(ThreadPool *pool, void *dst, const void *src, int64_t bytes) {
  if (dst == src)
    return;
  overParts(pool, bytes, [=](int64_t from, int64_t to) {
    if (from < to)
      std::memcpy(static_cast<char *>(dst) + from,
                  static_cast<const char *>(src) + from, to - from);
  });
}

void fillZero(ThreadPool *pool, void *dst, int64_t bytes) {
  overParts(pool, bytes, [=](int64_t from, int64_t to) {
    if (from < to)
      std::memset(static_cast<char *>(dst) + from, 0, to - from);
  });
}

void narrowToFloat(const void *src, float *dst, int64_t count, Dtype dtype) {
  if (dtype == FSDP_RT_BF16)
    return leavesOf<BFloat16>().load(static_cast<const BFloat16 *>(src), dst,
                                     count);
  leavesOf<Float16>().load(static_cast<const Float16 *>(src), dst, count);
}

void floatToNarrow(const float *src, void *dst, int64_t count, Dtype dtype) {
  if (dtype == FSDP_RT_BF16)
    return leavesOf<BFloat16>().store(src, static_cast<BFloat16 *>(dst), count,
                                      1);
  leavesOf<Float16>().store(src, static_cast<Float16 *>(dst), count, 1);
}

} // namespace fsdp::rt
