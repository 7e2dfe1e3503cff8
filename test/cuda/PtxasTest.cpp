//===- PtxasTest.cpp - NVIDIA's assembler on texts of the runtime ---------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearCuda.h"
#include "TestKernels.h"
#include "devices/cuda/kernels/OwnKernels.h"
#include "fsdp-rt/dependent-launch.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace fsdp {
namespace {

/// The exit status of the assembler.
int assemble(const char *ptx, int capability) {
  std::string file = testing::TempDir() + "fsdp-ptxas-test.ptx";
  std::ofstream(file) << ptx;
  return std::system((std::string(FSDP_PTXAS) + " -arch=sm_" +
                      std::to_string(capability) + " -o /dev/null " + file)
                         .c_str());
}

TEST(Ptxas, TakesOwnKernelsAndThoseOfTests) {
  for (int capability : {80, 90}) {
    // Dependent launch is in the text for sm_90, as code or as comments.
    auto textOf = [&](const std::string &ptx) {
      return capability < 90 ? ptx : rt::withDependentLaunch(ptx);
    };
    EXPECT_EQ(assemble(test::testKernelText(), capability), 0);
    EXPECT_EQ(assemble(linear_ptx, capability), 0);
    auto expectTaken = [&](const rt::OwnLaunch &launch) {
      const auto *image =
          static_cast<const fsdp_rt_cuda_image_desc *>(launch.kernel.image);
      EXPECT_EQ(assemble(textOf(image->ptx).c_str(), capability), 0);
    };
    expectTaken(rt::markLaunch(0));
    for (rt::Dtype dtype :
         {FSDP_RT_F32, FSDP_RT_F64, FSDP_RT_F16, FSDP_RT_BF16, FSDP_RT_I64,
          FSDP_RT_I32, FSDP_RT_I16, FSDP_RT_I8, FSDP_RT_U8})
      expectTaken(rt::sumLaunch({dtype, 0, 0, 1, 1}));
    for (rt::Dtype narrow : {FSDP_RT_F16, FSDP_RT_BF16}) {
      rt::SumTypes ofNode(narrow, FSDP_RT_F32), overNodes(FSDP_RT_F32, narrow);
      expectTaken(rt::sumLaunch({ofNode, 0, 0, 1, 1}));
      expectTaken(rt::sumLaunch({overNodes, 0, 0, 1, 1}));
    }
  }
  EXPECT_NE(assemble(".version 7.0\n.target sm_80\n.wrong\n", 80), 0);
}

} // namespace
} // namespace fsdp
