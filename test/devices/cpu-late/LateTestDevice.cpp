//===- LateTestDevice.cpp - Tests of processors whose queues run late -----===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Backends.h"
#include "FunctionStep.h"
#include "LateDevice.h"

#include <gtest/gtest.h>

#include <atomic>

namespace fsdp::test {

rt::Result<TestDevice> makeTestDevice(rt::World &world,
                                      const TestRankOptions &options) {
  static std::atomic<uint64_t> seed{0};
  auto device =
      rt::LateDevice::create(world, options.layout(), options.cpu(), ++seed);
  if (!device.isOk())
    return device.status();
  return TestDevice{std::move(*device)};
}

/// Messages as short as those of the conformance suite.
class SmallMessages : public testing::Environment {
  void SetUp() override { setMpiSizes(/*chunkBytes=*/262144, 262144); }
};
[[maybe_unused]] testing::Environment *const smallMessages =
    testing::AddGlobalTestEnvironment(new SmallMessages);

} // namespace fsdp::test
