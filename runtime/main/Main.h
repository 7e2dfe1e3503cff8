//===- Main.h - From a command line to a run ---------------------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_MAIN_MAIN_H
#define FSDP_RT_MAIN_MAIN_H

#include "control/Backend.h"
#include "control/Launch.h"
#include "core/Status.h"
#include "data/Manifest.h"
#include "fsdp-rt/abi.h"
#include "hal/DeviceKind.h"
#include "hal/Layout.h"
#include "registry/Registry.h"

#include <memory>
#include <string>
#include <vector>

namespace fsdp::rt {

/// fsdp_rt_main: `name` is the program's, for --help. Prints; returns the exit
/// status.
int runMain(const std::string &name, const std::vector<std::string> &arguments,
            const fsdp_rt_artifact *program);

/// Prints "error: ..." and, for our own faults, how to report them; returns
/// the exit status.
int reportFailure(const Status &failure);

/// The program's manifest. Refuses a program of another ABI, or one whose
/// manifest breaks its rules.
Result<data::Manifest> readArtifact(const fsdp_rt_artifact *program);

/// Threads for each of `ranksOnHost` ranks: as `asked`, or, where that is 0,
/// `cores` / ranks, at least 1. Refuses far more than there are cores. What the
/// arena leaves of the program's budget must have room for all but the first,
/// and the default is no more than that.
Result<int> chooseThreads(const data::Manifest &manifest, int asked,
                          int ranksOnHost, int cores);
/// What the program asks of the device of rank `rank`.
hal::Layout layoutOf(const data::Manifest &manifest, int rank);

/// The device called `name`, or the first that can run the program.
Result<DeviceChoice> chooseDevice(const std::string &name,
                                  const data::Manifest &manifest);

/// What to tell who did not choose a device: that this host has another one
/// that can run the program; empty where it has none.
std::string describeOtherDevice(const DeviceChoice &choice,
                                const data::Manifest &manifest);

/// Refuses a host that cannot run the program's code for the device.
Status checkHost(const DeviceChoice &choice, const data::Manifest &manifest);

/// The backend of this process, for ranks with a device of `device` and
/// `options` (whose layout is filled in here). Of `request`, the launch and the
/// link are given.
Result<std::unique_ptr<Backend>> createBackend(const BackendKind &kind,
                                               const data::Manifest &manifest,
                                               const hal::DeviceKind &device,
                                               hal::DeviceOptions options,
                                               BackendRequest request);

} // namespace fsdp::rt

#endif // FSDP_RT_MAIN_MAIN_H
