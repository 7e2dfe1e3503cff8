//===- Registry.cpp - Devices and backends of this runtime ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "registry/Registry.h"

#include <algorithm>

namespace fsdp::rt {

#define FSDP_RT_DEVICE(definition) extern const hal::DeviceKind definition;
#define FSDP_RT_BACKEND(definition) extern const BackendKind definition;
#include "registry/Registry.def"

namespace {

const hal::DeviceKind *const devices[] = {
#define FSDP_RT_DEVICE(definition) &definition,
#include "registry/Registry.def"
};

const BackendKind *const backends[] = {
#define FSDP_RT_BACKEND(definition) &definition,
#include "registry/Registry.def"
};

template <typename Kinds>
std::string listNames(const Kinds &kinds) {
  std::vector<std::string> names;
  for (const auto *kind : kinds)
    names.push_back(kind->name);
  return listWords(names, "or");
}

template <typename Kinds>
std::string joinNames(const Kinds &kinds) {
  std::string text;
  for (const auto *kind : kinds)
    text += (text.empty() ? "" : "|") + std::string(kind->name);
  return text;
}

} // namespace

Status checkDevice(const std::string &name) {
  for (const hal::DeviceKind *device : devices)
    if (name == device->name)
      return Status::ok();
  return Status::failed("expected " + listNames(devices) + ", got '" + name +
                        "'");
}

Status checkSetting(const std::string &name, const std::string &value) {
  // Who has it knows what is wrong with the value.
  const hal::DeviceKind *refuses = devices[0];
  for (const hal::DeviceKind *device : devices) {
    if (!device->settings().find(name))
      continue;
    refuses = device;
    if (device->settings().check(name, value).isOk())
      break;
  }
  return refuses->settings().check(name, value);
}

std::vector<const hal::DeviceSetting *> deviceSettings() {
  std::vector<const hal::DeviceSetting *> all;
  for (const hal::DeviceKind *device : devices)
    for (const hal::DeviceSetting &setting : device->settings().all)
      if (std::none_of(all.begin(), all.end(), [&](auto *other) {
            return std::string(other->name) == setting.name;
          }))
        all.push_back(&setting);
  return all;
}

Result<DeviceChoice> findDevice(const std::string &name,
                                const std::vector<std::string> &targets) {
  std::string got;
  for (const std::string &target : targets)
    got += (got.empty() ? "" : ", ") + target;
  if (!name.empty())
    if (Status s = checkDevice(name))
      return s;
  for (const hal::DeviceKind *device : devices) {
    if (!name.empty() && name != device->name)
      continue;
    auto found = std::find(targets.begin(), targets.end(), device->target);
    if (found != targets.end())
      return DeviceChoice{device, static_cast<int>(found - targets.begin())};
    if (!name.empty())
      return Status::failed(std::string("expected a program compiled for ") +
                            device->target + ", which is what " + name +
                            " runs, got " + got);
  }
  std::string runs;
  for (const hal::DeviceKind *device : devices)
    if (runs.find(device->target) == std::string::npos)
      runs += (runs.empty() ? "" : " or ") + std::string(device->target);
  return Status::failed("expected a program compiled for " + runs +
                        ", which is what this runtime runs, got " + got);
}

std::vector<DeviceChoice> devicesFor(const std::vector<std::string> &targets) {
  std::vector<DeviceChoice> found;
  std::vector<bool> isTaken(targets.size());
  for (const hal::DeviceKind *device : devices) {
    auto at = std::find(targets.begin(), targets.end(), device->target);
    if (at == targets.end())
      continue;
    auto target = static_cast<size_t>(at - targets.begin());
    if (!isTaken[target])
      found.push_back({device, static_cast<int>(target)});
    isTaken[target] = true;
  }
  return found;
}

Result<const BackendKind *> findBackend(const std::string &name) {
  for (const BackendKind *backend : backends)
    if (name == backend->name)
      return backend;
  return Status::failed("expected " + listNames(backends) + ", got '" + name +
                        "'");
}

Result<const BackendKind *> backendFor(const LaunchInfo &launch) {
  Status refusal;
  for (const BackendKind *backend : backends) {
    if (!backend->isRankPerProcess)
      continue;
    refusal = backend->checkLaunch(launch);
    if (refusal.isOk())
      return backend;
  }
  // The last takes most.
  return refusal;
}

const BackendKind &defaultBackend(bool isRankPerProcess) {
  const BackendKind *found = backends[0];
  for (const BackendKind *backend : backends)
    if (backend->isRankPerProcess == isRankPerProcess) {
      found = backend;
      break;
    }
  return *found;
}

std::string deviceNames() { return joinNames(devices); }
std::string backendNames() { return joinNames(backends); }

} // namespace fsdp::rt
