//===- DeviceSettings.h - What users choose of a device ---------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_DEVICESETTINGS_H
#define FSDP_RT_HAL_DEVICESETTINGS_H

#include "core/Status.h"

#include <map>
#include <string>
#include <vector>

namespace fsdp::rt::hal {

/// An option of the command line, and of fsdp_set_option, by its name.
struct DeviceSetting {
  const char *name;    // "blas"
  const char *values;  // "auto|openblas|onednn"
  const char *initial; // its value where it is not given
  const char *help;    // names the initial value, too
  /// Whether ranks that are given different values are refused before they make
  /// devices.
  bool mustAgree = false;

  /// Its value where a user gives these, by name.
  std::string valueIn(const std::map<std::string, std::string> &given) const;
};

/// The settings of a kind of devices. Command line, --help, the comparison
/// among ranks and fsdp_set_option read them from here.
struct DeviceSettings {
  /// What messages call such devices: "processors".
  const char *noun;
  std::vector<DeviceSetting> all;

  /// Null: there is none of this name.
  const DeviceSetting *find(const std::string &name) const;
  /// Refuses a setting that is not among them, and values that are not among
  /// the setting's.
  Status check(const std::string &name, const std::string &value) const;
  /// By name, for each setting the place of its value among its values: the
  /// enumerator of an enumeration that has them in their order.
  Result<std::map<std::string, int>>
  read(const std::map<std::string, std::string> &given) const;
};

} // namespace fsdp::rt::hal

#endif // FSDP_RT_HAL_DEVICESETTINGS_H
