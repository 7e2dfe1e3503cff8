//===- RunRecords.cpp - Times of a run's calls ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/run/RunRecords.h"

#include "core/Clock.h"
#include "hal/CallWork.h"

#include <map>

namespace fsdp::rt {

using hal::Function;

namespace {

bool isOnQueue(const hal::Call &call) {
  return call.function == Function::start &&
         call.as<fsdp_rt_start_desc>().queue != FSDP_RT_QUEUE_COMPUTE;
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
  CallRecord record = hal::recordOf(recording.calls()[index], begin, end);
  record.given = given;
  log.record(record);
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
    if (!isOnQueue(calls[i]))
      hal::report(calls[i], begin, end, times, &log);
    begin = end;
  }
  return Status::ok();
}

} // namespace fsdp::rt
