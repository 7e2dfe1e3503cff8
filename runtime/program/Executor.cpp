//===- Executor.cpp - Runs a rank's programs and counts -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/Executor.h"

#include "core/Clock.h"

#include <exception>
#include <utility>

namespace fsdp::rt {

Executor::Executor(World &world, std::unique_ptr<hal::Device> device,
                   const ExecutorOptions &options)
    : world_(world), layout_(options.layout), device_(std::move(device)),
      recorder_(options.profile, options.traceEvents) {
  counters_.groups.resize(layout_.groups.size());
}

Result<std::unique_ptr<Executor>>
Executor::create(World &world, std::unique_ptr<hal::Device> device,
                 const ExecutorOptions &options) {
  if (options.traceEvents < 0)
    return Status::failed("expected at least 0 trace events, got " +
                          std::to_string(options.traceEvents));
  try {
    return std::unique_ptr<Executor>(
        new Executor(world, std::move(device), options));
  } catch (const std::exception &) {
    return Status::failed("cannot reserve memory for " +
                          std::to_string(options.traceEvents) +
                          " trace events");
  }
}

Result<std::unique_ptr<hal::Executable>>
Executor::load(const fsdp_rt_program &program,
               const std::vector<std::string> &units) {
  Result<hal::Recording> recording =
      hal::Recording::record(program, layout_, world_.rank(), units);
  if (!recording.isOk())
    return recording.status();
  return device_->load(std::move(*recording));
}

Status Executor::run(hal::Executable &program) {
  request_.log = nullptr;
  hal::RunTimes times;
  Status enqueued = device_->execute(program, request_);
  Status status = device_->synchronize(times);
  return status ? status : enqueued;
}

Status Executor::step(hal::Executable &program, bool isFirst, bool isLast) {
  StepTimes &times = counters_.lastStep;
  if (isFirst)
    times = StepTimes();
  request_.log = recorder_.isEnabled() ? this : nullptr;
  int64_t begin = nowNanoseconds();
  Status enqueued = device_->execute(program, request_);
  Status status = device_->synchronize(times);
  times.total += nowNanoseconds() - begin;
  times.other = times.total - times.matmul - times.kernels -
                times.communication - times.waiting;
  if (enqueued || status)
    return status ? status : enqueued;
  counters_ += program.recording().traffic();
  if (isLast) {
    ++counters_.steps;
    counters_.allSteps += times;
  }
  return Status::ok();
}

void Executor::record(const CallRecord &call) {
  CallRecord mine = call;
  mine.step = static_cast<int32_t>(counters_.steps);
  if (!mine.name)
    mine.name = "";
  recorder_.record(mine);
}

} // namespace fsdp::rt
