//===- Settings.h - What the environment asks of the emulator -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_DRIVER_SETTINGS_H
#define FSDP_EMULATOR_DRIVER_SETTINGS_H

#include "driver/Cuda.h"
#include "execution/DeviceMemory.h"
#include "instructions/Approximation.h"

#include <string>
#include <vector>

namespace fsdp::emulator {

/// The `number`-th call of `function` returns `code`.
struct InjectedFault {
  std::string function;
  uint64_t number = 0;
  cuda::Result code = cuda::Success;
};

/// The `number`-th call of `function` does nothing and succeeds: a planted
/// mistake of the program.
struct SkippedCall {
  std::string function;
  uint64_t number = 0;
};

/// What the `number`-th call of `function` gives streams waits until `copies`
/// copies of `bytes` bytes each have come from the host.
struct HeldCall {
  std::string function;
  uint64_t number = 0;
  uint64_t copies = 0, bytes = 0;
};

/// How memory of a device may be opened by others: what the driver reports.
struct Sharing {
  bool hasFiles = true, hasFabric = false, hasRdma = true;
  /// Whether fabric handles are refused all the same, as on a host that is in
  /// no domain of them.
  bool isFabricDenied = false;
};

/// Variables of the environment, without their prefix FSDP_EMULATOR_.
struct Settings {
  uint32_t seed = 1;
  int devices = 8;
  /// Of each device its number among all of the host's, which processes agree
  /// on: CUDA_VISIBLE_DEVICES chooses them.
  std::vector<int> cards;
  uint64_t memoryBytes = uint64_t{80} << 30;
  unsigned capabilityMajor = 9, capabilityMinor = 0;
  int driverVersion = 13000;
  Checks checks;
  std::string statsFile, logFile;
  std::vector<InjectedFault> faults;
  std::vector<SkippedCall> skipped;
  std::vector<HeldCall> held;
  Sharing sharing;
  /// Whether devices can be given access to each other's memory.
  bool arePeers = true;
  /// Of streams, beside the lowest.
  int priorities = 5;
  /// Whether captures that are relaxed forbid what thread-local ones do, but
  /// for the code that libraries load.
  bool isRelaxedStrict = false;
  /// Of a device's memory, what its context takes.
  uint64_t contextBytes = 0;
  /// What approximate instructions give.
  Approximations approximations = Approximations::Rounded;
  /// Seconds that an operation of another library may wait for.
  double timeout = 60;

  /// Ends the process where a variable is no such value.
  static Settings fromEnvironment();
};

/// "emulator: " and the message, on stderr.
void report(const std::string &message);
/// Says of the wait that FSDP_EMULATOR_SKIP left out that nothing can miss it.
void reportImpliedWait();
/// For calls with arguments that the emulator does not model: ends the process.
[[noreturn]] void failUnmodeled(const std::string &call,
                                const std::string &argument);

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_DRIVER_SETTINGS_H
