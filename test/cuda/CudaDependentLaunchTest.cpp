//===- CudaDependentLaunchTest.cpp - Launches that begin early ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which launches are dependent, the emulated driver checks: it ends the process
// where one comes after something else than a kernel.
//
//===----------------------------------------------------------------------===//

#include "CudaTest.h"

#include "fsdp-rt/dependent-launch.h"

#include <numeric>

namespace fsdp::test {
namespace {

using rt::Status;

constexpr int64_t count = 256, bytes = count * 4;

/// What a kernel executes before its first access to global memory.
std::string dependentLaunchLines() {
  return std::string("  ") + rt::launchDependentsLine + "\n  " +
         rt::waitForGridLine + "\n";
}

/// The test's kernels, of which each waits before its first access to global
/// memory.
std::string waitingText() {
  std::string text = testKernels().ptx;
  for (size_t at = 0; (at = text.find(".entry", at)) != std::string::npos;) {
    at = std::min(text.find("ld.global", at), text.find("st.global", at));
    if (at == std::string::npos)
      break;
    std::string lines = dependentLaunchLines();
    text.insert(at, lines);
    at += lines.size();
  }
  return text;
}

/// (1, 2, ..) doubled twice, copied, doubled again, and once more.
Status doubleNumbers(const fsdp_rt_cuda_image_desc &image) {
  TestRankOptions options;
  options.arenaBytes = 64 << 10;
  options.groups = {{0}};
  return onCuda(options, [&](TestRank &rank) -> Status {
    CudaLaunch twice("twice", {{"double_it", 2, 128}, {"double_it", 4, 64}},
                     {0}, &image);
    CudaLaunch copied("copied", {{"double_it", 2, 128}}, {bytes}, &image);
    fsdp_rt_copy_desc copy = {nullptr, 0, bytes, bytes};
    std::vector<float> values(count), found(count);
    std::iota(values.begin(), values.end(), 1.0f);
    if (Status s = put(rank, 0, values))
      return s;
    if (Status s = runStep(rank, [&](fsdp_rt_context *ctx) {
          return fsdp_rt_launch(ctx, &twice.desc) || fsdp_rt_copy(ctx, &copy) ||
                 fsdp_rt_launch(ctx, &copied.desc) ||
                 fsdp_rt_launch(ctx, &copied.desc);
        }))
      return s;
    if (Status s = get(rank, bytes, found))
      return s;
    for (int64_t i = 0; i < count; ++i)
      EXPECT_EQ(found[size_t(i)], 16 * float(i + 1));
    return Status::ok();
  });
}

TEST(CudaDependentLaunch, OfCodeThatWaits) {
  std::string text = waitingText();
  fsdp_rt_cuda_image_desc image = {text.c_str(), 80, nullptr, 0, 1};
  EXPECT_CUDA_OK(doubleNumbers(image));
}

/// Its image does not say that it waits: each launch begins after the others
/// have ended.
TEST(CudaDependentLaunch, OfCodeThatSaysNothing) {
  EXPECT_CUDA_OK(doubleNumbers(testKernels()));
}

TEST(CudaDependentLaunch, OfCodeThatDoesNotWait) {
  fsdp_rt_cuda_image_desc image = {testKernels().ptx, 80, nullptr, 0, 1};
  Status status = doubleNumbers(image);
  EXPECT_HAS(status.message(), "CUDA_ERROR_LAUNCH_FAILED");
}

TEST(CudaDependentLaunch, TextForLaterCards) {
  std::string text = ".version 8.0\n.target sm_80\n  // sm_90: x;\n// other\n" +
                     dependentLaunchLines();
  EXPECT_EQ(rt::withDependentLaunch(text),
            ".version 8.0\n.target sm_90\n  x;\n// other\n"
            "  griddepcontrol.launch_dependents;\n  griddepcontrol.wait;\n");
  EXPECT_EQ(rt::withDependentLaunch("no PTX"), "no PTX");
}

} // namespace
} // namespace fsdp::test
