//===- StreamTime.h - What work of a stream takes ---------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What choices between kernels share that are measured when a program is
// loaded: of algorithms of products, and of who computes attention.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DRIVER_STREAMTIME_H
#define FSDP_RT_DEVICES_CUDA_DRIVER_STREAMTIME_H

#include "core/Status.h"
#include "devices/cuda/driver/CudaContext.h"

#include <functional>

namespace fsdp::rt {

/// How many times as fast as the first choice another one has to be: two
/// measurements of one kernel differ by less.
constexpr double leastGain = 1.02;

/// Of each byte of operands: as bf16 and f32 0.011, as f16 1.06.
constexpr unsigned char operandByte = 0x3c;

/// Nanoseconds, by the driver's events, from the begin of what `issue` gives
/// `stream` to its end; waits for it.
Result<double> timeOnStream(const CudaContext &context, cu::Stream stream,
                            const std::function<Status()> &issue);

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DRIVER_STREAMTIME_H
