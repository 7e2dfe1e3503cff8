//===- Settings.h - What the environment asks of the double -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_EMULATOR_LIBRARIES_NCCL_SETTINGS_H
#define FSDP_EMULATOR_LIBRARIES_NCCL_SETTINGS_H

#include "Types.h"

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fsdp::emulator::nccl {

/// function:n:code[:device]: the n-th call of the function (on the device)
/// returns code; of "async", the n-th operation that begins fails by itself.
struct Fault {
  std::string function;
  uint64_t number;
  int code;
  /// -1: each device counts, and fails, on its own.
  int device;
};

/// Variables that begin with FSDP_NCCL_.
struct Settings {
  static const Settings &get();

  int version = 22809;
  /// Seconds that an operation waits for other ranks.
  double timeout = 20;
  /// Whether narrow floats are rounded at each hop, or once.
  bool isRoundedAtHops = true;
  std::vector<Fault> faults;
  /// Empty: none.
  std::string trafficFile;
  /// So many devices, from a multiple of that on, are those of a node; 0: all
  /// of a host.
  int nodeDevices = 0;
  /// NCCL_GRAPH_REGISTER, NCCL's own.
  bool registersGraphs = true;
  /// NCCL_LAUNCH_ORDER_IMPLICIT, NCCL's own.
  bool isOrderImplicit = false;
};

/// Variables of NCCL's own that it reads when the first communicator is made.
struct SharingSettings {
  static const SharingSettings &get();

  /// NCCL_MULTI_RANK_GPU_ENABLE, from version 2.30 on.
  bool mayShareDevices = false;
  /// NCCL_HOSTID: ranks with others are on other hosts, whatever device they
  /// have.
  std::string host;
};

/// Counts a call of this process; what it has to return, or success.
int takeFault(const std::string &function, int device);

} // namespace fsdp::emulator::nccl

#endif // FSDP_EMULATOR_LIBRARIES_NCCL_SETTINGS_H
