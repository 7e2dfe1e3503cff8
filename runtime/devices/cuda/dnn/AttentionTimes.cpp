//===- AttentionTimes.cpp - What attentions take --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/dnn/AttentionTimes.h"

#include "devices/cuda/driver/StreamTime.h"
#include "hal/ComputeRules.h"

#include <algorithm>

namespace fsdp::rt {

namespace {

using View = hal::AttentionView;

constexpr int64_t roundNanoseconds = 5'000'000, maxCalls = 50;
constexpr int rounds = 3;

int64_t statsBytes(const fsdp_rt_attention_desc &desc) {
  return hal::attentionBatch(desc) * desc.queries * 8;
}

/// Nanoseconds of `count` calls, at least 1.
Result<int64_t> timeRound(const CudaContext &context,
                          const IssueAttention &issue, cu::Stream stream,
                          int64_t count) {
  Result<double> taken = timeOnStream(context, stream, [&]() -> Status {
    for (int64_t i = 0; i < count; ++i)
      if (Status s = issue(stream))
        return s;
    return Status::ok();
  });
  if (!taken.isOk())
    return taken.status();
  return std::max<int64_t>(1, static_cast<int64_t>(*taken));
}

} // namespace

bool writesNoState(const fsdp_rt_attention_desc &desc, bool backward,
                   int64_t stateBytes) {
  auto isNoState = [&](int64_t offset) {
    return offset < 0 || offset >= stateBytes;
  };
  if (!backward)
    return isNoState(View(desc, View::Out).offset) && isNoState(desc.stats);
  return isNoState(View(desc, View::Dq).offset) &&
         isNoState(View(desc, View::Dk).offset) &&
         isNoState(View(desc, View::Dv).offset);
}

Status fillOperands(const CudaContext &context, cu::Pointer base,
                    const fsdp_rt_attention_desc &desc, bool backward,
                    int64_t stateBytes, cu::Stream stream) {
  auto fill = [&](int64_t offset, int64_t bytes) -> Status {
    if (offset < stateBytes)
      return Status::ok();
    return context.check(context.api().fillBytes(
                             base + static_cast<cu::Pointer>(offset),
                             operandByte, static_cast<size_t>(bytes), stream),
                         "cuMemsetD8Async");
  };
  for (int tensor : {View::Q, View::K, View::V, View::Out, View::Dout}) {
    // A forward pass writes its output.
    if (!backward && tensor >= View::Out)
      break;
    View view(desc, tensor);
    if (Status s = fill(view.offset, hal::attentionExtent(desc, tensor)))
      return s;
  }
  return backward ? fill(desc.stats, statsBytes(desc)) : Status::ok();
}

Result<int64_t> timeAttention(const CudaContext &context,
                              const IssueAttention &issue, cu::Stream stream) {
  Result<int64_t> first = timeRound(context, issue, stream, 1);
  if (!first.isOk())
    return first;
  // The first call of all loads code.
  Result<int64_t> second = timeRound(context, issue, stream, 1);
  if (!second.isOk())
    return second;
  int64_t count = std::clamp<int64_t>(roundNanoseconds / *second, 1, maxCalls);
  int64_t least = *second;
  // One call that takes longer than a round tells enough.
  for (int i = 0; i < rounds && *second < roundNanoseconds; ++i) {
    Result<int64_t> taken = timeRound(context, issue, stream, count);
    if (!taken.isOk())
      return taken;
    least = std::min(least, *taken / count);
  }
  return std::max<int64_t>(1, least);
}

} // namespace fsdp::rt
