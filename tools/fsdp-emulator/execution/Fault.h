//===- Fault.h - What stops a kernel --------------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_EXECUTION_FAULT_H
#define FSDP_EMULATOR_EXECUTION_FAULT_H

#include <stdexcept>
#include <string>

namespace fsdp::emulator {

/// The CUresult that the context answers with from then on.
enum class FaultCode : int {
  IllegalAddress = 700,
  LaunchTimeout = 702,
  MisalignedAddress = 716,
  InvalidAddressSpace = 717,
  LaunchFailed = 719,
};

class DeviceFault : public std::runtime_error {
public:
  DeviceFault(FaultCode code, const std::string &message)
      : std::runtime_error(message), code(code) {}

  FaultCode code;
};

} // namespace fsdp::emulator

#endif // FSDP_EMULATOR_EXECUTION_FAULT_H
