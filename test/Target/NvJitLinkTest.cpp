//===- NvJitLinkTest.cpp - Machine code by NVIDIA's library ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Target/CUDA/CudaTarget.h"

#include "gtest/gtest.h"

using namespace mlir::fsdp;

namespace {

constexpr const char *kKernel = ".version 8.0\n"
                                ".target sm_80\n"
                                ".address_size 64\n"
                                ".visible .entry kernel() { ret; }\n";

TEST(NvJitLink, MakesMachineCode) {
  std::string library = findNvJitLink();
  if (library.empty())
    GTEST_SKIP() << "expected libnvJitLink";
  auto cubin = linkPtx(library, kKernel, "sm_90");
  ASSERT_TRUE(bool(cubin)) << llvm::toString(cubin.takeError());
  EXPECT_EQ(cubin->substr(0, 4), "\x7f"
                                 "ELF");
  auto wrong =
      linkPtx(library, ".version 8.0\n.target sm_80\n.wrong\n", "sm_90");
  ASSERT_FALSE(bool(wrong));
  EXPECT_NE(llvm::toString(wrong.takeError())
                .find("expected it to take the kernels, got "),
            std::string::npos);
}

TEST(NvJitLink, LibrariesThatAreOfNoUse) {
  auto missing = linkPtx("/nowhere/libnvJitLink.so.13", kKernel, "sm_90");
  ASSERT_FALSE(bool(missing));
  EXPECT_NE(llvm::toString(missing.takeError()).find("cannot open"),
            std::string::npos);
  auto other = linkPtx("libc.so.6", kKernel, "sm_90");
  ASSERT_FALSE(bool(other));
  EXPECT_EQ(llvm::toString(other.takeError()),
            "expected a function nvJitLinkCreate, found none");
}

} // namespace
