//===- CallWork.cpp - Work, records and times of calls --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "hal/CallWork.h"

#include "hal/ComputeRules.h"
#include "hal/Transfers.h"

namespace fsdp::rt::hal {

CallWork workOf(const Call &, const fsdp_rt_launch_desc &desc) {
  return {desc.traffic_bytes, 0};
}

CallWork workOf(const Call &, const fsdp_rt_matmul_desc &desc) {
  return {matmulBytes(desc), matmulFlops(desc)};
}

CallWork workOf(const Call &call, const fsdp_rt_attention_desc &desc) {
  bool backward = isBackwardAttention(call);
  return {attentionBytes(desc, backward), attentionFlops(desc, backward)};
}

CallWork workOf(const Call &, const fsdp_rt_copy_desc &desc) {
  return {desc.bytes * (desc.src == -1 ? 1 : 2), 0};
}

CallWork workOf(const Call &call, const fsdp_rt_start_desc &) {
  return {call.bytes, 0};
}

CallWork workOf(const Call &, const fsdp_rt_wait_desc &) { return {}; }
CallWork workOf(const Call &, const fsdp_rt_check_desc &) { return {}; }
CallWork workOf(const Call &, const fsdp_rt_guard_desc &) { return {}; }

CallKind kindOf(const Call &call) {
  if (call.function == Function::start &&
      isHostCopy(call.as<fsdp_rt_start_desc>().kind))
    return CallKind::HostCopy;
  switch (call.function) {
#define FSDP_RT_CALL(name, desc, Category, WORKSPACE)                          \
  case Function::name:                                                         \
    return CallKind::Category;
#include "fsdp-rt/calls.def"
  }
  return CallKind::Silent;
}

CallRecord recordOf(const Call &call, int64_t begin, int64_t end) {
  CallWork work =
      visitCall(call, [&](auto &desc) { return workOf(call, desc); });
  CallRecord record = {call.desc, labelOf(call), kindOf(call), 0, begin, end,
                       0,         work.bytes,    work.flops};
  if (call.function == Function::wait)
    record.waiting = end - begin;
  if (call.function == Function::start) {
    auto &start = call.as<fsdp_rt_start_desc>();
    record.queue = start.queue;
    record.transfer = start.kind;
    record.given = begin;
  }
  return record;
}

static int64_t RunTimes::*timeOf(CallKind kind) {
  switch (kind) {
#define FSDP_RT_CATEGORY(Name, spelling, time)                                 \
  case CallKind::Name:                                                         \
    return time;
#include "fsdp-rt/calls.def"
  }
  return nullptr;
}

void report(const Call &call, int64_t begin, int64_t end, RunTimes &times,
            RunLog *log) {
  CallKind kind = kindOf(call);
  if (int64_t RunTimes::*time = timeOf(kind))
    times.*time += end - begin;
  if (log && kind != CallKind::Silent)
    log->record(recordOf(call, begin, end));
}

} // namespace fsdp::rt::hal
