//===- AttentionTimes.cpp - What attentions take --------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/AttentionTimes.h"

#include "hal/ComputeRules.h"

#include <algorithm>

namespace fsdp::rt {

namespace {

using View = hal::AttentionView;

constexpr int64_t roundNanoseconds = 5'000'000, maxCalls = 50;
constexpr int rounds = 3;
/// Of two of these, bf16 and f16 make small numbers that are not 0.
constexpr unsigned char fillByte = 0x3c;

int64_t statsBytes(const fsdp_rt_attention_desc &desc) {
  return hal::attentionBatch(desc) * desc.queries * 8;
}

/// Nanoseconds of `count` calls.
Result<int64_t> timeRound(const CudaContext &context,
                          const IssueAttention &issue, cu::Stream stream,
                          int64_t count) {
  Result<CudaEvent> begin = CudaEvent::create(context, cu::eventDefault);
  if (!begin.isOk())
    return begin.status();
  Result<CudaEvent> end = CudaEvent::create(context, cu::eventDefault);
  if (!end.isOk())
    return end.status();
  const DriverApi &api = context.api();
  if (Status s =
          context.check(api.eventRecord(begin->get(), stream), "cuEventRecord"))
    return s;
  for (int64_t i = 0; i < count; ++i)
    if (Status s = issue(stream))
      return s;
  if (Status s =
          context.check(api.eventRecord(end->get(), stream), "cuEventRecord"))
    return s;
  if (Status s =
          context.check(api.eventSynchronize(end->get()), "cuEventSynchronize"))
    return s;
  float milliseconds = 0;
  if (Status s = context.check(
          api.eventElapsedTime(&milliseconds, begin->get(), end->get()),
          "cuEventElapsedTime"))
    return s;
  return std::max<int64_t>(1, static_cast<int64_t>(milliseconds * 1e6f));
}

} // namespace

bool writesBehind(const fsdp_rt_attention_desc &desc, bool backward,
                  int64_t stateBytes) {
  auto isBehind = [&](int64_t offset) {
    return offset < 0 || offset >= stateBytes;
  };
  if (!backward)
    return isBehind(View(desc, View::Out).offset) && isBehind(desc.stats);
  return isBehind(View(desc, View::Dq).offset) &&
         isBehind(View(desc, View::Dk).offset) &&
         isBehind(View(desc, View::Dv).offset);
}

Status fillOperands(const CudaContext &context, cu::Pointer base,
                    const fsdp_rt_attention_desc &desc, bool backward,
                    int64_t stateBytes, cu::Stream stream) {
  auto fill = [&](int64_t offset, int64_t bytes) -> Status {
    if (offset < stateBytes)
      return Status::ok();
    return context.check(
        context.api().fillBytes(base + static_cast<cu::Pointer>(offset),
                                fillByte, static_cast<size_t>(bytes), stream),
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
