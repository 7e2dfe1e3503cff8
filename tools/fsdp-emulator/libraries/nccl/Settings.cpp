//===- Settings.cpp - What the environment asks of the double -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Settings.h"

#include <cstdlib>
#include <cstring>
#include <sstream>

namespace fsdp::emulator::nccl {

namespace {

[[noreturn]] void reject(const std::string &name, const std::string &expected) {
  report("expected " + expected + " for " + name + ", got '" +
         std::getenv(name.c_str()) + "'");
  std::_Exit(70);
}

double readNumber(const char *name, double value) {
  const char *text = std::getenv(name);
  if (!text)
    return value;
  char *end = nullptr;
  value = std::strtod(text, &end);
  if (end == text || *end || value < 0)
    reject(name, "a number");
  return value;
}

std::vector<std::string> split(const std::string &text, char by) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, by);)
    parts.push_back(part);
  return parts;
}

Settings read() {
  Settings settings;
  settings.version = int(readNumber("FSDP_NCCL_VERSION", settings.version));
  settings.timeout = readNumber("FSDP_NCCL_TIMEOUT", settings.timeout);
  const char *rounding = std::getenv("FSDP_NCCL_ROUNDING");
  if (rounding && std::strcmp(rounding, "hop") != 0 &&
      std::strcmp(rounding, "once") != 0)
    reject("FSDP_NCCL_ROUNDING", "hop or once");
  settings.isRoundedAtHops = !rounding || std::strcmp(rounding, "hop") == 0;
  const char *faults = std::getenv("FSDP_NCCL_FAULT");
  for (const std::string &text : split(faults ? faults : "", ',')) {
    std::vector<std::string> words = split(text, ':');
    if (words.size() < 3 || words.size() > 4)
      reject("FSDP_NCCL_FAULT", "function:n:code or function:n:code:device");
    Fault fault = {words[0], std::strtoull(words[1].c_str(), nullptr, 10),
                   std::atoi(words[2].c_str()),
                   words.size() == 4 ? std::atoi(words[3].c_str()) : -1};
    if (fault.number == 0 || fault.code == 0)
      reject("FSDP_NCCL_FAULT", "numbers from 1 on");
    settings.faults.push_back(fault);
  }
  const char *traffic = std::getenv("FSDP_NCCL_TRAFFIC");
  settings.trafficFile = traffic ? traffic : "";
  settings.nodeDevices = int(readNumber("FSDP_NCCL_NODE_DEVICES", 0));
  const char *registers = std::getenv("NCCL_GRAPH_REGISTER");
  settings.registersGraphs = !registers || std::strcmp(registers, "0") != 0;
  const char *order = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  settings.isOrderImplicit = order && std::strcmp(order, "0") != 0;
  return settings;
}

SharingSettings readSharing() {
  SharingSettings settings;
  if (const char *told = std::getenv("FSDP_NCCL_TELL")) {
    const char *value = std::getenv(told);
    report(std::string(told) +
           (value ? std::string("=") + value : " is not set"));
  }
  const char *shares = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  settings.mayShareDevices = Settings::get().version >= 23000 && shares &&
                             std::strcmp(shares, "0") != 0;
  const char *host = std::getenv("NCCL_HOSTID");
  settings.host = host ? host : "";
  return settings;
}

} // namespace

// These, and the counts of calls, are never destroyed: threads that end
// communicators may still be in this library when the process exits.

const Settings &Settings::get() {
  static const Settings &settings = *new Settings(read());
  return settings;
}

const SharingSettings &SharingSettings::get() {
  static const SharingSettings &settings = *new SharingSettings(readSharing());
  return settings;
}

int takeFault(const std::string &function, int device) {
  static std::mutex mutex;
  static auto &counts = *new std::map<std::pair<std::string, int>, uint64_t>;
  uint64_t number;
  {
    std::lock_guard<std::mutex> lock(mutex);
    number = ++counts[{function, device}];
  }
  for (const Fault &fault : Settings::get().faults)
    if (fault.function == function && fault.number == number &&
        (fault.device == -1 || fault.device == device)) {
      report(function + ": call " + std::to_string(number) + " on device " +
             std::to_string(device) + " fails with " +
             std::to_string(fault.code) + ", as FSDP_NCCL_FAULT asks");
      return fault.code;
    }
  return success;
}

} // namespace fsdp::emulator::nccl
