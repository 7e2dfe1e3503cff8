//===- FunctionStep.h - A function of a test as a step ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_CONFORMANCE_FUNCTIONSTEP_H
#define FSDP_TEST_CONFORMANCE_FUNCTIONSTEP_H

#include "core/Context.h"

#include <functional>
#include <map>
#include <utility>

namespace fsdp::test {

using Step = std::function<int32_t(fsdp_rt_context *)>;

/// Runs @step as a compiled program's, on the calling thread's rank.
inline rt::Status runStep(rt::Context &context, const Step &step) {
  static thread_local const Step *current = nullptr;
  current = &step;
  fsdp_rt_program program = {
      "step", [](fsdp_rt_context *ctx) -> int32_t { return (*current)(ctx); },
      nullptr};
  return context.step(program);
}

/// The transfer @part of @kind in the order of the computation, as in a program
/// without events. Its descriptor is constant data, one for each kind and part.
inline int32_t inOrder(fsdp_rt_context *ctx, int32_t kind, const void *part) {
  struct Start {
    const void *parts[1];
    fsdp_rt_start_desc desc;
  };
  static thread_local std::map<std::pair<int32_t, const void *>, Start> starts;
  auto [it, isNew] = starts.try_emplace({kind, part});
  Start &start = it->second;
  if (isNew) {
    start.parts[0] = part;
    start.desc = {rt::transferName(kind), start.parts, 1,           nullptr, 0,
                  /*event=*/-1,           kind,        /*queue=*/0, nullptr};
  }
  return fsdp_rt_start(ctx, &start.desc);
}

} // namespace fsdp::test

#endif // FSDP_TEST_CONFORMANCE_FUNCTIONSTEP_H
