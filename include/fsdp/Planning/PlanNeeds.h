//===- PlanNeeds.h - How much memory plans need -----------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLANNING_PLANNEEDS_H
#define FSDP_PLANNING_PLANNEEDS_H

#include "fsdp/Planning/StepPlan.h"

#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace mlir::fsdp::sched {

/// The smallest budgets of the model under which plans of one program can be
/// scheduled. Searches for other budgets come by many of the same plans, most
/// of which need too much. Any thread may ask.
class PlanNeeds {
public:
  /// Bytes; nothing where nobody has noted them.
  std::optional<int64_t> find(const StepPlan &plan) const {
    std::lock_guard<std::mutex> lock(mutex);
    auto it = needs.find(plan);
    return it == needs.end() ? std::nullopt : std::optional(it->second);
  }
  void note(const StepPlan &plan, int64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex);
    needs[plan] = bytes;
  }

private:
  struct Hash {
    size_t operator()(const StepPlan &plan) const {
      std::hash<std::vector<bool>> hash;
      size_t result = hash(plan.keep);
      result = 31 * result + hash(plan.recompute);
      result = 31 * result + hash(plan.offload);
      for (Id group : plan.group)
        result = 31 * result + size_t(group);
      return result;
    }
  };
  mutable std::mutex mutex;
  std::unordered_map<StepPlan, int64_t, Hash> needs;
};

} // namespace mlir::fsdp::sched

#endif // FSDP_PLANNING_PLANNEEDS_H
