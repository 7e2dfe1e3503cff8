//===- AttentionTimes.h - What attentions take ------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DEVICES_CUDA_DNN_ATTENTIONTIMES_H
#define FSDP_RT_DEVICES_CUDA_DNN_ATTENTIONTIMES_H

#include "core/Status.h"
#include "devices/cuda/driver/CudaContext.h"
#include "fsdp-rt/abi.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace fsdp::rt {

/// Gives a stream the work of one call.
using IssueAttention = std::function<Status(cu::Stream)>;

/// How our kernels compute a call of the program: what their shapes are, which
/// times depend on, and their launches.
struct OwnCode {
  std::string shape;
  IssueAttention issue;
};
using OwnAttention = std::function<Result<OwnCode>(size_t call)>;

/// Whether nothing that an attention writes lies in the first `stateBytes` of
/// the arena: what follows has no value between runs.
bool writesNoState(const fsdp_rt_attention_desc &desc, bool backward,
                   int64_t stateBytes);

/// Fills what the attention reads, but states (the first `stateBytes`), with
/// small numbers: memory that nobody has written may hold NaN.
Status fillOperands(const CudaContext &context, cu::Pointer base,
                    const fsdp_rt_attention_desc &desc, bool backward,
                    int64_t stateBytes, cu::Stream stream);

/// Nanoseconds of one call: the shortest of a few rounds, each of as many calls
/// as take some milliseconds, after one that is not counted.
Result<int64_t> timeAttention(const CudaContext &context,
                              const IssueAttention &issue, cu::Stream stream);

} // namespace fsdp::rt

#endif // FSDP_RT_DEVICES_CUDA_DNN_ATTENTIONTIMES_H
