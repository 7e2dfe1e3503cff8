//===- CudaSettings.cpp - What a CUDA device may be told ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/CudaSettings.h"

#include <cstdlib>
#include <cstring>

namespace fsdp::rt {

namespace {

bool wantsBlocking() {
  const char *value = std::getenv("CUDA_LAUNCH_BLOCKING");
  return value && *value && std::strcmp(value, "0") != 0;
}

} // namespace

const hal::DeviceSettings &cudaSettings() {
  static const hal::DeviceSettings settings = {
      "CUDA devices",
      {{"graph", "auto|off|on", "auto",
        "whether each program is one CUDA graph, and not issued call by call; "
        "default: auto, on but under CUDA_LAUNCH_BLOCKING=1"},
       {"dependent-launch", "auto|off|on", "auto",
        "whether a kernel may begin before the one before it has ended, and "
        "wait for it (programmatic dependent launch); default: auto, on GPUs "
        "of sm_90 and later"},
       {"algorithms", "first|fastest", "first",
        "which of cuBLASLt's algorithms a product has: the one that it "
        "proposes first, or the fastest of eight, measured before the first "
        "step and kept for later runs; default: first"},
       {"attention", "own|cudnn|auto", "auto",
        "whose kernels compute attention on CUDA devices: the compiler's, "
        "cuDNN's where it takes an attention, or those that take less time; "
        "default: auto",
        /*mustAgree=*/true},
       {"channel", "nccl|host", "nccl",
        "what carries the bytes that ranks of CUDA devices exchange: NCCL, or "
        "the host's memory, slowly, where ranks share a GPU; default: nccl",
        /*mustAgree=*/true},
       {"reduction", "auto|exact|nccl", "auto",
        "who adds up what ranks of CUDA devices contribute: the runtime, with "
        "the bits of processors, or NCCL, in its own order; default: auto, as "
        "the program was compiled",
        /*mustAgree=*/true}}};
  return settings;
}

Result<CudaSettings>
CudaSettings::read(const std::map<std::string, std::string> &settings) {
  Result<std::map<std::string, int>> places = cudaSettings().read(settings);
  if (!places.isOk())
    return places.status();
  enum class Graph { Auto, Off, On };
  auto graph = static_cast<Graph>(places->at("graph"));
  CudaSettings read;
  read.isBlocking = wantsBlocking();
  read.dependentLaunch =
      static_cast<DependentLaunch>(places->at("dependent-launch"));
  read.algorithms = static_cast<Algorithms>(places->at("algorithms"));
  read.attention = static_cast<AttentionBy>(places->at("attention"));
  read.exchange = static_cast<Exchange>(places->at("channel"));
  if (int place = places->at("reduction"))
    read.reduction = static_cast<Reduction>(place - 1);
  if (graph == Graph::On && read.isBlocking)
    return Status::failed("--graph: expected auto or off beside "
                          "CUDA_LAUNCH_BLOCKING=1, which waits after each "
                          "call, got on");
  bool isStaged = read.exchange == Exchange::Host;
  if (graph == Graph::On && isStaged)
    return Status::failed(
        "--graph: expected auto or off beside --channel host, "
        "in which the host waits for other ranks, got on");
  if (read.reduction == Reduction::Nccl && isStaged)
    return Status::failed("--reduction: expected exact beside --channel host, "
                          "which does without NCCL, got nccl");
  read.requiresGraphs = graph == Graph::On;
  read.usesGraphs = graph != Graph::Off && !read.isBlocking && !isStaged;
  return read;
}

} // namespace fsdp::rt
