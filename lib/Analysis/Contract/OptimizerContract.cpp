//===- OptimizerContract.cpp - What an optimizer has to be ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rules carry the labels of docs/input-contract.md (optimizer_c1, ...).
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/OptimizerContract.h"
#include "Initialiser.h"
#include "fsdp/Analysis/Contract/InputContract.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::fsdp;

static FailureOr<OptimizerValue> readValue(func::FuncOp func, Type type,
                                           DictionaryAttr attrs,
                                           const Twine &where) {
  auto dict = attrs ? attrs.getAs<DictionaryAttr>(names::kOptimizerRole)
                    : DictionaryAttr();
  auto role = dict ? dict.getAs<StringAttr>("role") : StringAttr();
  auto name = dict ? dict.getAs<StringAttr>("name") : StringAttr();
  std::optional<OptimizerRole> parsed =
      role ? symbolizeOptimizerRole(role) : std::nullopt;
  // optimizer_c2
  if (!parsed || !name || name.empty())
    return emitInputError(func, "optimizer_c2: expected ")
           << where
           << " of @optimizer with fsdp.optimizer = {role, name}, role being "
           << listWords(OptimizerRole(getMaxEnumValForOptimizerRole()));
  // optimizer_c3
  auto tensor = dyn_cast<RankedTensorType>(type);
  bool flat = tensor && tensor.getRank() == 1 && tensor.isDynamicDim(0) &&
              isStoredFloat(tensor.getElementType());
  bool scalar = tensor && tensor.getRank() == 0 &&
                (isStoredFloat(tensor.getElementType()) ||
                 isStoredInteger(tensor.getElementType()));
  bool mayBeScalar =
      *parsed == OptimizerRole::State || *parsed == OptimizerRole::Scalar;
  if (!(flat && *parsed != OptimizerRole::Scalar) && !(scalar && mayBeScalar))
    return emitInputError(func,
                          "optimizer_c3: expected a flat float tensor of "
                          "dynamic size (or a state or scalar of rank 0) for ")
           << where << " of @optimizer (" << name << "), got " << type;
  // optimizer_c2
  StringRef key = *parsed == OptimizerRole::State    ? "init"
                  : *parsed == OptimizerRole::Scalar ? "default"
                                                     : "";
  for (NamedAttribute entry : dict) {
    StringRef given = entry.getName();
    if (given != "role" && given != "name" &&
        (given != key || !getInitNumber(dict, key)))
      return emitInputError(func,
                            "optimizer_c2: expected a number as 'init' of a "
                            "state or 'default' of a scalar and no other entry "
                            "for ")
             << where << " of @optimizer (" << name << "), got '" << given
             << "' = " << entry.getValue();
  }
  FloatAttr init;
  if (dict.contains(key))
    init = FloatAttr::get(Float64Type::get(func.getContext()),
                          *getInitNumber(dict, key));
  return OptimizerValue{*parsed, name, tensor, init};
}

FloatAttr OptimizerFunction::getGroupScalar(StringAttr group,
                                            StringAttr name) const {
  if (!group || !groups)
    return {};
  auto own = groups.getAs<DictionaryAttr>(group.getValue());
  return own ? own.getAs<FloatAttr>(name.getValue()) : FloatAttr();
}

llvm::DenseSet<Value> fsdp::getResultSources(Operation &op, unsigned index) {
  llvm::DenseSet<Value> sources;
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic) {
    sources.insert_range(op.getOperands());
    llvm::SetVector<Value> captured;
    getUsedValuesDefinedAbove(op.getRegions(), captured);
    sources.insert_range(captured);
    return sources;
  }
  Block *body = generic.getBody();
  SmallVector<Value> stack{body->getTerminator()->getOperand(index)};
  llvm::DenseSet<Value> seen;
  while (!stack.empty()) {
    Value value = stack.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument && argument.getOwner() == body)
      sources.insert(generic->getOperand(argument.getArgNumber()));
    else if (argument || value.getDefiningOp()->getBlock() != body)
      sources.insert(value); // from outside, or of a region inside
    else
      value.getDefiningOp()->walk([&](Operation *inner) {
        llvm::append_range(stack, inner->getOperands());
      });
  }
  return sources;
}

/// optimizer_c8: one state of rank 0 serves all groups, so nothing that a group
/// has its own number for may decide it. Linear in the ops of the function.
static LogicalResult checkSharedStates(OptimizerFunction &optimizer) {
  llvm::DenseMap<Value, StringAttr> own; // and the scalar it depends on
  for (auto [arg, value] :
       llvm::zip(optimizer.args, optimizer.func.getArguments()))
    for (NamedAttribute group : optimizer.groups)
      if (arg.role == OptimizerRole::Scalar &&
          cast<DictionaryAttr>(group.getValue()).contains(arg.name))
        own[value] = arg.name;
  Block &body = optimizer.func.getBody().front();
  for (Operation &op : body.without_terminator())
    for (auto [index, result] : llvm::enumerate(op.getResults()))
      for (Value source : getResultSources(op, index))
        if (auto it = own.find(source); it != own.end()) {
          StringAttr scalar = it->second;
          own[result] = scalar;
          break;
        }
  for (auto [result, value] :
       llvm::zip(optimizer.results, body.getTerminator()->getOperands()))
    if (auto it = own.find(value); it != own.end() &&
                                   result.role == OptimizerRole::State &&
                                   result.isScalarShaped())
      return emitInputError(optimizer.func,
                            "optimizer_c8: expected groups that leave ")
             << it->second << " alone, since " << result.name
             << ", a state that all parameters share, depends on it";
  return success();
}

/// optimizer_c8
static LogicalResult readGroups(OptimizerFunction &optimizer) {
  func::FuncOp func = optimizer.func;
  optimizer.groups =
      func->getAttrOfType<DictionaryAttr>(names::kOptimizerGroups);
  if (!optimizer.groups)
    return success();
  SmallVector<StringRef> scalars;
  for (const OptimizerValue &arg : optimizer.args)
    if (arg.role == OptimizerRole::Scalar &&
        isa<FloatType>(arg.type.getElementType()))
      scalars.push_back(arg.name.getValue());
  for (NamedAttribute group : optimizer.groups) {
    auto entries = dyn_cast<DictionaryAttr>(group.getValue());
    if (!entries || group.getName().getValue().contains('.'))
      return emitInputError(func, "optimizer_c8: expected groups of @optimizer "
                                  "with names without dots and a dictionary "
                                  "of numbers each, got ")
             << group.getName() << " = " << group.getValue();
    for (NamedAttribute entry : entries) {
      StringRef name = entry.getName();
      auto number = dyn_cast<FloatAttr>(entry.getValue());
      if (!llvm::is_contained(scalars, name))
        return emitInputError(func, "optimizer_c8: expected one of the scalars "
                                    "of @optimizer (")
               << llvm::join(scalars, ", ") << ") for group " << group.getName()
               << ", got " << entry.getName();
      if (!number || !number.getType().isF64() || !number.getValue().isFinite())
        return emitInputError(func,
                              "optimizer_c8: expected a finite f64 number for ")
               << entry.getName() << " of group " << group.getName() << ", got "
               << entry.getValue();
    }
  }
  return checkSharedStates(optimizer);
}

FailureOr<OptimizerFunction> fsdp::readOptimizer(func::FuncOp func) {
  OptimizerFunction optimizer;
  optimizer.func = func;
  // optimizer_c1
  if (func.isExternal() || !func.getBody().hasOneBlock())
    return emitInputError(func, "optimizer_c1: expected a body of one block in "
                                "@optimizer");
  for (auto [index, type] : llvm::enumerate(func.getArgumentTypes())) {
    auto value = readValue(func, type, func.getArgAttrDict(index),
                           "argument #" + Twine(index));
    if (failed(value))
      return failure();
    optimizer.args.push_back(*value);
  }
  for (auto [index, type] : llvm::enumerate(func.getResultTypes())) {
    auto value = readValue(func, type, func.getResultAttrDict(index),
                           "result #" + Twine(index));
    if (failed(value))
      return failure();
    optimizer.results.push_back(*value);
  }
  // optimizer_c4
  auto count = [](ArrayRef<OptimizerValue> values, OptimizerRole role) {
    return llvm::count_if(values, [&](auto &v) { return v.role == role; });
  };
  if (count(optimizer.args, OptimizerRole::Param) != 1 ||
      count(optimizer.args, OptimizerRole::Grad) != 1 ||
      count(optimizer.results, OptimizerRole::Param) != 1)
    return emitInputError(func,
                          "optimizer_c4: expected @optimizer to take one param "
                          "and one grad and to return one param");
  // optimizer_c5
  for (OptimizerValue &result : optimizer.results) {
    auto *arg = llvm::find_if(optimizer.args, [&](OptimizerValue &a) {
      return a.role == result.role &&
             (a.role == OptimizerRole::Param || a.name == result.name);
    });
    if (arg == optimizer.args.end() || arg->type != result.type)
      return emitInputError(func, "optimizer_c5: expected result ")
             << result.name
             << " of @optimizer to be an argument of the same role, name and "
                "type";
  }
  if (count(optimizer.args, OptimizerRole::State) !=
      count(optimizer.results, OptimizerRole::State))
    return emitInputError(
        func,
        "optimizer_c5: expected @optimizer to return every state it takes");
  // optimizer_c6
  llvm::StringSet<> taken;
  for (OptimizerValue &arg : optimizer.args) {
    if (!taken.insert(arg.name.getValue()).second)
      return emitInputError(func,
                            "optimizer_c6: expected arguments of @optimizer "
                            "with names of their own, got ")
             << arg.name << " twice";
    const scalars::Traits *known = scalars::find(arg.name.getValue());
    if (known && known->purpose)
      return emitInputError(func,
                            "optimizer_c6: expected @optimizer without an "
                            "argument named ")
             << arg.name << ", which " << known->purpose << " adds";
  }
  llvm::StringSet<> returned;
  for (OptimizerValue &result : optimizer.results)
    if (!returned.insert(result.name.getValue()).second)
      return emitInputError(func,
                            "optimizer_c6: expected results of @optimizer with "
                            "names of their own, got ")
             << result.name << " twice";
  if (failed(readGroups(optimizer)))
    return failure();
  return optimizer;
}

FailureOr<OptimizerFunction> fsdp::readOptimizer(ModuleOp module) {
  auto func = module.lookupSymbol<func::FuncOp>(names::kOptimizer);
  if (!func)
    return emitInputError(
        module, "optimizer_c1: expected a function @optimizer, got none");
  return readOptimizer(func);
}
