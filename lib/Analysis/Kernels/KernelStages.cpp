//===- KernelStages.cpp - Passes over a work item's points ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which pass over the inner points of a work item computes what, and which
// results it keeps in scratch memory for later passes.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/ComputeOps.h"
#include "fsdp/Analysis/Kernels/KernelLoops.h"

using namespace mlir;
using namespace mlir::fsdp;

/// The first stage in which all reductions that `op` depends on are done; for a
/// reduction, the stage it runs in.
unsigned KernelLoops::getStage(Operation *op) {
  if (auto it = stageOf.find(op); it != stageOf.end())
    return it->second;
  unsigned stage = 0;
  for (Value operand : op->getOperands())
    if (OpResult producer = getProducer(operand)) {
      unsigned before = getStage(producer.getOwner());
      if (reducesInner(producer.getOwner()))
        ++before;
      stage = std::max(stage, before);
    }
  return stageOf[op] = stage;
}

void KernelLoops::assignStages() {
  auto at = [&](unsigned stage) -> KernelStage & {
    if (stages.size() <= stage)
      stages.resize(stage + 1);
    return stages[stage];
  };
  for (linalg::GenericOp op : ops)
    if (reducesInner(op))
      at(getStage(op)).reductions.push_back(op);
  for (linalg::GenericOp sum : columnSums)
    at(getStage(sum)).columnSums.push_back(sum);
  for (auto &[result, write] : writes) {
    Operation *op = result.getOwner();
    if (llvm::is_contained(columnSums, op))
      continue;
    if (!reducesInner(op) && dependsOnInner(op))
      at(getStage(op)).stores.push_back(result);
    else
      itemStores.push_back(result);
  }
}

/// Elementwise results at inner points that a stage needs, down to what it can
/// load.
void KernelLoops::collectDemand(Value value, unsigned stage,
                                llvm::SetVector<OpResult> &demand) const {
  OpResult producer = getProducer(value);
  if (!producer)
    return;
  auto op = cast<linalg::GenericOp>(producer.getOwner());
  if (reducesInner(op) || !dependsOnInner(op) ||
      getAvailableFrom(producer) <= stage || !demand.insert(producer))
    return;
  for (OpOperand *operand : getReadOperands(op))
    collectDemand(operand->get(), stage, demand);
}

unsigned KernelLoops::getAvailableFrom(OpResult result) const {
  auto it = availableFrom.find(result);
  return it == availableFrom.end() ? stages.size() : it->second;
}

/// Operations per point to compute a result again.
int64_t KernelLoops::getRecomputeCost(OpResult result) const {
  auto op = cast<linalg::GenericOp>(result.getOwner());
  int64_t cost = getBodyCost(op);
  for (OpOperand *operand : getReadOperands(op)) {
    OpResult producer = getProducer(operand->get());
    if (!producer)
      cost += 1;
    else if (!reducesInner(producer.getOwner()))
      cost += getRecomputeCost(producer);
  }
  return cost;
}

void KernelLoops::chooseScratch() {
  // What is written anyway can be read back.
  for (auto [i, stage] : llvm::enumerate(stages))
    for (OpResult result : stage.stores)
      availableFrom[result] = i + 1;
  constexpr int64_t kExpensive = 10;
  for (unsigned s = 0; s < stages.size(); ++s) {
    llvm::SetVector<OpResult> now;
    auto demandOf = [&](unsigned stage, llvm::SetVector<OpResult> &demand) {
      for (linalg::GenericOp op : llvm::concat<const linalg::GenericOp>(
               stages[stage].reductions, stages[stage].columnSums))
        for (OpOperand *operand : getReadOperands(op))
          collectDemand(operand->get(), stage, demand);
      for (OpResult result : stages[stage].stores) {
        demand.insert(result);
        for (OpOperand *operand :
             getReadOperands(cast<linalg::GenericOp>(result.getOwner())))
          collectDemand(operand->get(), stage, demand);
      }
    };
    demandOf(s, now);
    for (OpResult result : now) {
      bool later = false;
      for (unsigned t = s + 1; t < stages.size() && !later; ++t) {
        llvm::SetVector<OpResult> then;
        demandOf(t, then);
        later = then.contains(result) && getAvailableFrom(result) > t;
      }
      // Outermost first: what it is made of is then not needed again.
      if (later && getRecomputeCost(result) >= kExpensive) {
        availableFrom[result] = s + 1;
        scratch.push_back(result);
      }
    }
  }
}
