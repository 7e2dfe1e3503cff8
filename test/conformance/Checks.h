//===- Checks.h - One collective against its reference ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each runs one collective on the calling rank and compares every byte of its
// result, and that nothing around it was touched. All ranks of the group call
// the same check with the same arguments.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CONFORMANCE_CHECKS_H
#define FSDP_TEST_CONFORMANCE_CHECKS_H

#include "Reference.h"
#include "control/Backend.h"

#include <cstdint>

namespace fsdp::test {

rt::Status checkAllGather(rt::hal::HostChannel &group, int64_t bytes,
                          bool inPlace, uint64_t seed);
rt::Status checkReduceScatter(rt::hal::HostChannel &group, rt::Dtype dtype,
                              int64_t count, int64_t divisor, bool inPlace,
                              uint64_t seed);
rt::Status checkAllReduce(rt::hal::HostChannel &group, rt::Dtype dtype,
                          int64_t count, int64_t divisor, bool inPlace,
                          uint64_t seed);
rt::Status checkAllToAll(rt::hal::HostChannel &group, int64_t bytes,
                         uint64_t seed);
rt::Status checkBroadcast(rt::hal::HostChannel &group, int64_t bytes, int root,
                          bool inPlace, uint64_t seed);

/// A random one of the above.
rt::Status checkRandom(rt::hal::HostChannel &group, Random &random);

} // namespace fsdp::test

#endif // FSDP_TEST_CONFORMANCE_CHECKS_H
