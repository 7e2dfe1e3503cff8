//===- CpuTestDevice.cpp - Tests of the processors of this host -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionStep.h"
#include "devices/cpu/CpuDevice.h"

namespace fsdp::test {

rt::Result<TestDevice> makeTestDevice(rt::World &world,
                                      const TestRankOptions &options) {
  auto device = rt::CpuDevice::create(world, options.layout(), options.cpu());
  if (!device.isOk())
    return device.status();
  char *arena = (*device)->rank().arena();
  return TestDevice{std::move(*device), arena};
}

} // namespace fsdp::test
