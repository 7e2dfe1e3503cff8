//===- Device.h - What runs programs ----------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A device belongs to one rank and is used on that rank's thread. It runs
// programs that were loaded; docs/devices.md has the contract of calls.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_HAL_DEVICE_H
#define FSDP_RT_HAL_DEVICE_H

#include "core/Status.h"
#include "hal/Layout.h"
#include "hal/Memory.h"
#include "hal/Recording.h"
#include "hal/RunRequest.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::rt::hal {

struct DeviceOptions {
  Layout layout;
  /// Which of the artifact's targets, by number, its code is for.
  int target = 0;
  /// Threads of the host for this rank, its own included; at least 1.
  int threads = 1;
  /// By name, as the registry's entry of the device has them.
  std::map<std::string, std::string> settings;
};

/// Of any device.
constexpr int mostPendingRuns = 2;

/// A program as a device keeps it.
class Executable {
public:
  virtual ~Executable() = default;
  const Recording &recording() const { return recording_; }
  /// How many runs, this one's included, may be pending when this program is
  /// given to the device: at most mostPendingRuns.
  virtual int maxPending() const { return 1; }

protected:
  explicit Executable(Recording recording) : recording_(std::move(recording)) {}

private:
  Recording recording_;
};

/// Nanoseconds that a run took on queue 0, and beside it.
struct RunTimes {
  int64_t matmul = 0;
  int64_t kernels = 0;
  /// Moving and adding the bytes of transfers of queue 0.
  int64_t communication = 0;
  /// Blocked until other ranks had come to a transfer or were done, or until
  /// an event was complete.
  int64_t waiting = 0;
  /// What the other queues' transfers took, each by itself.
  int64_t transfers = 0;

  RunTimes &operator+=(const RunTimes &other) {
    matmul += other.matmul;
    kernels += other.kernels;
    communication += other.communication;
    waiting += other.waiting;
    transfers += other.transfers;
    return *this;
  }
};

/// What reports say of a device.
struct DeviceFacts {
  /// The registry's.
  std::string name;
  /// The library that multiplies matrices.
  std::string products;
  /// Compute capability of a GPU, "9.0"; empty for others.
  std::string capability;
  /// Of the host, for this rank.
  int threads = 1;
  /// Bytes of the device's own memory that this rank takes, by what takes them;
  /// none where it computes in the host's.
  struct Memory {
    std::string what;
    int64_t bytes;
  };
  std::vector<Memory> memory;
  /// What it has chosen that decides the bits of results, by the setting that
  /// could have said it: "by cuDNN 9.19.0, 24 of 24 calls" of `attention`.
  std::map<std::string, std::string> choices;
  /// The same of settings where it chose what has the bits of processors.
  std::map<std::string, std::string> plain = {};
  /// For the user to read: what it decided, and what happened when programs
  /// were loaded that may surprise.
  std::vector<std::string> remarks, notes;

  int64_t memoryBytes() const {
    int64_t bytes = 0;
    for (const Memory &part : memory)
      bytes += part.bytes;
    return bytes;
  }
};

class Device {
public:
  virtual ~Device() = default;
  virtual DeviceFacts facts() const = 0;

  virtual Memory &memory(fsdp_rt_memory which) = 0;

  /// Looks up what the calls need: kernels, plans, channels. Refuses what this
  /// device cannot run. Collective over the ranks that run the program: it may
  /// open channels. The executable must not outlive the device.
  virtual Result<std::unique_ptr<Executable>> load(Recording recording) = 0;

  /// Puts one run on the queues, after those that are pending: more of them
  /// than the program's maxPending() are waited for. `request` must live until
  /// the run has been waited for. What cannot even be enqueued fails the
  /// device, after pending runs have come to their ends.
  virtual Status execute(Executable &executable, RunRequest &request) = 0;

  /// Returns when the oldest pending run is complete, its results are in its
  /// request and its records have been given to its log; with the device's
  /// first failure. A device that has failed aborts the other ranks
  /// (World::abort) and stays failed. Adds to `times` what runs took that it
  /// has not told of.
  virtual Status awaitOldest(RunTimes &times) = 0;
  /// The same of all pending runs.
  virtual Status synchronize(RunTimes &times) = 0;
};

} // namespace fsdp::rt::hal

#endif // FSDP_RT_HAL_DEVICE_H
