//===- Registry.h - Devices and backends of this runtime --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_REGISTRY_REGISTRY_H
#define FSDP_RT_REGISTRY_REGISTRY_H

#include "control/Backend.h"
#include "core/Status.h"
#include "hal/DeviceKind.h"

#include <string>
#include <vector>

namespace fsdp::rt {

/// A device, and which of the targets that were asked for it runs, by number.
struct DeviceChoice {
  const hal::DeviceKind *device = nullptr;
  int target = 0;
};

/// The device called `name`; where that is empty, the first that runs programs
/// with code for one of `targets`. Refuses others with the names that there
/// are.
Result<DeviceChoice> findDevice(const std::string &name,
                                const std::vector<std::string> &targets);

/// For each of `targets` the first device that runs it, in the registry's
/// order.
std::vector<DeviceChoice> devicesFor(const std::vector<std::string> &targets);

/// Of all devices, in the registry's order; of one name the first.
std::vector<const hal::DeviceSetting *> deviceSettings();

/// Refuses a setting that no device has, or a value that none of those which
/// have it can take.
Status checkSetting(const std::string &name, const std::string &value);

/// Refuses a device that there is not.
Status checkDevice(const std::string &name);

/// The backend called `name`. Refuses others with the names that there are.
Result<const BackendKind *> findBackend(const std::string &name);

/// The first that can connect processes, of which each is a rank and `launch`
/// is one. Refuses those that none can.
Result<const BackendKind *> backendFor(const LaunchInfo &launch);

/// The first whose processes are, or are not, one rank each.
const BackendKind &defaultBackend(bool isRankPerProcess);

/// "cpu", "local|mpi": for help.
std::string deviceNames();
std::string backendNames();

} // namespace fsdp::rt

#endif // FSDP_RT_REGISTRY_REGISTRY_H
