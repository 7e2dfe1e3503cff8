//===- CudaTest.cpp - Programs of tests on a CUDA device ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaTest.h"

#include "Backends.h"
#include "TestKernels.h"
#include "devices/cuda/run/CudaDevice.h"

#include <cstdlib>

namespace fsdp::test {

using rt::Result;
using rt::Status;

const fsdp_rt_cuda_image_desc &testKernels() {
  static const fsdp_rt_cuda_image_desc image = {testKernelText(), 80, nullptr,
                                                0, 0};
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
  code = {pointers_.data(), int64_t(pointers_.size()), 0};
  implementations_[0] = &code;
  desc = {
      name, implementations_, operands_.data(), int64_t(operands_.size()), 0, 0,
      0};
}

thread_local rt::Reduction testReduction = rt::Reduction::Exact;
thread_local const char *testAttention = "own";

Result<TestDevice> makeTestDevice(rt::World &world,
                                  const TestRankOptions &options) {
  Result<const rt::DriverApi *> api = rt::DriverApi::ofProcess();
  if (!api.isOk())
    return api.status();
  rt::hal::DeviceOptions wanted;
  wanted.layout = options.layout();
  if (const char *graph = std::getenv("FSDP_TEST_GRAPH"))
    wanted.settings["graph"] = graph;
  if (const char *algorithms = std::getenv("FSDP_TEST_ALGORITHMS"))
    wanted.settings["algorithms"] = algorithms;
  if (testReduction == rt::Reduction::Nccl)
    wanted.settings["reduction"] = "nccl";
  wanted.settings["attention"] = testAttention;
  auto device = rt::CudaDevice::create(world, **api, wanted);
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

Result<std::unique_ptr<rt::CudaContext>> openFirstDevice() {
  Result<const rt::DriverApi *> driver = rt::DriverApi::ofProcess();
  if (!driver.isOk())
    return driver.status();
  return rt::CudaContext::create(**driver, 0);
}

Status onCuda(const TestRankOptions &options,
              const std::function<Status(TestRank &)> &body) {
  return runLocally(1, [&](rt::World &world) -> Status {
    auto rank = TestRank::create(world, options);
    return rank.isOk() ? body(**rank) : rank.status();
  });
}

} // namespace fsdp::test
