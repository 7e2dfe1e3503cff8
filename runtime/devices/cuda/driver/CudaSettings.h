//===- CudaSettings.h - What a CUDA device may be told ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_CUDASETTINGS_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_CUDASETTINGS_H

#include "core/Status.h"
#include "hal/DeviceSettings.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace fsdp::rt {

// Enumerators are in the order of the values in cudaSettings().

/// Who adds up what ranks contribute; after auto.
enum class Reduction : int32_t {
  /// The runtime, in the order of abi.def.
  Exact,
  /// NCCL, in its own.
  Nccl
};

/// As the setting has it.
inline const char *nameOf(Reduction reduction) {
  return reduction == Reduction::Exact ? "exact" : "nccl";
}

/// What carries the bytes that ranks exchange.
enum class Exchange : int32_t {
  Nccl,
  /// The host's memory and its channels.
  Host
};

/// Of products.
enum class Algorithms : int32_t {
  /// That the library proposes first.
  First,
  /// Of those that it proposes, as measured when a program is loaded.
  Fastest
};

/// Programmatic dependent launch: kernels may begin before the one before them
/// has ended, and wait for it.
enum class DependentLaunch : int32_t {
  /// Where the device and the driver have it.
  Auto,
  Off,
  /// Refused where they have not.
  On
};

/// Who computes attention.
enum class AttentionBy : int32_t {
  /// Kernels of the compiler.
  Own,
  /// cuDNN, what it can.
  Cudnn,
  /// Whoever takes less time for it.
  Auto
};

/// With the initial values of cudaSettings().
struct CudaSettings {
  /// Whether a run is one graph, and whether a program that cannot be one is
  /// refused.
  bool usesGraphs = true, requiresGraphs = false;
  /// Whether the host waits after each call, so that a failure names it: the
  /// environment variable CUDA_LAUNCH_BLOCKING. Then nothing is a graph.
  bool isBlocking = false;
  /// None: as the program was compiled.
  std::optional<Reduction> reduction;
  Exchange exchange = Exchange::Nccl;
  DependentLaunch dependentLaunch = DependentLaunch::Auto;
  Algorithms algorithms = Algorithms::First;
  AttentionBy attention = AttentionBy::Auto;

  /// Whether the host waits while it issues a program's calls.
  bool hostWaits() const { return isBlocking || exchange == Exchange::Host; }

  /// Of a device's settings and the environment.
  static Result<CudaSettings>
  read(const std::map<std::string, std::string> &settings);
};

const hal::DeviceSettings &cudaSettings();

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_CUDASETTINGS_H
