//===- NcclEnds.cpp - Communicators that are being ended ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/nccl/NcclEnds.h"

#include "core/WaitLimit.h"

#include <chrono>
#include <system_error>

namespace fsdp::rt {

namespace {

/// How long ends are waited for where a device has failed.
constexpr int64_t failedNanoseconds = 500'000'000;

/// Of all ranks of this process, whose communicators wait for each other's
/// graphs. A device that has failed stays so in this process.
std::atomic<bool> hasFailedDevice{false};
std::atomic<int> draining{0};

} // namespace

NcclEnds::Drain::Drain() { ++draining; }
NcclEnds::Drain::~Drain() { --draining; }

void NcclEnds::noteFailedDevice() { hasFailedDevice = true; }

bool NcclEnds::begin(End end, nccl::Comm comm) {
  ++*running_;
  try {
    threads_.emplace_back([running = running_, end, comm] {
      (void)end(comm);
      --*running;
    });
  } catch (const std::system_error &) {
    --*running_;
    return false;
  }
  return true;
}

NcclEnds::~NcclEnds() {
  for (std::thread &thread : threads_)
    thread.detach();
}

NcclEnds::Outcome NcclEnds::wait(int64_t nanoseconds) {
  constexpr std::chrono::microseconds pause(50);
  WaitLimit all(nanoseconds), afterFailure(failedNanoseconds);
  while (*running_ != 0) {
    if (draining != 0)
      all.restart();
    if (!hasFailedDevice)
      afterFailure.restart();
    if (afterFailure.isExceeded())
      return Outcome::Left;
    if (all.isExceeded())
      return Outcome::TimedOut;
    std::this_thread::sleep_for(pause);
  }
  for (std::thread &thread : threads_)
    thread.join();
  threads_.clear();
  return Outcome::Ended;
}

} // namespace fsdp::rt
