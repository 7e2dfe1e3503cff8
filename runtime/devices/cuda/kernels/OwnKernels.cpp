//===- OwnKernels.cpp - Kernels of the runtime itself ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/kernels/OwnKernels.h"

#include <algorithm>
#include <iterator>

// CMake defines FSDP_RT_PTX: the folder of the texts, quoted.
#define FSDP_RT_TEXT(NAME)                                                     \
  asm(".section .rodata\n"                                                     \
      ".globl fsdp_rt_ptx_" #NAME "\n"                                         \
      ".hidden fsdp_rt_ptx_" #NAME "\n"                                        \
      "fsdp_rt_ptx_" #NAME ":\n"                                               \
      ".incbin \"" FSDP_RT_PTX "/" #NAME ".ptx\"\n"                            \
      ".byte 0\n"                                                              \
      ".previous\n");                                                          \
  extern "C" const char fsdp_rt_ptx_##NAME[];
#define FSDP_RT_SUM_TEXT(ELEMENT, RESULT, NAME) FSDP_RT_TEXT(sum_##NAME)
// clang-format off
#define FSDP_RT_SUM_TYPES(X)                                                   \
  X(F32, F32, f32) X(F64, F64, f64) X(F16, F16, f16) X(BF16, BF16, bf16)       \
  X(I64, I64, i64) X(I32, I32, i32) X(I16, I16, i16) X(I8, I8, i8)             \
  X(U8, U8, u8) X(F16, F32, f16_to_f32) X(BF16, F32, bf16_to_f32)              \
  X(F32, F16, f32_to_f16) X(F32, BF16, f32_to_bf16)
// clang-format on

FSDP_RT_TEXT(marks)
FSDP_RT_SUM_TYPES(FSDP_RT_SUM_TEXT)

namespace fsdp::rt {

namespace {

constexpr fsdp_rt_cuda_image_desc imageOf(const char *ptx) {
  return {ptx, ownKernelCapability, nullptr, 0, /*grid_waits=*/1};
}

constexpr fsdp_rt_cuda_image_desc marks = imageOf(fsdp_rt_ptx_marks);

constexpr struct {
  Dtype element, result;
  const char *function;
  fsdp_rt_cuda_image_desc image;
} sums[] = {
#define FSDP_RT_SUM_ROW(ELEMENT, RESULT, NAME)                                 \
  {FSDP_RT_##ELEMENT, FSDP_RT_##RESULT, "fsdp_sum_" #NAME,                     \
   imageOf(fsdp_rt_ptx_sum_##NAME)},
    FSDP_RT_SUM_TYPES(FSDP_RT_SUM_ROW)
#undef FSDP_RT_SUM_ROW
};

int64_t blocksOf(int64_t threads) {
  return (threads + ownKernelBlock - 1) / ownKernelBlock;
}

} // namespace

fsdp_rt_cuda_kernel_desc beginRunKernel() {
  return {&marks, "fsdp_begin_run", 1, ownKernelBlock, 0};
}

fsdp_rt_cuda_kernel_desc endRunKernel() {
  return {&marks, "fsdp_end_run", 1, ownKernelBlock, 0};
}

OwnLaunch checkLaunch(cu::Pointer flag, cu::Pointer report) {
  return {{&marks, "fsdp_check", 1, 1, 0}, {flag, report}};
}

OwnLaunch reportTouchedLaunch(cu::Pointer found, cu::Pointer report) {
  return {{&marks, "fsdp_report_touched", 1, 1, 0}, {found, report}};
}

OwnLaunch markLaunch(cu::Pointer mark) {
  return {{&marks, "fsdp_mark", 1, 1, 0}, {mark}};
}

OwnLaunch searchLaunch(cu::Pointer start, cu::Pointer found, int64_t bytes) {
  return {{&marks, "fsdp_find_touched", blocksOf(bytes), ownKernelBlock, 0},
          {start, found, static_cast<cu::Pointer>(bytes)}};
}

OwnLaunch sumLaunch(const RankSum &sum) {
  // Elements of a thread, and their alignment, as Kernels.cmake has them.
  int64_t size = dtypeSize(sum.types.element), lanes = size < 4 ? 8 : 4;
  auto stride = static_cast<cu::Pointer>(sum.stride);
  auto isAligned = [&](cu::Pointer places, Dtype type) {
    int64_t alignment = std::min<int64_t>(16, lanes * dtypeSize(type));
    return places % static_cast<cu::Pointer>(alignment) == 0;
  };
  bool takesVectors =
      isAligned(sum.own | sum.others | stride, sum.types.element) &&
      isAligned(sum.dst, sum.types.result);
  int64_t vectors = takesVectors ? sum.count / lanes : 0;
  int64_t threads = vectors + sum.count - vectors * lanes;
  // Levels of the tree above subtrees of at most eight ranks: on each, a
  // thread has a partial sum.
  int64_t levels = 0;
  while ((sum.ranks - 1) >> levels >= 8)
    ++levels;
  int64_t levelBytes = ownKernelBlock * lanes * std::max<int64_t>(size, 4);
  const auto *found =
      std::find_if(std::begin(sums), std::end(sums), [&](const auto &row) {
        return row.element == sum.types.element &&
               row.result == sum.types.result;
      });
  fsdp_rt_cuda_kernel_desc kernel = {nullptr, nullptr, blocksOf(threads),
                                     ownKernelBlock, levels * levelBytes};
  if (found != std::end(sums)) {
    kernel.image = &found->image;
    kernel.function = found->function;
  }
  return {
      kernel,
      {sum.own, sum.dst, static_cast<cu::Pointer>(threads),
       static_cast<cu::Pointer>(vectors), static_cast<cu::Pointer>(sum.divisor),
       sum.others, stride, static_cast<cu::Pointer>(sum.ranks),
       static_cast<cu::Pointer>(sum.place), static_cast<cu::Pointer>(levels)}};
}

} // namespace fsdp::rt
