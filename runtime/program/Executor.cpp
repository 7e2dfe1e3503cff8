//===- Executor.cpp - Runs a rank's programs and counts -------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/Executor.h"

#include "core/Clock.h"

#include <algorithm>
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

Status Executor::issue(hal::Executable &program, std::optional<StepPart> part) {
  if (pending() == program.maxPending())
    return Status::internal("expected at most " + std::to_string(pending()) +
                            " pending runs, got one more");
  Run &run = at(issued_);
  run.program = &program;
  run.part = part;
  run.request.log = part && recorder_.isEnabled() ? this : nullptr;
  run.request.checkNote = checkNote_;
  run.request.isComplete = false;
  run.begin = nowNanoseconds();
  if (Status s = device_->execute(program, run.request))
    return s;
  ++issued_;
  return Status::ok();
}

Status Executor::finish() {
  Run &run = at(finished_++);
  hal::RunTimes others;
  StepTimes &times = counters_.lastStep;
  if (run.part && run.part->isFirst)
    times = StepTimes();
  Status status;
  // Of a device that has failed since, some runs were complete before.
  if (!run.request.isComplete)
    status = device_->awaitOldest(run.part ? times : others);
  // Where runs are issued ahead, one begins when the one before ends.
  int64_t begin = std::max(run.begin, lastEnd_);
  lastEnd_ = nowNanoseconds();
  if (!run.part)
    return status;
  times.total += lastEnd_ - begin;
  times.other = times.total - times.matmul - times.kernels -
                times.communication - times.waiting;
  if (status)
    return status;
  counters_ += run.program->recording().traffic();
  if (run.part->isLast) {
    ++counters_.steps;
    counters_.allSteps += times;
  }
  return Status::ok();
}

Status Executor::step(hal::Executable &program, StepPart part) {
  if (Status s = issue(program, part))
    return s;
  return finish();
}

Status Executor::run(hal::Executable &program) {
  if (Status s = issue(program, std::nullopt))
    return s;
  return finish();
}

void Executor::record(const CallRecord &call) {
  CallRecord mine = call;
  mine.step = static_cast<int32_t>(counters_.steps);
  if (!mine.name)
    mine.name = "";
  recorder_.record(mine);
}

} // namespace fsdp::rt
