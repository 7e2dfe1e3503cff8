//===- StreamTime.cpp - What work of a stream takes -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "devices/cuda/driver/StreamTime.h"

namespace fsdp::rt {

Result<double> timeOnStream(const CudaContext &context, cu::Stream stream,
                            const std::function<Status()> &issue) {
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
  if (Status s = issue())
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
  return static_cast<double>(milliseconds) * 1e6;
}

} // namespace fsdp::rt
