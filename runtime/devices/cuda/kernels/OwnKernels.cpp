//===- OwnKernels.cpp - Kernels of the runtime itself ---------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/kernels/OwnKernels.h"

#include "devices/cuda/driver/DriverApi.h"
#include "fsdp-rt/dependent-launch.h"

namespace fsdp::rt {

namespace {

constexpr const char *header = ".version 8.0\n"
                               ".target sm_80\n"
                               ".address_size 64\n";

/// How a kernel divides elements of one type: %rd8 is the source's address,
/// %rd9 the destination's, %rd4 the divisor. Of integers, registers are 32 or
/// 64 bits wide, to which loads extend.
struct Division {
  Dtype dtype;
  const char *name;
  int shift; // of an index to bytes
  const char *body;
};

#define FSDP_RT_DIVIDE_F32                                                     \
  "  cvt.rn.f32.s64 %f2, %rd4;\n"                                              \
  "  div.rn.f32 %f3, %f1, %f2;\n"
#define FSDP_RT_DIVIDE_I32                                                     \
  "  cvt.u32.u64 %r5, %rd4;\n"                                                 \
  "  div.s32 %r6, %r4, %r5;\n"

constexpr Division divisions[] = {
    {FSDP_RT_F32, "f32", 2,
     "  ld.global.f32 %f1, [%rd8];\n" FSDP_RT_DIVIDE_F32
     "  st.global.f32 [%rd9], %f3;\n"},
    {FSDP_RT_F64, "f64", 3,
     "  ld.global.f64 %fd1, [%rd8];\n"
     "  cvt.rn.f64.s64 %fd2, %rd4;\n"
     "  div.rn.f64 %fd3, %fd1, %fd2;\n"
     "  st.global.f64 [%rd9], %fd3;\n"},
    {FSDP_RT_F16, "f16", 1,
     "  ld.global.b16 %h1, [%rd8];\n"
     "  cvt.f32.f16 %f1, %h1;\n" FSDP_RT_DIVIDE_F32
     "  cvt.rn.f16.f32 %h2, %f3;\n"
     "  st.global.b16 [%rd9], %h2;\n"},
    // A bfloat16 is the upper half of a float.
    {FSDP_RT_BF16, "bf16", 1,
     "  ld.global.u16 %r4, [%rd8];\n"
     "  shl.b32 %r5, %r4, 16;\n"
     "  mov.b32 %f1, %r5;\n" FSDP_RT_DIVIDE_F32 "  cvt.rn.bf16.f32 %h2, %f3;\n"
     "  st.global.b16 [%rd9], %h2;\n"},
    {FSDP_RT_I64, "i64", 3,
     "  ld.global.s64 %rd10, [%rd8];\n"
     "  div.s64 %rd11, %rd10, %rd4;\n"
     "  st.global.s64 [%rd9], %rd11;\n"},
    {FSDP_RT_I32, "i32", 2,
     "  ld.global.s32 %r4, [%rd8];\n" FSDP_RT_DIVIDE_I32
     "  st.global.s32 [%rd9], %r6;\n"},
    {FSDP_RT_I16, "i16", 1,
     "  ld.global.s16 %r4, [%rd8];\n" FSDP_RT_DIVIDE_I32
     "  st.global.u16 [%rd9], %r6;\n"},
    {FSDP_RT_I8, "i8", 0,
     "  ld.global.s8 %r4, [%rd8];\n" FSDP_RT_DIVIDE_I32
     "  st.global.u8 [%rd9], %r6;\n"},
    {FSDP_RT_U8, "u8", 0,
     "  ld.global.u8 %r4, [%rd8];\n" FSDP_RT_DIVIDE_I32
     "  st.global.u8 [%rd9], %r6;\n"},
};

/// Registers, and %rd3 as this thread's index: threads from %rd3 on leave.
constexpr const char *declarations = "{\n"
                                     "  .reg .pred %p<3>;\n"
                                     "  .reg .b16 %h<3>;\n"
                                     "  .reg .b32 %r<7>;\n"
                                     "  .reg .b64 %rd<12>;\n"
                                     "  .reg .f32 %f<4>;\n"
                                     "  .reg .f64 %fd<4>;\n";

/// %rd6 becomes the index of the thread, which leaves where that is %rd3 or
/// more.
constexpr const char *index = "  mov.u32 %r1, %ctaid.x;\n"
                              "  mov.u32 %r2, %ntid.x;\n"
                              "  mov.u32 %r3, %tid.x;\n"
                              "  cvt.u64.u32 %rd5, %r3;\n"
                              "  mul.wide.u32 %rd6, %r1, %r2;\n"
                              "  add.s64 %rd6, %rd6, %rd5;\n"
                              "  setp.ge.u64 %p1, %rd6, %rd3;\n"
                              "  @%p1 bra $done;\n";

std::string parameters(const std::string &kernel, int count) {
  std::string list;
  for (int i = 0; i < count; ++i)
    list += (i == 0 ? "" : ", ") + std::string(".param .u64 ") + kernel +
            "_param_" + std::to_string(i);
  std::string text =
      "\n.visible .entry " + kernel + "(" + list + ")\n" + declarations;
  for (int i = 0; i < count; ++i)
    text += "  ld.param.u64 %rd" + std::to_string(i + 1) + ", [" + kernel +
            "_param_" + std::to_string(i) + "];\n";
  return text + dependentLaunchLines();
}

std::string writeDivision(const Division &division) {
  return parameters(divideKernel(division.dtype), 4) + index +
         "  shl.b64 %rd7, %rd6, " + std::to_string(division.shift) +
         ";\n"
         "  cvta.to.global.u64 %rd8, %rd1;\n"
         "  add.s64 %rd8, %rd8, %rd7;\n"
         "  cvta.to.global.u64 %rd9, %rd2;\n"
         "  add.s64 %rd9, %rd9, %rd7;\n" +
         division.body +
         "$done:\n"
         "  ret;\n"
         "}\n";
}

/// The first byte that is not dead, whatever order threads come in.
std::string writeSearch() {
  return parameters(searchKernel, 3) + index +
         "  cvta.to.global.u64 %rd7, %rd1;\n"
         "  add.s64 %rd8, %rd7, %rd6;\n"
         "  ld.global.u8 %r4, [%rd8];\n"
         "  setp.eq.s32 %p2, %r4, 255;\n"
         "  @%p2 bra $done;\n"
         "  shl.b64 %rd9, %rd6, 8;\n"
         "  cvt.u64.u32 %rd10, %r4;\n"
         "  or.b64 %rd9, %rd9, %rd10;\n"
         "  cvta.to.global.u64 %rd11, %rd2;\n"
         "  atom.global.min.u64 %rd4, [%rd11], %rd9;\n"
         "$done:\n"
         "  ret;\n"
         "}\n";
}

/// The host may read it while the device goes on.
std::string writeMark() {
  return parameters(markKernel, 1) + "  cvta.to.global.u64 %rd2, %rd1;\n"
                                     "  mov.b32 %r1, 1;\n"
                                     "  st.volatile.global.u32 [%rd2], %r1;\n"
                                     "  ret;\n"
                                     "}\n";
}

} // namespace

std::string dependentLaunchLines() {
  return std::string("  ") + launchDependentsLine + "\n  " + waitForGridLine +
         "\n";
}

std::string divideKernel(Dtype dtype) {
  for (const Division &division : divisions)
    if (division.dtype == dtype)
      return std::string("fsdp_divide_") + division.name;
  return "";
}

const fsdp_rt_cuda_image_desc &ownKernels() {
  static const std::string text = [] {
    std::string ptx = header;
    for (const Division &division : divisions)
      ptx += writeDivision(division);
    ptx += writeSearch();
    ptx += writeMark();
    return ptx;
  }();
  static const fsdp_rt_cuda_image_desc image = {
      text.c_str(), ownKernelCapability, nullptr, 0, /*grid_waits=*/1};
  return image;
}

} // namespace fsdp::rt
