//===- CudnnLibraryTest.cpp - Graphs of attention and cuDNN itself --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whether NVIDIA's cuDNN, where there is one, has an engine for the graphs that
// the device composes. Nothing is executed: it builds plans for a device that
// is described to it, beside a driver that only loads code.
//
//===----------------------------------------------------------------------===//

#include "AttentionDescriptor.h"

#include "devices/cuda/dnn/CudnnAttention.h"
#include "devices/cuda/driver/Library.h"

#include <dlfcn.h>

#include <gtest/gtest.h>

namespace fsdp::test {
namespace {

using rt::CudnnApi;

/// Of an H100, as the library writes such descriptions; and with what differs
/// of cards of other generations.
std::string describeCard(int capability) {
  bool isHopper = capability == 90;
  auto number = [](int64_t value) { return std::to_string(value); };
  return "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,"
         "1024,64],\"regsPerBlock\":65536,\"multiProcessorCount\":" +
         number(isHopper ? 132 : 108) +
         ",\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
         "\"maxSharedMemoryPerBlockOptin\":" +
         number(capability == 80 ? 166912 : 232448) +
         ",\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
         "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
         "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"
         "\"supportCoopLaunch\":1,\"totalGlobalMem\":85000000000,"
         "\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,"
         "\"l2CacheSize\":52428800,\"cudaDeviceId\":0,\"deviceVer\":" +
         number(capability * 10) +
         ",\"driverVer\":13000,\"deviceName\":\"a card\"}";
}

class CudnnLibrary : public testing::Test {
protected:
  void SetUp() override {
    if (std::string(FSDP_CUDNN_DIRECTORY).empty())
      GTEST_SKIP() << "no cuDNN was found";
    ASSERT_TRUE(dlopen(FSDP_TEST_NO_DEVICE, RTLD_NOW | RTLD_GLOBAL))
        << dlerror();
    static const rt::Result<CudnnApi> opened =
        CudnnApi::open({FSDP_CUDNN_DIRECTORY});
    ASSERT_TRUE(opened.isOk()) << opened.status().message();
    api = &*opened;
  }

  /// The plan of one pass, or why there is none.
  rt::Result<std::unique_ptr<rt::CudnnPlan>>
  plan(const AttentionDescriptor &attention, bool backward, int capability = 90,
       uint64_t digest = 0) {
    auto viewed = rt::viewForCudnn(attention.get(backward), backward,
                                   {api->getVersion(), capability});
    if (!viewed.isOk())
      return viewed.status();
    auto device = rt::CudnnDevice::describe(*api, describeCard(capability));
    if (!device.isOk())
      return device.status();
    auto composed = rt::composeAttention(*api, *device, *viewed);
    if (!composed.isOk())
      return composed.status();
    operations = composed->graph->count();
    return rt::CudnnPlan::choose(*api, *device, std::move(composed->graph),
                                 digest);
  }

  void expectBoth(const AttentionDescriptor &attention, int capability = 90) {
    for (bool backward : {false, true}) {
      auto made = plan(attention, backward, capability);
      ASSERT_TRUE(made.isOk()) << made.status().message();
      std::printf("%s: %s, %zu operations, %s, %lld bytes\n",
                  attention.name.c_str(), backward ? "backward" : "forward",
                  operations, (*made)->text().c_str(),
                  static_cast<long long>((*made)->workspaceBytes()));
      // What is computed in a fixed order keeps the scores' gradients.
      const AttentionDescriptor &a = attention;
      if (backward) {
        EXPECT_GE((*made)->workspaceBytes(),
                  a.batch * a.heads * a.queries * a.keys * 2);
      }
    }
  }

  const CudnnApi *api = nullptr;
  size_t operations = 0;
};

TEST_F(CudnnLibrary, ViewsOfOneBuffer) {
  AttentionDescriptor gpt2;
  gpt2.name = "gpt2";
  gpt2.batch = 8;
  gpt2.heads = gpt2.keyHeads = 12;
  gpt2.queries = gpt2.keys = 1024;
  gpt2.layOutAsOneBuffer();
  for (bool causal : {true, false}) {
    gpt2.causal = causal;
    expectBoth(gpt2);
  }
}

TEST_F(CudnnLibrary, HeadsThatShareKeys) {
  for (int64_t head : {64, 128})
    for (bool causal : {true, false}) {
      AttentionDescriptor llama;
      llama.name = "llama, head " + std::to_string(head);
      llama.batch = 2;
      llama.heads = 8;
      llama.keyHeads = 2;
      llama.queries = llama.keys = 2048;
      llama.head = head;
      llama.causal = causal;
      llama.layOutSeparately();
      expectBoth(llama);
    }
}

TEST_F(CudnnLibrary, RotatedQueriesAndKeys) {
  AttentionDescriptor llama;
  llama.name = "rotated";
  llama.batch = 4;
  llama.heads = 4;
  llama.keyHeads = 2;
  llama.queries = llama.keys = 1024;
  llama.head = 8;
  llama.layOutRotated();
  expectBoth(llama);
}

TEST_F(CudnnLibrary, Sizes) {
  AttentionDescriptor sizes;
  sizes.batch = 2;
  sizes.heads = sizes.keyHeads = 4;
  for (int64_t head : {8, 72, 256}) {
    sizes.name = "head " + std::to_string(head);
    sizes.head = head;
    sizes.layOutSeparately();
    expectBoth(sizes);
  }
  sizes.head = 64;
  for (auto [queries, keys] :
       {std::pair<int64_t, int64_t>(17, 17), {1000, 1000}, {128, 1000}}) {
    sizes.name = std::to_string(queries) + " queries";
    sizes.queries = queries;
    sizes.keys = keys;
    sizes.causal = queries == keys;
    sizes.layOutSeparately();
    expectBoth(sizes);
  }
}

TEST_F(CudnnLibrary, F16) {
  AttentionDescriptor half;
  half.name = "f16";
  half.dtype = FSDP_RT_F16;
  half.layOutSeparately();
  expectBoth(half);
}

TEST_F(CudnnLibrary, OtherCards) {
  AttentionDescriptor attention;
  attention.heads = 4;
  attention.keyHeads = 2;
  // Sums of dq in f32 would take an eighth of the scores' gradients.
  attention.queries = attention.keys = 1024;
  attention.layOutSeparately();
  for (int capability : {80, 100, 120}) {
    attention.name = "sm_" + std::to_string(capability);
    expectBoth(attention, capability);
  }
}

/// A configuration that has been chosen is found again, and no other.
TEST_F(CudnnLibrary, ByDigest) {
  AttentionDescriptor attention;
  attention.layOutSeparately();
  auto first = plan(attention, false);
  ASSERT_TRUE(first.isOk()) << first.status().message();
  uint64_t digest = (*first)->digest();
  auto again = plan(attention, false, 90, digest);
  ASSERT_TRUE(again.isOk()) << again.status().message();
  EXPECT_EQ((*again)->text(), (*first)->text());
  EXPECT_FALSE(plan(attention, false, 90, digest + 1).isOk());
}

} // namespace
} // namespace fsdp::test
