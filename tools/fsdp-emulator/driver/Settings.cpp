//===- Settings.cpp - What the environment asks of the emulator -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "driver/Settings.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace fsdp::emulator {

/// EX_SOFTWARE of sysexits.h.
static constexpr int exitCode = 70;

void report(const std::string &message) {
  std::fprintf(stderr, "emulator: %s\n", message.c_str());
  std::fflush(stderr);
}

void reportImpliedWait() {
  report("cuStreamWaitEvent: other waits imply the call that did nothing");
}

void failUnmodeled(const std::string &call, const std::string &argument) {
  report(call + ": expected arguments that the emulator models, got " +
         argument);
  std::_Exit(exitCode);
}

namespace {

const char *variable(const std::string &name) {
  return std::getenv(("FSDP_EMULATOR_" + name).c_str());
}

[[noreturn]] void reject(const std::string &name, const char *expected) {
  report("expected " + std::string(expected) + " for FSDP_EMULATOR_" + name +
         ", got '" + variable(name) + "'");
  std::_Exit(exitCode);
}

template <typename T>
void readNumber(const std::string &name, T least, T most, T &value) {
  const char *text = variable(name);
  if (!text)
    return;
  const char *end = text + std::strlen(text);
  auto result = std::from_chars(text, end, value);
  if (result.ec != std::errc() || result.ptr != end || value < least ||
      value > most)
    reject(name, "a number");
}

void readSwitch(const std::string &name, bool &value) {
  const char *text = variable(name);
  if (!text)
    return;
  if (std::strcmp(text, "0") != 0 && std::strcmp(text, "1") != 0)
    reject(name, "0 or 1");
  value = *text == '1';
}

/// Calls `read` with what lies between commas.
template <typename Read>
void readList(const std::string &name, Read read) {
  const char *text = variable(name);
  for (std::string rest = text ? text : ""; !rest.empty();) {
    std::string one = rest.substr(0, rest.find(','));
    rest.erase(0, one.size() + 1);
    read(one);
  }
}

/// call:n, any number of them with commas between.
void readSkipped(std::vector<SkippedCall> &skipped) {
  readList("SKIP", [&](const std::string &one) {
    size_t colon = one.find(':');
    SkippedCall call;
    call.function = one.substr(0, colon);
    if (colon != std::string::npos)
      call.number = std::strtoull(one.c_str() + colon + 1, nullptr, 10);
    if (call.number == 0)
      reject("SKIP", "call:n, a number from 1 on,");
    skipped.push_back(call);
  });
}

/// call:n:code, any number of them with commas between.
void readFaults(std::vector<InjectedFault> &faults) {
  readList("FAULT", [&](const std::string &one) {
    size_t first = one.find(':'), second = one.rfind(':');
    if (first == std::string::npos || first == second)
      reject("FAULT", "call:n:code");
    InjectedFault fault;
    fault.function = one.substr(0, first);
    fault.number = std::strtoull(one.c_str() + first + 1, nullptr, 10);
    fault.code = static_cast<cuda::Result>(std::atoi(one.c_str() + second + 1));
    if (fault.number == 0 || fault.code == cuda::Success)
      reject("FAULT", "call:n:code, both numbers from 1 on");
    faults.push_back(fault);
  });
}

/// call:n:copies:bytes, any number of them with commas between.
void readHeld(std::vector<HeldCall> &held) {
  readList("HOLD", [&](const std::string &one) {
    size_t colon = one.find(':');
    HeldCall call;
    call.function = one.substr(0, colon);
    unsigned long long numbers[3] = {};
    if (colon == std::string::npos ||
        std::sscanf(one.c_str() + colon, ":%llu:%llu:%llu", &numbers[0],
                    &numbers[1], &numbers[2]) != 3 ||
        !numbers[0] || !numbers[1] || !numbers[2])
      reject("HOLD", "call:n:copies:bytes, numbers from 1 on,");
    call.number = numbers[0];
    call.copies = numbers[1];
    call.bytes = numbers[2];
    held.push_back(call);
  });
}

void readSharing(Sharing &sharing) {
  if (!variable("SHARING"))
    return;
  sharing = {false, false, false, false};
  readList("SHARING", [&](const std::string &one) {
    if (one == "file")
      sharing.hasFiles = true;
    else if (one == "rdma")
      sharing.hasRdma = true;
    else if (one == "fabric" || one == "fabric-denied")
      sharing.hasFabric = true;
    else if (one != "none")
      reject("SHARING", "file, rdma, fabric, fabric-denied or none");
    sharing.isFabricDenied |= one == "fabric-denied";
  });
}

void readApproximations(Approximations &value) {
  const char *text = variable("APPROXIMATIONS");
  if (!text)
    return;
  if (std::strcmp(text, "low") == 0)
    value = Approximations::Low;
  else if (std::strcmp(text, "high") == 0)
    value = Approximations::High;
  else if (std::strcmp(text, "rounded") != 0)
    reject("APPROXIMATIONS", "low, rounded or high");
}

/// Numbers with commas between, as the driver reads them: one that there is not
/// ends the list.
std::vector<int> readCards(int devices) {
  std::vector<int> cards;
  const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!visible) {
    for (int card = 0; card < devices; ++card)
      cards.push_back(card);
    return cards;
  }
  std::istringstream text(visible);
  for (std::string one; std::getline(text, one, ',');) {
    char *end = nullptr;
    long card = std::strtol(one.c_str(), &end, 10);
    if (end == one.c_str() || *end || card < 0 || card >= devices)
      break;
    cards.push_back(static_cast<int>(card));
  }
  return cards;
}

} // namespace

Settings Settings::fromEnvironment() {
  Settings settings;
  readNumber<uint32_t>("SEED", 0, UINT32_MAX, settings.seed);
  readNumber("DEVICES", 0, 64, settings.devices);
  settings.cards = readCards(settings.devices);
  settings.devices = static_cast<int>(settings.cards.size());
  readNumber<uint64_t>("MEMORY", 0, uint64_t{1} << 46, settings.memoryBytes);
  readNumber("DRIVER", 11000, 99999, settings.driverVersion);
  readNumber("TIMEOUT", 0.0, 1e6, settings.timeout);
  readSwitch("RACES", settings.checks.races);
  readSwitch("UNINITIALIZED", settings.checks.uninitialized);
  if (const char *text = variable("CAPABILITY"))
    if (std::sscanf(text, "%u.%u", &settings.capabilityMajor,
                    &settings.capabilityMinor) != 2)
      reject("CAPABILITY", "major.minor");
  if (const char *file = variable("STATS"))
    settings.statsFile = file;
  if (const char *file = variable("LOG"))
    settings.logFile = file;
  readNumber<uint64_t>("CONTEXT", 0, settings.memoryBytes,
                       settings.contextBytes);
  readSharing(settings.sharing);
  readSwitch("PEERS", settings.arePeers);
  readNumber("PRIORITIES", 0, 5, settings.priorities);
  readSwitch("STRICT_CAPTURE", settings.isRelaxedStrict);
  readApproximations(settings.approximations);
  readFaults(settings.faults);
  readSkipped(settings.skipped);
  readHeld(settings.held);
  return settings;
}

} // namespace fsdp::emulator
