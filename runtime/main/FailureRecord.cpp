//===- FailureRecord.cpp - What to tell of a run that failed --------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "main/Training.h"

#include <algorithm>
#include <string>

namespace fsdp::rt {

void FailureRecord::setFailure(const Status &failure) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_)
    failure_ = failure;
}

void FailureRecord::setStep(int64_t step, bool isOwn) {
  std::lock_guard<std::mutex> lock(mutex_);
  int64_t &first = isOwn ? step_ : stepOfOthers_;
  first = first == 0 ? step : std::min(first, step);
}

void FailureRecord::setUnread() {
  std::lock_guard<std::mutex> lock(mutex_);
  isUnread_ = true;
}

bool FailureRecord::isUnread() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return isUnread_;
}

Status FailureRecord::explain(const Status &ofBackend) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const Status &status = failure_ ? *failure_ : ofBackend;
  const int64_t step = step_ > 0 ? step_ : stepOfOthers_;
  return step > 0 ? status.withContext("step " + std::to_string(step)) : status;
}

} // namespace fsdp::rt
