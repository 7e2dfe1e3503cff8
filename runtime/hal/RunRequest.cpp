//===- RunRequest.cpp - What one run is asked for -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "hal/RunRequest.h"

namespace fsdp::rt::hal {

Status checkNumbers(const RunRequest &request, int64_t size) {
  for (const std::vector<RunNumber> *numbers :
       {&request.scalars, &request.results})
    for (const RunNumber &number : *numbers)
      if (number.bytes < 1 || number.bytes > int64_t(sizeof(number.value)) ||
          number.offset < 0 || number.offset > size - number.bytes)
        return Status::internal(
            "expected a number of 1 to 8 bytes inside the " +
            std::to_string(size) + " of a memory, got " +
            std::to_string(number.bytes) + " at " +
            std::to_string(number.offset));
  return Status::ok();
}

Status placeScalars(const RunRequest &request, Memory &memory) {
  if (Status s = checkNumbers(request, memory.size()))
    return s;
  for (const RunNumber &number : request.scalars)
    if (Status s = memory.upload(number.offset, number.value, number.bytes))
      return s;
  return Status::ok();
}

Status fetchResults(RunRequest &request, const Memory &memory) {
  for (RunNumber &number : request.results)
    if (Status s = memory.download(number.offset, number.value, number.bytes))
      return s;
  return Status::ok();
}

} // namespace fsdp::rt::hal
