//===- DeviceKind.h - How devices are made ----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_DEVICEKIND_H
#define FSDP_RT_HAL_DEVICEKIND_H

#include "core/Status.h"
#include "hal/Device.h"
#include "hal/DeviceSettings.h"
#include "hal/World.h"

#include <memory>
#include <string>
#include <vector>

namespace fsdp::rt::hal {

/// What a registry knows of a kind of devices.
struct DeviceKind {
  const char *name;
  /// Programs with code for it run: the `kind` of one of the manifest's
  /// `targets`.
  const char *target;
  /// Refuses a host that cannot run code compiled for the processor `cpu` with
  /// `features`: the manifest's entry of the target.
  Status (*checkHost)(const std::string &cpu,
                      const std::vector<std::string> &features);
  const DeviceSettings &(*settings)();
  /// How many threads of this host one rank keeps busy at a time, if its
  /// collectives cross a link, or do not, and `ranksOnHost` ranks share the
  /// host.
  int (*countBusyThreads)(const DeviceOptions &options, bool hasLink,
                          int ranksOnHost);
  /// Whether threads of the host compute, and move the bytes of transfers.
  bool computesOnHost;
  /// Makes the device of one rank, for a layout that checkLayout() accepts.
  /// Collective over all ranks; `world` must outlive the device.
  Result<std::unique_ptr<Device>> (*create)(World &world,
                                            const DeviceOptions &options);
};

} // namespace fsdp::rt::hal

#endif // FSDP_RT_HAL_DEVICEKIND_H
