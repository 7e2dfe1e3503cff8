//===- Fault.h - A device that is to fail -----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_DEVICES_CPU_LATE_FAULT_H
#define FSDP_TEST_DEVICES_CPU_LATE_FAULT_H

#include "core/Status.h"

#include <atomic>
#include <cstdint>
#include <string>

namespace fsdp::rt {

/// Where and on which rank a device fails: FSDP_LATE_FAULT of the environment,
/// "create:RANK", "upload:RANK:N" or "call:RANK:N" with N counted from 0.
class Fault {
public:
  enum class Place { Nowhere, Create, Upload, Call };

  Fault() = default;
  Fault(Place place, int64_t number) : place_(place), left_(number) {}
  Fault(Fault &&other) : Fault(other.place_, other.left_) {}
  static Fault ofEnvironment(int rank);

  /// Fails at the N-th time that it is asked of its place. Callable from
  /// several threads.
  Status pass(Place place);

private:
  Place place_ = Place::Nowhere;
  std::atomic<int64_t> left_{0};
};

} // namespace fsdp::rt

#endif // FSDP_TEST_DEVICES_CPU_LATE_FAULT_H
