//===- RunRecords.cpp - Times of a run's calls ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/run/RunRecords.h"

#include "core/Clock.h"
#include "hal/ComputeRules.h"
#include "hal/Transfers.h"

#include <map>

namespace fsdp::rt {

using hal::Function;

namespace {

bool isOnQueue(const hal::Call &call) {
  return call.function == Function::start &&
         call.as<fsdp_rt_start_desc>().queue != FSDP_RT_QUEUE_COMPUTE;
}

CallRecord recordOfStart(const hal::Call &call, int64_t given, int64_t begin,
                         int64_t end) {
  auto &desc = call.as<fsdp_rt_start_desc>();
  CallKind kind =
      isHostCopy(desc.kind) ? CallKind::HostCopy : CallKind::Collective;
  return {&desc, desc.name,  kind, 0,          begin,     end,
          0,     call.bytes, 0,    desc.queue, desc.kind, given};
}

} // namespace

Status RunRecords::prepare(const CudaContext &context,
                           const hal::Recording &recording) {
  context_ = &context;
  auto add = [&](std::vector<CudaEvent> &events) {
    Result<CudaEvent> event = CudaEvent::create(context, cu::eventDefault);
    if (event.isOk())
      events.push_back(std::move(*event));
    return event.status();
  };
  const std::vector<hal::Call> &calls = recording.calls();
  while (marks_.size() < calls.size() + 1)
    if (Status s = add(marks_))
      return s;
  for (size_t i = transferOf_.size(); i < calls.size(); ++i) {
    size_t first = transfers_.size();
    if (isOnQueue(calls[i]))
      for (int side = 0; side < 2; ++side)
        if (Status s = add(transfers_))
          return s;
    transferOf_.push_back(first);
  }
  return Status::ok();
}

Status RunRecords::record(cu::Event event, cu::Stream stream) const {
  return context_->check(context_->api().eventRecord(event, stream),
                         "cuEventRecord");
}

Status RunRecords::begin(cu::Stream compute) {
  origin_ = nowNanoseconds();
  return record(marks_[0].get(), compute);
}

Status RunRecords::mark(size_t index, cu::Stream compute) {
  return record(marks_[index + 1].get(), compute);
}

Status RunRecords::beginTransfer(size_t index, cu::Stream stream) {
  return record(transfers_[transferOf_[index]].get(), stream);
}

Status RunRecords::endTransfer(size_t index, cu::Stream stream) {
  return record(transfers_[transferOf_[index] + 1].get(), stream);
}

Status RunRecords::timeOf(const CudaEvent &event, int64_t &nanoseconds) const {
  float milliseconds = 0;
  Status status =
      context_->check(context_->api().eventElapsedTime(
                          &milliseconds, marks_[0].get(), event.get()),
                      "cuEventElapsedTime");
  nanoseconds = origin_ + static_cast<int64_t>(milliseconds * 1e6);
  return status;
}

void RunRecords::reportCall(const hal::Call &call, int64_t begin, int64_t end,
                            hal::RunLog &log, hal::RunTimes &times) const {
  switch (call.function) {
  case Function::launch: {
    auto &desc = call.as<fsdp_rt_launch_desc>();
    times.kernels += end - begin;
    log.record({&desc, desc.name, CallKind::Launch, 0, begin, end, 0,
                desc.traffic_bytes, 0});
    break;
  }
  case Function::matmul: {
    auto &desc = call.as<fsdp_rt_matmul_desc>();
    times.matmul += end - begin;
    log.record({&desc, desc.name, CallKind::Matmul, 0, begin, end, 0,
                hal::matmulBytes(desc), hal::matmulFlops(desc)});
    break;
  }
  case Function::attention:
  case Function::attention_backward: {
    auto &desc = call.as<fsdp_rt_attention_desc>();
    bool backward = call.function == Function::attention_backward;
    times.kernels += end - begin;
    log.record({&desc, desc.name, CallKind::Launch, 0, begin, end, 0,
                hal::attentionBytes(desc, backward),
                hal::attentionFlops(desc, backward)});
    break;
  }
  case Function::copy: {
    auto &desc = call.as<fsdp_rt_copy_desc>();
    log.record({&desc, desc.name, CallKind::Copy, 0, begin, end, 0,
                desc.bytes * (desc.src == -1 ? 1 : 2), 0});
    break;
  }
  case Function::start:
    if (isOnQueue(call))
      break;
    times.communication += end - begin;
    log.record(recordOfStart(call, begin, begin, end));
    break;
  case Function::wait: {
    auto &desc = call.as<fsdp_rt_wait_desc>();
    times.waiting += end - begin;
    log.record(
        {&desc, desc.name, CallKind::Wait, 0, begin, end, end - begin, 0, 0});
    break;
  }
  case Function::check:
  case Function::guard:
    break;
  }
}

Status RunRecords::reportTransfer(const hal::Recording &recording, size_t index,
                                  hal::RunLog &log,
                                  hal::RunTimes &times) const {
  int64_t given = 0, begin = 0, end = 0;
  size_t first = transferOf_[index];
  if (Status s = timeOf(marks_[index], given))
    return s;
  if (Status s = timeOf(transfers_[first], begin))
    return s;
  if (Status s = timeOf(transfers_[first + 1], end))
    return s;
  times.transfers += end - begin;
  log.record(recordOfStart(recording.calls()[index], given, begin, end));
  return Status::ok();
}

Status RunRecords::report(const hal::Recording &recording, hal::RunLog &log,
                          hal::RunTimes &times) {
  const std::vector<hal::Call> &calls = recording.calls();
  // Transfers of which nobody has reported yet, by event.
  std::map<int64_t, size_t> started;
  int64_t begin = origin_;
  for (size_t i = 0; i < calls.size(); ++i) {
    int64_t end = 0;
    if (Status s = timeOf(marks_[i + 1], end))
      return s;
    if (isOnQueue(calls[i]))
      started[calls[i].as<fsdp_rt_start_desc>().event] = i;
    if (calls[i].function == Function::wait) {
      auto found = started.find(calls[i].as<fsdp_rt_wait_desc>().event);
      if (found != started.end()) {
        if (Status s = reportTransfer(recording, found->second, log, times))
          return s;
        started.erase(found);
      }
    }
    reportCall(calls[i], begin, end, log, times);
    begin = end;
  }
  return Status::ok();
}

} // namespace fsdp::rt
