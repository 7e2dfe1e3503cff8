//===- FlatLayout.cpp - Which parameters share a flat parameter -----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/FlatLayout.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

FloatType fsdp::parseFloatType(MLIRContext *context, StringRef text) {
  if (text == "f32")
    return Float32Type::get(context);
  if (text == "f64")
    return Float64Type::get(context);
  if (text == "bf16")
    return BFloat16Type::get(context);
  if (text == "f16")
    return Float16Type::get(context);
  return {};
}

FlatDtypes fsdp::getFlatDtypes(FloatType traced, FloatType paramDtype,
                               FloatType reduceDtype, Treatment treatment) {
  FlatDtypes types{traced, traced, traced};
  if (treatment == Treatment::Ignored)
    return types;
  if (paramDtype) {
    types.gather = types.reduce = paramDtype;
    if (traced.getIntOrFloatBitWidth() < 32)
      types.state = Float32Type::get(traced.getContext());
  }
  if (reduceDtype)
    types.reduce = reduceDtype;
  return types;
}

static std::string getName(const FlatPlan &plan, StringRef typeName) {
  std::string name = plan.unit.empty() ? "root" : plan.unit;
  if (!typeName.empty())
    name += ("." + typeName).str();
  if (!plan.trainable)
    name += ".frozen";
  if (plan.treatment == Treatment::Replicated)
    name += ".replicated";
  if (plan.treatment == Treatment::Ignored)
    name += ".ignored";
  return name;
}

int64_t fsdp::getShardAlignment(int64_t shardNumel) {
  constexpr int64_t kLargest = 4096, kShare = 100;
  int64_t alignment = kMemberAlignment;
  while (alignment < kLargest && 2 * alignment * kShare <= shardNumel)
    alignment *= 2;
  return alignment;
}

/// Members of one group of the optimizer lie side by side, those of none first,
/// groups by name: so that few borders between groups are in a shard. Otherwise
/// in traversal order.
static void placeMembers(const TracedStep &step, FlatPlan &plan) {
  auto getGroup = [&](unsigned index) {
    StringAttr group = step.params[index].group;
    return group && plan.trainable ? group.getValue() : StringRef();
  };
  llvm::sort(plan.params, [&](unsigned a, unsigned b) {
    return std::pair(getGroup(a), a) < std::pair(getGroup(b), b);
  });
  for (unsigned index : plan.params) {
    int64_t offset = llvm::alignTo(plan.numel, kMemberAlignment);
    plan.offsets.push_back(offset);
    plan.numel = offset + step.params[index].getType().getNumElements();
  }
}

std::vector<FlatPlan>
fsdp::planFlatParams(const TracedStep &step, ArrayRef<std::string> units,
                     ArrayRef<Treatment> treatments,
                     llvm::function_ref<int64_t(StringRef)> countShards) {
  std::vector<FlatPlan> plans;
  for (unsigned index = 0, e = step.params.size(); index != e; ++index) {
    const ParamInfo &param = step.params[index];
    auto elementType = cast<FloatType>(param.getType().getElementType());
    auto plan = llvm::find_if(plans, [&](const FlatPlan &p) {
      return p.unit == units[index] && p.treatment == treatments[index] &&
             p.trainable == param.isTrainable() && p.elementType == elementType;
    });
    if (plan == plans.end())
      plan = plans.insert(plans.end(), FlatPlan());
    plan->unit = units[index];
    plan->treatment = treatments[index];
    plan->trainable = param.isTrainable();
    plan->elementType = elementType;
    plan->params.push_back(index);
  }
  for (FlatPlan &plan : plans)
    placeMembers(step, plan);

  // Flat parameters are symbols, next to those that the module has or will get.
  llvm::StringSet<> used{names::kMesh, names::kTrain, names::kOptimizer};
  for (auto symbol :
       step.func->getParentOfType<ModuleOp>().getOps<SymbolOpInterface>())
    used.insert(symbol.getName());
  for (FlatPlan &plan : plans) {
    int64_t ranks =
        plan.treatment == Treatment::Sharded ? countShards(plan.unit) : 1;
    // Where all members are empty, padding keeps a rank's piece from being so.
    int64_t shard = std::max<int64_t>(1, llvm::divideCeil(plan.numel, ranks));
    plan.numel = ranks * llvm::alignTo(shard, getShardAlignment(shard));
    // The element type is part of the name only where a unit has several.
    bool mixed = llvm::any_of(plans, [&](const FlatPlan &other) {
      return other.unit == plan.unit && other.elementType != plan.elementType;
    });
    std::string typeName;
    if (mixed)
      llvm::raw_string_ostream(typeName) << plan.elementType;
    std::string base = getName(plan, typeName);
    plan.name = base;
    for (unsigned i = 1; !used.insert(plan.name).second; ++i)
      plan.name = base + "_" + std::to_string(i);
  }
  return plans;
}
