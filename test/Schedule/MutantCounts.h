//===- MutantCounts.h - How many mutants there were -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_SCHEDULE_MUTANTCOUNTS_H
#define FSDP_TEST_SCHEDULE_MUTANTCOUNTS_H

#include <gtest/gtest.h>

#include <cstdio>
#include <initializer_list>
#include <string>
#include <utility>

namespace mlir::fsdp::sched::test {

/// Prints "5 mutants, 3 harmful" and @what, and gives the same to machines as
/// properties of the test.
inline void
reportCounts(std::initializer_list<std::pair<const char *, int>> counts,
             const std::string &what = "") {
  const char *separator = "";
  for (auto [name, count] : counts) {
    ::testing::Test::RecordProperty(name, count);
    std::printf("%s%d %s", separator, count, name);
    separator = ", ";
  }
  std::printf("%s\n", what.c_str());
}

} // namespace mlir::fsdp::sched::test

#endif // FSDP_TEST_SCHEDULE_MUTANTCOUNTS_H
