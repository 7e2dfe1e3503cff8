//===- CudaTest.h - Programs of tests on a CUDA device ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Descriptors by hand and kernels in PTX. The device is whatever driver
// FSDP_CUDA_LIBS leads to, which in these tests is the emulated one.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CUDA_CUDATEST_H
#define FSDP_TEST_CUDA_CUDATEST_H

#include "FunctionStep.h"
#include "devices/cuda/driver/CudaContext.h"
#include "devices/cuda/nccl/NcclChannel.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::test {

/// A launch of functions of kernels(), with everything that it points at.
struct CudaLaunch {
  struct Function {
    const char *name;
    int64_t grid, block, sharedBytes = 0;
  };
  CudaLaunch(const char *name, std::vector<Function> functions,
             std::vector<int64_t> operands,
             const fsdp_rt_cuda_image_desc *image = nullptr);
  CudaLaunch(const CudaLaunch &) = delete;

  fsdp_rt_launch_desc desc;
  fsdp_rt_cuda_code_desc code;
  std::vector<fsdp_rt_cuda_kernel_desc> kernels;

private:
  std::vector<const fsdp_rt_cuda_kernel_desc *> pointers_;
  const void *implementations_[1];
  std::vector<int64_t> operands_;
};

/// The image of testKernelText().
const fsdp_rt_cuda_image_desc &testKernels();

/// Of the devices that a thread makes.
extern thread_local rt::Reduction testReduction;
extern thread_local const char *testAttention;

/// The emulated driver's first device.
rt::Result<std::unique_ptr<rt::CudaContext>> openFirstDevice();

/// A rank of a world of one, on the device.
rt::Status onCuda(const TestRankOptions &options,
                  const std::function<rt::Status(TestRank &)> &body);

/// Elements at an offset of the device's memory.
template <typename T>
rt::Status put(TestRank &rank, int64_t offset, const std::vector<T> &values) {
  return rank.memory().upload(offset, values.data(),
                              int64_t(values.size() * sizeof(T)));
}
template <typename T>
rt::Status get(TestRank &rank, int64_t offset, std::vector<T> &values) {
  return rank.memory().download(offset, values.data(),
                                int64_t(values.size() * sizeof(T)));
}

#define EXPECT_CUDA_OK(expression)                                             \
  do {                                                                         \
    rt::Status status_ = (expression);                                         \
    EXPECT_TRUE(status_.isOk()) << status_.message();                          \
  } while (false)
#define EXPECT_HAS(text, part)                                                 \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

} // namespace fsdp::test

#endif // FSDP_TEST_CUDA_CUDATEST_H
