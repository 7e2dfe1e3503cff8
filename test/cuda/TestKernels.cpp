//===- TestKernels.cpp - Kernels of tests, in PTX -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestKernels.h"

namespace fsdp::test {

const char *testKernelText() {
  return R"(
.version 7.0
.target sm_80
.address_size 64

.extern .shared .align 16 .b8 dynamic[];

.visible .entry add(.param .u64 add_0, .param .u64 add_1, .param .u64 add_2)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<12>;
  .reg .f32 %f<4>;
  ld.param.u64 %rd1, [add_0];
  ld.param.u64 %rd2, [add_1];
  ld.param.u64 %rd3, [add_2];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %rd4, %r4, 4;
  cvta.to.global.u64 %rd5, %rd1;
  cvta.to.global.u64 %rd6, %rd2;
  cvta.to.global.u64 %rd7, %rd3;
  add.s64 %rd8, %rd5, %rd4;
  add.s64 %rd9, %rd6, %rd4;
  add.s64 %rd10, %rd7, %rd4;
  ld.global.f32 %f1, [%rd8];
  ld.global.f32 %f2, [%rd9];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd10], %f3;
  ret;
}

.visible .entry double_it(.param .u64 double_it_0)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<5>;
  .reg .f32 %f<3>;
  ld.param.u64 %rd1, [double_it_0];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %rd2, %r4, 4;
  cvta.to.global.u64 %rd3, %rd1;
  add.s64 %rd4, %rd3, %rd2;
  ld.global.f32 %f1, [%rd4];
  add.f32 %f2, %f1, %f1;
  st.global.f32 [%rd4], %f2;
  ret;
}

.visible .entry positive(.param .u64 positive_0, .param .u64 positive_1)
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<5>;
  .reg .f32 %f<2>;
  ld.param.u64 %rd1, [positive_0];
  ld.param.u64 %rd2, [positive_1];
  cvta.to.global.u64 %rd3, %rd1;
  cvta.to.global.u64 %rd4, %rd2;
  ld.global.f32 %f1, [%rd3];
  setp.gt.f32 %p1, %f1, 0f00000000;
  selp.u32 %r1, 1, 0, %p1;
  st.global.u8 [%rd4], %r1;
  ret;
}

.visible .entry scale_shared(.param .u64 scale_shared_0)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<5>;
  .reg .f32 %f<4>;
  ld.param.u64 %rd1, [scale_shared_0];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %rd2, %r4, 4;
  cvta.to.global.u64 %rd3, %rd1;
  add.s64 %rd4, %rd3, %rd2;
  mov.u32 %r5, dynamic;
  shl.b32 %r6, %r3, 2;
  add.s32 %r7, %r5, %r6;
  ld.global.f32 %f1, [%rd4];
  st.shared.f32 [%r7], %f1;
  bar.sync 0;
  ld.shared.f32 %f2, [%r7];
  mul.f32 %f3, %f2, 0f40400000;
  st.global.f32 [%rd4], %f3;
  ret;
}

.visible .entry trap()
{
  trap;
  ret;
}

.visible .entry outside(.param .u64 outside_0)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [outside_0];
  add.s64 %rd2, %rd1, 1099511627776;
  mov.u32 %r1, 0;
  st.global.u32 [%rd2], %r1;
  ret;
}

.visible .entry show(.param .u64 show_0, .param .u64 show_1, .param .u64 show_2, .param .u64 show_3, .param .u64 show_4, .param .u64 show_5, .param .u64 show_6, .param .u64 show_7, .param .u64 show_8, .param .u64 show_9)
{
  .reg .b64 %rd<13>;
  ld.param.u64 %rd1, [show_0];
  ld.param.u64 %rd2, [show_1];
  ld.param.u64 %rd3, [show_2];
  ld.param.u64 %rd4, [show_3];
  ld.param.u64 %rd5, [show_4];
  ld.param.u64 %rd6, [show_5];
  ld.param.u64 %rd7, [show_6];
  ld.param.u64 %rd8, [show_7];
  ld.param.u64 %rd9, [show_8];
  ld.param.u64 %rd10, [show_9];
  cvta.to.global.u64 %rd11, %rd4;
  st.global.u64 [%rd11+0], %rd1;
  st.global.u64 [%rd11+8], %rd2;
  st.global.u64 [%rd11+16], %rd3;
  st.global.u64 [%rd11+24], %rd4;
  st.global.u64 [%rd11+32], %rd5;
  st.global.u64 [%rd11+40], %rd6;
  st.global.u64 [%rd11+48], %rd7;
  st.global.u64 [%rd11+56], %rd8;
  st.global.u64 [%rd11+64], %rd9;
  st.global.u64 [%rd11+72], %rd10;
  ret;
}
)";
}

} // namespace fsdp::test
