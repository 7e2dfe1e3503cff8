//===- NvtxHeadersTest.cpp - Own declarations of NVTX and NVIDIA's --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/Nvtx.h"

#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace fsdp::rt {
namespace {

static_assert(nvtx::version == NVTX_VERSION);
static_assert(nvtx::asciiMessage == NVTX_MESSAGE_TYPE_ASCII);
static_assert(nvtx::numModules == NVTX_CB_MODULE_SIZE);
static_assert(nvtx::core2 == NVTX_CB_MODULE_CORE2);
static_assert(nvtx::domainRangePush == NVTX_CBID_CORE2_DomainRangePushEx);
static_assert(nvtx::domainRangePop == NVTX_CBID_CORE2_DomainRangePop);
static_assert(nvtx::domainCreate == NVTX_CBID_CORE2_DomainCreateA);
static_assert(nvtx::numFunctions[NVTX_CB_MODULE_CORE] == NVTX_CBID_CORE_SIZE);
static_assert(nvtx::numFunctions[NVTX_CB_MODULE_CUDA] == NVTX_CBID_CUDA_SIZE);
static_assert(nvtx::numFunctions[NVTX_CB_MODULE_OPENCL] ==
              NVTX_CBID_OPENCL_SIZE);
static_assert(nvtx::numFunctions[NVTX_CB_MODULE_CUDART] ==
              NVTX_CBID_CUDART_SIZE);
static_assert(nvtx::numFunctions[NVTX_CB_MODULE_CORE2] == NVTX_CBID_CORE2_SIZE);
static_assert(nvtx::numFunctions[NVTX_CB_MODULE_SYNC] == NVTX_CBID_SYNC_SIZE);
static_assert(nvtx::callbacksTable == NVTX_ETID_CALLBACKS);
static_assert(nvtx::versionTable == NVTX_ETID_VERSIONINFO);

#define FSDP_SAME_OFFSET(ours, our, theirs, their)                             \
  static_assert(offsetof(ours, our) == offsetof(theirs, their))
static_assert(sizeof(nvtx::EventAttributes) == sizeof(nvtxEventAttributes_t));
FSDP_SAME_OFFSET(nvtx::EventAttributes, size, nvtxEventAttributes_t, size);
FSDP_SAME_OFFSET(nvtx::EventAttributes, category, nvtxEventAttributes_t,
                 category);
FSDP_SAME_OFFSET(nvtx::EventAttributes, payload, nvtxEventAttributes_t,
                 payload);
FSDP_SAME_OFFSET(nvtx::EventAttributes, messageType, nvtxEventAttributes_t,
                 messageType);
FSDP_SAME_OFFSET(nvtx::EventAttributes, message, nvtxEventAttributes_t,
                 message);
static_assert(sizeof(nvtx::Callbacks) == sizeof(NvtxExportTableCallbacks));
FSDP_SAME_OFFSET(nvtx::Callbacks, getModuleFunctionTable,
                 NvtxExportTableCallbacks, GetModuleFunctionTable);
static_assert(sizeof(nvtx::VersionInfo) == sizeof(NvtxExportTableVersionInfo));
FSDP_SAME_OFFSET(nvtx::VersionInfo, version, NvtxExportTableVersionInfo,
                 version);
FSDP_SAME_OFFSET(nvtx::VersionInfo, setInjectionVersion,
                 NvtxExportTableVersionInfo, SetInjectionNvtxVersion);

/// The library that stands for a profiler's takes ranges of NVIDIA's own
/// client and of ours alike.
TEST(Nvtx, TheProfilersLibraryServesBothClients) {
  std::string log = testing::TempDir() + "nvtx-headers-log";
  std::remove(log.c_str());
  setenv("NVTX_INJECTION64_PATH", FSDP_TEST_NVTX, 1);
  setenv("FSDP_NVTX_LOG", log.c_str(), 1);
  nvtxDomainHandle_t domain = nvtxDomainCreateA("fsdp");
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = "outer";
  nvtxDomainRangePushEx(domain, &attributes);
  { NvtxRange range("inner"); }
  nvtxDomainRangePop(domain);
  std::ifstream file(log);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    lines.push_back(line);
  std::remove(log.c_str());
  EXPECT_EQ(lines, (std::vector<std::string>{"domain fsdp", "push 0 outer",
                                             "domain fsdp", "push 0 inner",
                                             "pop 0", "pop 0"}));
}

} // namespace
} // namespace fsdp::rt
