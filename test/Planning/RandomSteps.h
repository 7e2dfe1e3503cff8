//===- RandomSteps.h - Steps for planners ----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_PLANNING_RANDOMSTEPS_H
#define FSDP_TEST_PLANNING_RANDOMSTEPS_H

#include "../Schedule/SmallPrograms.h"
#include "fsdp/Schedule/Timeline.h"

#include <random>

namespace mlir::fsdp::sched::test {

/// Forward and backward of @units units with up to @kernels kernels each, which
/// read anything of their unit, the last value of the unit before, and a value
/// that all share; backward reads any of it.
inline StepProgram makeRandomStep(std::mt19937 &random, int units,
                                  int kernels) {
  auto draw = [&](int below) { return int(random() % below); };
  ProgramBuilder b;
  std::vector<Id> params;
  for (int u = 0; u != units; ++u)
    params.push_back(b.argument(64 + 16 * draw(8)));
  Id x = b.argument(64), shared = b.value(32);
  b.launch("shared", {x}, {shared});
  std::vector<std::vector<Id>> made(units);
  std::vector<Id> weights;
  Id last = x;
  for (int u = 0; u != units; ++u) {
    Id w = b.value(4 * b.program.values[params[u]].bytes, Purpose::Gathered);
    b.gather(params[u], w);
    weights.push_back(w);
    Id first = last;
    for (int k = 0, e = 1 + draw(kernels); k != e; ++k) {
      llvm::SmallVector<Id> reads = {k == 0 ? first : made[u].back()};
      for (Id v : made[u])
        if (draw(3) == 0)
          reads.push_back(v);
      if (k == 0 || draw(2))
        reads.push_back(w);
      if (draw(3) == 0)
        reads.push_back(shared);
      llvm::SmallVector<Id> writes = {b.value(16 + 16 * draw(20))};
      if (draw(3) == 0)
        writes.push_back(b.value(16 + 16 * draw(8)));
      b.launch("f", reads, writes);
      made[u].insert(made[u].end(), writes.begin(), writes.end());
    }
    last = made[u].back();
  }
  Id gradient = b.value(64);
  b.launch("loss", {last}, {gradient});
  for (int u = units - 1; u >= 0; --u) {
    Id w = weights[u];
    if (u != units - 1) {
      w = b.value(4 * b.program.values[params[u]].bytes, Purpose::Gathered);
      b.gather(params[u], w, true);
    }
    for (int k = 0, e = 1 + draw(3); k != e; ++k) {
      llvm::SmallVector<Id> reads = {gradient, w};
      for (Id v : made[u])
        if (draw(2))
          reads.push_back(v);
      gradient = b.value(64);
      b.launch("b", reads, {gradient}, true);
    }
    Id g = b.value(4 * b.program.values[params[u]].bytes, Purpose::Gradients),
       s = b.value(b.program.values[params[u]].bytes, Purpose::Gradients);
    b.launch("w", {gradient}, {g}, true);
    b.scatter(g, s);
    b.launch("update", {s, params[u]}, {b.over(params[u])}, true);
  }
  return std::move(b.program);
}

} // namespace mlir::fsdp::sched::test

#endif // FSDP_TEST_PLANNING_RANDOMSTEPS_H
