//===- CudaTest.cpp - Programs of tests on a CUDA device ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaTest.h"

#include "Backends.h"
#include "devices/cuda/CudaDevice.h"

namespace fsdp::test {

using rt::Result;
using rt::Status;

namespace {

constexpr const char *ptx = R"(
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
)";

} // namespace

const fsdp_rt_cuda_image_desc &testKernels() {
  static const fsdp_rt_cuda_image_desc image = {ptx, 80};
  return image;
}

CudaLaunch::CudaLaunch(const char *name, std::vector<Function> functions,
                       std::vector<int64_t> operands,
                       const fsdp_rt_cuda_image_desc *image)
    : operands_(std::move(operands)) {
  for (const Function &function : functions)
    kernels.push_back({image ? image : &testKernels(), function.name,
                       function.grid, function.block, function.sharedBytes});
  for (const fsdp_rt_cuda_kernel_desc &kernel : kernels)
    pointers_.push_back(&kernel);
  code = {pointers_.data(), int64_t(pointers_.size())};
  implementations_[0] = &code;
  desc = {name, implementations_, operands_.data(), int64_t(operands_.size()),
          0};
}

Result<TestDevice> makeTestDevice(rt::World &world,
                                  const TestRankOptions &options) {
  Result<const rt::DriverApi *> api = rt::DriverApi::ofProcess();
  if (!api.isOk())
    return api.status();
  auto device = rt::CudaDevice::create(world, **api, options.layout(), 0, 1);
  if (!device.isOk())
    return device.status();
  TestDevice made;
  made.device = std::move(*device);
  made.runsFunctions = false;
  return made;
}

/// Messages as short as those of the conformance suite.
class SmallMessages : public testing::Environment {
  void SetUp() override { setMpiSizes(/*chunkBytes=*/262144, 262144); }
};
[[maybe_unused]] testing::Environment *const smallMessages =
    testing::AddGlobalTestEnvironment(new SmallMessages);

Status onCuda(const TestRankOptions &options,
              const std::function<Status(TestRank &)> &body) {
  return runLocally(1, [&](rt::World &world) -> Status {
    auto rank = TestRank::create(world, options);
    return rank.isOk() ? body(**rank) : rank.status();
  });
}

} // namespace fsdp::test
