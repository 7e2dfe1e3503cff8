//===- CudaWork.cpp - What a stream is given at once ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/CudaWork.h"

namespace fsdp::rt {

Status LaunchWork::enqueue(cu::Stream stream) const {
  return context_.check(
      context_.api().launch(kernel_.function, kernel_.grid, 1, 1, kernel_.block,
                            1, 1, kernel_.sharedBytes, stream,
                            parameters_->addresses(), nullptr),
      "cuLaunchKernel");
}

Status LaunchWork::enqueueEarly(cu::Stream stream) const {
  cu::LaunchAttribute attribute = {};
  attribute.id = cu::launchProgrammaticStreamSerialization;
  attribute.value.programmaticStreamSerialization = 1;
  cu::LaunchConfig config = {};
  config.gridX = kernel_.grid;
  config.blockX = kernel_.block;
  config.gridY = config.gridZ = config.blockY = config.blockZ = 1;
  config.sharedBytes = kernel_.sharedBytes;
  config.stream = stream;
  config.attributes = &attribute;
  config.attributeCount = 1;
  return context_.check(
      context_.api().launchWith(&config, kernel_.function,
                                parameters_->addresses(), nullptr),
      "cuLaunchKernelEx");
}

std::string LaunchWork::describeShape() const {
  return std::to_string(kernel_.grid) + " x " + std::to_string(kernel_.block) +
         " of " + std::to_string(kernel_.sharedBytes);
}

} // namespace fsdp::rt
