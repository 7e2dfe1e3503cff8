//===- CudaSettings.cpp - What a CUDA device may be told ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/CudaSettings.h"

#include <cstdlib>
#include <cstring>

namespace fsdp::rt {

namespace {

bool wantsBlocking() {
  const char *value = std::getenv("CUDA_LAUNCH_BLOCKING");
  return value && *value && std::strcmp(value, "0") != 0;
}

} // namespace

bool hasCudaSetting(const std::string &name) {
  return name == "graph" || name == "reduction";
}

Status checkCudaSetting(const std::string &name, const std::string &value) {
  if (!hasCudaSetting(name))
    return Status::failed("expected a setting of CUDA devices, graph or "
                          "reduction");
  if (name == "reduction") {
    if (value != "exact" && value != "nccl")
      return Status::failed("expected exact or nccl, got '" + value + "'");
    return Status::ok();
  }
  if (value != "auto" && value != "off" && value != "on")
    return Status::failed("expected auto, off or on, got '" + value + "'");
  return Status::ok();
}

Result<CudaSettings>
CudaSettings::read(const std::map<std::string, std::string> &settings) {
  CudaSettings read;
  read.isBlocking = wantsBlocking();
  std::string graph = "auto";
  for (const auto &[name, value] : settings) {
    if (Status s = checkCudaSetting(name, value))
      return s.withContext("--" + name);
    if (name == "graph")
      graph = value;
    else
      read.reduction = value == "nccl" ? Reduction::Nccl : Reduction::Exact;
  }
  if (graph == "on" && read.isBlocking)
    return Status::failed("--graph: expected auto or off beside "
                          "CUDA_LAUNCH_BLOCKING=1, which waits after each "
                          "call, got on");
  read.usesGraphs = graph != "off" && !read.isBlocking;
  return read;
}

} // namespace fsdp::rt
