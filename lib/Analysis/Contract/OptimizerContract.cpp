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

/// Adds what depends on @values in the bodies of @op, and results by what
/// bodies yield.
static void addDependentsInside(Operation &op, llvm::DenseSet<Value> &values) {
  auto depends = [&](Value it) { return values.contains(it); };
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  for (Region &region : op.getRegions())
    for (Block &body : region) {
      for (BlockArgument it : body.getArguments())
        if (linalgOp ? depends(linalgOp.getMatchingOpOperand(it)->get())
                     : llvm::any_of(op.getOperands(), depends))
          values.insert(it);
      addDependents(body, values);
      ValueRange yielded = body.back().getOperands();
      if (!linalgOp && llvm::any_of(yielded, depends))
        values.insert(op.result_begin(), op.result_end());
      if (linalgOp)
        for (auto [result, value] : llvm::zip(op.getResults(), yielded))
          if (depends(value))
            values.insert(result);
    }
}

void fsdp::addDependents(Block &block, llvm::DenseSet<Value> &values) {
  for (Operation &op : block) {
    addDependentsInside(op, values);
    if (!isa<linalg::LinalgOp>(op) &&
        llvm::any_of(op.getOperands(),
                     [&](Value it) { return values.contains(it); }))
      values.insert(op.result_begin(), op.result_end());
  }
}

/// optimizer_c8: all groups share a state of rank 0, so it does not depend on
/// a scalar that a group has its own number for.
static LogicalResult checkSharedStates(OptimizerFunction &optimizer) {
  Block &body = optimizer.func.getBody().front();
  for (auto [arg, formal] :
       llvm::zip(optimizer.args, optimizer.func.getArguments())) {
    StringAttr name = arg.name;
    if (arg.role != OptimizerRole::Scalar ||
        llvm::none_of(optimizer.groups, [name](NamedAttribute group) {
          return cast<DictionaryAttr>(group.getValue()).contains(name);
        }))
      continue;
    llvm::DenseSet<Value> dependents{formal};
    addDependents(body, dependents);
    for (auto [result, value] :
         llvm::zip(optimizer.results, body.getTerminator()->getOperands()))
      if (result.role == OptimizerRole::State && result.isScalarShaped() &&
          dependents.contains(value))
        return emitInputError(optimizer.func,
                              "optimizer_c8: expected groups that leave ")
               << name << " alone, since " << result.name
               << ", a state that all parameters share, depends on it";
  }
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
