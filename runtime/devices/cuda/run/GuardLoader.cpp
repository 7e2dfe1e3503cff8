//===- GuardLoader.cpp - Guards as work of a CUDA device ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Guards run where their call does: the device fills and searches its own
// memory, a function of the host the host's. What was found is read when the
// run is over.
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/kernels/OwnKernels.h"
#include "devices/cuda/run/CudaLoader.h"
#include "hal/GuardRules.h"

#include <cstring>

namespace fsdp::rt {

using hal::Function;

namespace {

int64_t countSearches(const void *guard) {
  auto desc = static_cast<const fsdp_rt_guard_desc *>(guard);
  if (!desc)
    return 0;
  auto buffers =
      static_cast<const fsdp_rt_guarded_desc *const *>(desc->buffers);
  int64_t count = 0;
  for (int64_t i = 0; i < desc->buffer_count; ++i)
    count += hal::looksInside(buffers[i]->action) +
             hal::looksBehind(buffers[i]->action);
  return count;
}

/// A part of the host's memory that a guard fills or searches.
struct HostGuard {
  unsigned char *at = nullptr;
  int64_t bytes = 0;
  /// Null: it fills.
  RunReport *report = nullptr;
  const uint64_t *run = nullptr;
};

/// What searchKernel does, on memory of the host; or fills it.
void runHostGuard(void *data) {
  const HostGuard &guard = *static_cast<const HostGuard *>(data);
  if (!guard.report) {
    std::memset(guard.at, hal::deadByte, static_cast<size_t>(guard.bytes));
    return;
  }
  for (int64_t i = 0; i < guard.bytes; ++i)
    if (guard.at[i] != hal::deadByte) {
      if (guard.report->run == 0)
        *guard.report = {*guard.run,
                         static_cast<uint64_t>(i) << 8 | guard.at[i]};
      return;
    }
}

} // namespace

Status CudaLoader::makeReports() {
  int64_t checks = 0, searches = 0;
  for (const hal::Call &call : made_.recording().calls()) {
    checks += call.function == Function::check;
    if (call.function == Function::guard)
      searches += countSearches(call.desc);
    if (call.function == Function::start)
      searches += countSearches(call.as<fsdp_rt_start_desc>().guard);
  }
  const int64_t bytes = (checks + searches) * int64_t(sizeof(RunReport));
  Result<std::unique_ptr<PinnedMemory>> reports = PinnedMemory::allocate(
      rank_.context(), bytes, "results of checks and guards");
  if (!reports.isOk())
    return reports.status();
  made_.runReports_ = std::move(*reports);
  if (bytes > 0)
    std::memset(made_.runReports_->data(), 0, size_t(bytes));
  Result<std::unique_ptr<DeviceArena>> onDevice =
      rank_.mapMore(searches * 8, "results of guards");
  if (!onDevice.isOk())
    return onDevice.status();
  made_.foundOnDevice_ = std::move(*onDevice);
  return Status::ok();
}

Status CudaLoader::addGuards(const fsdp_rt_guard_desc &desc, bool before,
                             bool after) {
  auto buffers = static_cast<const fsdp_rt_guarded_desc *const *>(desc.buffers);
  for (int64_t i = 0; i < desc.buffer_count; ++i)
    if (hal::actsBefore(buffers[i]->action) ? before : after)
      if (Status s = addGuard(desc, *buffers[i]))
        return s;
  return Status::ok();
}

Status CudaLoader::addGuard(const fsdp_rt_guard_desc &desc,
                            const fsdp_rt_guarded_desc &buffer) {
  if (buffer.action == FSDP_RT_GUARD_FILL) {
    addDead(buffer, buffer.bytes + buffer.border);
    return Status::ok();
  }
  // What lies after the buffer first: who begins finds both dead.
  CudaReport report;
  report.guard = &desc;
  report.buffer = &buffer;
  report.isBehind = true;
  if (Status s = addSearch(report, buffer.offset + buffer.bytes, buffer.border))
    return s;
  report.isBehind = false;
  if (hal::looksInside(buffer.action))
    return addSearch(report, buffer.offset, buffer.bytes);
  if (buffer.action == FSDP_RT_GUARD_END)
    addDead(buffer, buffer.bytes);
  return Status::ok();
}

void CudaLoader::addHostGuard(int64_t offset, int64_t bytes,
                              RunReport *report) {
  auto guard = std::make_shared<HostGuard>();
  guard->at = reinterpret_cast<unsigned char *>(rank_.host().data()) + offset;
  guard->bytes = bytes;
  guard->report = report;
  guard->run = rank_.numbers().current();
  add([&context = rank_.context(), guard](cu::Stream stream) {
    return context.check(
        context.api().launchHostFunction(stream, runHostGuard, guard.get()),
        "cuLaunchHostFunc");
  });
}

void CudaLoader::addDead(const fsdp_rt_guarded_desc &buffer, int64_t bytes) {
  if (buffer.memory == FSDP_RT_HOST)
    addHostGuard(buffer.offset, bytes, nullptr);
  else
    addFill(at(buffer.offset), hal::deadByte, bytes);
}

Status CudaLoader::addSearch(const CudaReport &report, int64_t offset,
                             int64_t bytes) {
  if (bytes == 0)
    return Status::ok();
  RunReport *mine = addReport(report);
  if (report.buffer->memory == FSDP_RT_HOST) {
    addHostGuard(offset, bytes, mine);
    return Status::ok();
  }
  cu::Pointer found = made_.foundOnDevice_->base() + 8 * searches_++;
  addFill(found, 0xff, sizeof(untouched));
  if (Status s = addOwnKernel(searchLaunch(at(offset), found, bytes)))
    return s;
  return addOwnKernel(
      reportTouchedLaunch(found, reinterpret_cast<cu::Pointer>(mine)));
}

RunReport *CudaLoader::addReport(CudaReport report) {
  RunReport *mine = reinterpret_cast<RunReport *>(made_.runReports_->data()) +
                    made_.reports_.size();
  report.report = mine;
  made_.reports_.push_back(report);
  return mine;
}

} // namespace fsdp::rt
