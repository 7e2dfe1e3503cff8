//===- FindTogether.h - Independent results, on several threads -*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_PLANNING_FINDTOGETHER_H
#define FSDP_LIB_ANALYSIS_PLANNING_FINDTOGETHER_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/Parallel.h"

#include <optional>
#include <vector>

namespace mlir::fsdp::sched {

/// What @find gives for 0 to @count - 1, in order; of errors the first. Any
/// thread may ask it.
template <typename T>
llvm::Expected<std::vector<T>>
findTogether(size_t count, llvm::function_ref<llvm::Expected<T>(size_t)> find) {
  std::vector<std::optional<llvm::Expected<T>>> found(count);
  llvm::parallelFor(0, count, [&](size_t i) { found[i].emplace(find(i)); });
  std::vector<T> results;
  llvm::Error first = llvm::Error::success();
  for (std::optional<llvm::Expected<T>> &result : found)
    if (*result)
      results.push_back(std::move(**result));
    else if (first)
      llvm::consumeError(result->takeError());
    else
      first = result->takeError();
  if (first)
    return std::move(first);
  return std::move(results);
}

} // namespace mlir::fsdp::sched

#endif // FSDP_LIB_ANALYSIS_PLANNING_FINDTOGETHER_H
