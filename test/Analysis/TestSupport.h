//===- TestSupport.h - Errors as text ---------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_ANALYSIS_TESTSUPPORT_H
#define FSDP_TEST_ANALYSIS_TESTSUPPORT_H

#include "llvm/Support/Error.h"

#include "gtest/gtest.h"

#include <string>

namespace mlir::fsdp {

/// The message of a refusal; "" where there was none.
template <typename T>
std::string getError(llvm::Expected<T> result) {
  return result ? std::string() : llvm::toString(result.takeError());
}

} // namespace mlir::fsdp

#endif // FSDP_TEST_ANALYSIS_TESTSUPPORT_H
