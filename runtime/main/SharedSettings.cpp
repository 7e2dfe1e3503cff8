//===- SharedSettings.cpp - What all ranks must be given alike ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/SharedSettings.h"

#include "data/CheckpointOrigin.h"
#include "data/Numbers.h"

namespace fsdp::rt {

namespace {

std::string numberOrNone(const std::optional<int64_t> &number) {
  return number ? std::to_string(*number) : "none";
}

std::string givenOrNone(const std::string &path, const char *what) {
  return path.empty() ? "none" : what;
}

const char *nameOf(RunAhead runAhead) {
  return runAhead == RunAhead::Auto  ? "auto"
         : runAhead == RunAhead::Off ? "off"
                                     : "on";
}

std::string startOf(const Options &options) {
  std::string start = options.startsFrom();
  if (options.seed)
    start += " seed=" + std::to_string(*options.seed);
  if (options.resumesIfAny())
    return "--resume auto, or " + start;
  if (options.resume.empty())
    return start;
  return start.empty() ? "--resume" : "--resume, beside " + start;
}

} // namespace

std::vector<Setting>
agreedSettings(const hal::DeviceKind &device,
               const std::map<std::string, std::string> &given) {
  std::vector<Setting> settings = {{"--device", device.name}};
  for (const hal::DeviceSetting &setting : device.settings().all)
    if (setting.mustAgree)
      settings.push_back(
          {std::string("--") + setting.name, setting.valueIn(given)});
  return settings;
}

Setting programSetting(const data::Manifest &manifest) {
  std::string text = "fingerprint " + manifest.fingerprint;
  for (const data::Program &program : manifest.programs)
    if (program.certificate)
      text += ", certificate " + program.certificate->program;
  return {"program", text};
}

std::vector<Setting> sharedSettings(const Options &options,
                                    const data::Manifest &manifest) {
  // The program first: another one has other scalars.
  std::vector<Setting> settings = {
      programSetting(manifest),
      {"--steps", numberOrNone(options.steps)},
      {"--accumulate", std::to_string(options.microBatches())},
      {"--lr-schedule",
       options.rateSchedule ? options.rateSchedule->describe() : "none"},
      {"--token-bits", std::to_string(options.dataOptions.tokenBits)},
      {"--data-ranks", data::nameOf(options.dataOptions.ranks)},
      {"initial state", startOf(options)},
      {"--save", givenOrNone(options.save, "a directory")},
      {"--save-every", numberOrNone(options.saveEvery)},
      {"--keep", numberOrNone(options.keep)},
      {"--save-trained", options.saveTrained ? "on" : "off"},
      {"--eval-data", givenOrNone(options.evalData, "data")},
      {"--eval-every", numberOrNone(options.evalEvery)},
      {"--eval-steps", numberOrNone(options.evalSteps)},
      {"--save-outputs", givenOrNone(options.saveOutputs, "a file")},
      {"--trace", givenOrNone(options.trace, "a directory")},
      {"--stop-on-nan", options.stopOnNan ? "on" : "off"},
      {"--run-ahead", nameOf(options.runAhead)}};
  for (const data::Scalar &scalar : manifest.train().scalars) {
    double value = scalar.init.value_or(0);
    for (const auto &[name, given] : options.scalars)
      if (name == scalar.name)
        value = given;
    settings.push_back(
        {data::optionOf(scalar.name), data::formatNumber(value)});
  }
  return settings;
}

} // namespace fsdp::rt
