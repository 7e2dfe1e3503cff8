//===- CudaExecutable.cpp - A program on a CUDA device --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/CudaExecutable.h"

#include "devices/cuda/OwnKernels.h"
#include "hal/GuardRules.h"

namespace fsdp::rt {

namespace {

const char *findName(const hal::Call &call) {
  using hal::Function;
  switch (call.function) {
  case Function::launch:
    return call.as<fsdp_rt_launch_desc>().name;
  case Function::matmul:
    return call.as<fsdp_rt_matmul_desc>().name;
  case Function::attention:
  case Function::attention_backward:
    return call.as<fsdp_rt_attention_desc>().name;
  case Function::start:
    return call.as<fsdp_rt_start_desc>().name;
  case Function::wait:
    return call.as<fsdp_rt_wait_desc>().name;
  case Function::copy:
    return call.as<fsdp_rt_copy_desc>().name;
  case Function::check:
    return call.as<fsdp_rt_check_desc>().message;
  case Function::guard:
    return call.as<fsdp_rt_guard_desc>().name;
  }
  return nullptr;
}

const char *findVerb(hal::Function function) {
  using hal::Function;
  switch (function) {
#define FSDP_RT_FUNCTION(name, desc)                                           \
  case Function::name:                                                         \
    return #name;
#include "fsdp-rt/abi.def"
  }
  return "call";
}

} // namespace

std::string nameOf(const hal::Call &call) {
  const char *name = findName(call);
  return std::string(findVerb(call.function)) + " '" + (name ? name : "") + "'";
}

void CudaExecutable::clearReports() {
  for (const CudaReport &report : reports_)
    if (report.check)
      *report.flag = 1;
    else
      *report.found = untouched;
}

static Status failureOf(const CudaReport &report,
                        const std::string &checkNote) {
  if (report.check) {
    if (*report.flag == 1)
      return Status::ok();
    const char *message = report.check->message;
    return Status::failed(
        std::string(message ? message : "a check of the step failed") +
        (checkNote.empty() ? "" : "; " + checkNote));
  }
  if (*report.found == untouched)
    return Status::ok();
  int64_t begin =
      report.buffer->offset + (report.isBehind ? report.buffer->bytes : 0);
  return hal::touched(*report.guard, *report.buffer, report.isBehind,
                      begin + static_cast<int64_t>(*report.found >> 8),
                      static_cast<unsigned char>(*report.found & 255));
}

Status CudaExecutable::findFailure(const std::string &checkNote) const {
  for (const CudaReport &report : reports_)
    if (Status s = failureOf(report, checkNote))
      return s;
  return Status::ok();
}

} // namespace fsdp::rt
