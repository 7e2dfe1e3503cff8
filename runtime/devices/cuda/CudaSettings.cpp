//===- CudaSettings.cpp - What a CUDA device may be told ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/CudaSettings.h"

#include <cstdlib>
#include <cstring>
#include <vector>

namespace fsdp::rt {

namespace {

bool wantsBlocking() {
  const char *value = std::getenv("CUDA_LAUNCH_BLOCKING");
  return value && *value && std::strcmp(value, "0") != 0;
}

/// By name, what it may be.
struct Setting {
  const char *name;
  std::vector<const char *> values;
  const char *expected;
};
const Setting *findSetting(const std::string &name) {
  static const std::vector<Setting> all = {
      {"algorithms", {"first", "fastest"}, "first or fastest"},
      {"attention", {"own", "cudnn", "auto"}, "own, cudnn or auto"},
      {"channel", {"nccl", "host"}, "nccl or host"},
      {"dependent-launch", {"auto", "off", "on"}, "auto, off or on"},
      {"graph", {"auto", "off", "on"}, "auto, off or on"},
      {"reduction", {"exact", "nccl"}, "exact or nccl"}};
  for (const Setting &setting : all)
    if (name == setting.name)
      return &setting;
  return nullptr;
}

} // namespace

bool hasCudaSetting(const std::string &name) {
  return findSetting(name) != nullptr;
}

Status checkCudaSetting(const std::string &name, const std::string &value) {
  const Setting *setting = findSetting(name);
  if (!setting)
    return Status::failed("expected a setting of CUDA devices, algorithms, "
                          "attention, channel, dependent-launch, graph or "
                          "reduction");
  for (const char *allowed : setting->values)
    if (value == allowed)
      return Status::ok();
  return Status::failed(std::string("expected ") + setting->expected +
                        ", got '" + value + "'");
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
    else if (name == "dependent-launch")
      read.dependentLaunch = value == "off"  ? DependentLaunch::Off
                             : value == "on" ? DependentLaunch::On
                                             : DependentLaunch::Auto;
    else if (name == "algorithms")
      read.algorithms =
          value == "fastest" ? Algorithms::Fastest : Algorithms::First;
    else if (name == "attention")
      read.attention = value == "cudnn"  ? AttentionBy::Cudnn
                       : value == "auto" ? AttentionBy::Auto
                                         : AttentionBy::Own;
    else if (name == "channel")
      read.exchange = value == "host" ? Exchange::Host : Exchange::Nccl;
    else
      read.reduction = value == "nccl" ? Reduction::Nccl : Reduction::Exact;
  }
  if (graph == "on" && read.isBlocking)
    return Status::failed("--graph: expected auto or off beside "
                          "CUDA_LAUNCH_BLOCKING=1, which waits after each "
                          "call, got on");
  bool isStaged = read.exchange == Exchange::Host;
  if (graph == "on" && isStaged)
    return Status::failed(
        "--graph: expected auto or off beside --channel host, "
        "in which the host waits for other ranks, got on");
  if (read.reduction == Reduction::Nccl && isStaged)
    return Status::failed("--reduction: expected exact beside --channel host, "
                          "which does without NCCL, got nccl");
  read.usesGraphs = graph != "off" && !read.isBlocking && !isStaged;
  return read;
}

} // namespace fsdp::rt
