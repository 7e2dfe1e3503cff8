//===- DeviceSettings.cpp - What users choose of a device -----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "hal/DeviceSettings.h"

#include <algorithm>
#include <sstream>

namespace fsdp::rt::hal {

namespace {

std::vector<std::string> valuesOf(const DeviceSetting &setting) {
  std::vector<std::string> values;
  std::istringstream text(setting.values);
  for (std::string value; std::getline(text, value, '|');)
    values.push_back(value);
  return values;
}

Result<int> placeOf(const DeviceSetting &setting, const std::string &value) {
  std::vector<std::string> values = valuesOf(setting);
  auto found = std::find(values.begin(), values.end(), value);
  if (found == values.end())
    return Status::failed("expected " + listWords(values, "or") + ", got '" +
                          value + "'");
  return static_cast<int>(found - values.begin());
}

} // namespace

std::string
DeviceSetting::valueIn(const std::map<std::string, std::string> &given) const {
  auto found = given.find(name);
  return found == given.end() ? initial : found->second;
}

const DeviceSetting *DeviceSettings::find(const std::string &name) const {
  for (const DeviceSetting &setting : all)
    if (name == setting.name)
      return &setting;
  return nullptr;
}

Status DeviceSettings::check(const std::string &name,
                             const std::string &value) const {
  if (const DeviceSetting *setting = find(name))
    return placeOf(*setting, value).status();
  std::vector<std::string> names;
  for (const DeviceSetting &setting : all)
    names.push_back(setting.name);
  return Status::failed(std::string("expected a setting of ") + noun + ", " +
                        listWords(names, "or") + ", got '" + name + "'");
}

Result<std::map<std::string, int>>
DeviceSettings::read(const std::map<std::string, std::string> &given) const {
  for (const auto &[name, value] : given)
    if (Status s = check(name, value))
      return s.withContext("--" + name);
  std::map<std::string, int> places;
  for (const DeviceSetting &setting : all) {
    Result<int> place = placeOf(setting, setting.valueIn(given));
    if (!place.isOk())
      return place.status();
    places[setting.name] = *place;
  }
  return places;
}

} // namespace fsdp::rt::hal
