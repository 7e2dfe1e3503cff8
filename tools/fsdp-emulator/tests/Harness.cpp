//===- Harness.cpp - Kernels of a few instructions, run through the driver ===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Harness.h"

namespace fsdp::emulator::test {

std::string moduleOf(const std::string &lines) {
  if (lines.find(".version") != std::string::npos)
    return lines;
  return ".version 8.0\n.target sm_90\n.address_size 64\n" + lines;
}

std::string kernelOf(const std::string &body, unsigned pointers,
                     const std::string &variables,
                     const std::string &directives) {
  std::string parameters, loads;
  for (unsigned i = 0; i < pointers; ++i) {
    std::string name = "p" + std::to_string(i);
    parameters += (i ? ", .param .u64 " : ".param .u64 ") + name;
    loads += "ld.param.b64 %rd" + std::to_string(i) + ", [" + name + "];\n";
  }
  return moduleOf(variables + "\n.visible .entry k(" + parameters + ") " +
                  directives + "\n{\n.reg .b32 %r<40>, %f<40>;\n" +
                  ".reg .b64 %rd<40>, %fd<40>;\n.reg .b16 %h<40>;\n" +
                  ".reg .pred %p<20>;\n" + loads +
                  "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\n"
                  "mov.u32 %r3, %tid.x;\nmad.lo.s32 %r0, %r1, %r2, %r3;\n"
                  "mul.wide.u32 %rd9, %r0, 4;\n" +
                  body + "\nret;\n}\n");
}

void EmulatorTest::SetUp() {
  ASSERT_CU(cuInit(0));
  ASSERT_CU(cuDevicePrimaryCtxReset_v2(0));
  cuda::Context context = nullptr;
  ASSERT_CU(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_CU(cuCtxSetCurrent(context));
}

cuda::DevicePointer EmulatorTest::allocate(size_t bytes) {
  cuda::DevicePointer pointer = 0;
  EXPECT_CU(cuMemAlloc_v2(&pointer, bytes));
  return pointer;
}

cuda::Function EmulatorTest::load(const std::string &text) {
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  EXPECT_CU(cuModuleLoadData(&module, text.c_str()));
  if (module)
    EXPECT_CU(cuModuleGetFunction(&function, module, "k"));
  return function;
}

cuda::Result
EmulatorTest::launch(cuda::Function function, unsigned grid, unsigned block,
                     const std::vector<cuda::DevicePointer> &pointers,
                     cuda::Stream stream, unsigned shared) {
  std::vector<cuda::DevicePointer> values = pointers;
  std::vector<void *> parameters;
  for (cuda::DevicePointer &value : values)
    parameters.push_back(&value);
  return cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream,
                        parameters.data(), nullptr);
}

cuda::Result EmulatorTest::run(const std::string &text, unsigned grid,
                               unsigned block,
                               const std::vector<cuda::DevicePointer> &pointers,
                               unsigned shared) {
  cuda::Module module = nullptr;
  if (cuda::Result result = cuModuleLoadData(&module, text.c_str()))
    return result;
  cuda::Function function = nullptr;
  if (cuda::Result result = cuModuleGetFunction(&function, module, "k"))
    return result;
  if (cuda::Result result =
          launch(function, grid, block, pointers, nullptr, shared))
    return result;
  return cuCtxSynchronize();
}

std::string
EmulatorTest::messageOf(const std::string &text, unsigned grid, unsigned block,
                        const std::vector<cuda::DevicePointer> &pointers,
                        unsigned shared) {
  testing::internal::CaptureStderr();
  cuda::Result result = run(text, grid, block, pointers, shared);
  std::string printed = testing::internal::GetCapturedStderr();
  const char *name = nullptr;
  cuGetErrorName(result, &name);
  return std::string(name ? name : "?") + "\n" + printed;
}

} // namespace fsdp::emulator::test
