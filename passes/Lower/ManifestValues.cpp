//===- ManifestValues.cpp - Attributes as JSON ----------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ManifestValues.h"
#include "ApproxFunc.h"
#include "fsdp/ABI/Dtype.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fsdp;
namespace json = llvm::json;

json::Object fsdp::toJson(const std::map<StringRef, int64_t> &values) {
  json::Object result;
  for (auto [name, value] : values)
    result[name] = value;
  return result;
}

json::Array fsdp::toJson(ArrayRef<int64_t> values) {
  json::Array array;
  for (int64_t value : values)
    array.push_back(value);
  return array;
}

json::Array fsdp::toJson(ArrayAttr names) {
  json::Array array;
  if (names)
    for (auto name : names.getAsValueRange<StringAttr>())
      array.push_back(name);
  return array;
}

json::Value fsdp::toJson(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value > 0 ? "inf" : "-inf";
  return value;
}

StringRef fsdp::getStoredDtype(RankedTensorType type, bool isUnsigned) {
  Type element = type.getElementType();
  if (isUnsigned)
    element = IntegerType::get(type.getContext(), 8, IntegerType::Unsigned);
  return getDtypeName(element);
}

json::Value fsdp::getInit(Attribute attr, bool isUnsigned) {
  auto dict = dyn_cast_or_null<DictionaryAttr>(attr);
  auto kind = dict ? dict.getAs<StringAttr>("kind") : StringAttr();
  if (!kind || kind == "file")
    return nullptr;
  json::Object init{{"kind", kind.getValue()}};
  for (NamedAttribute entry : dict) {
    if (auto value = dyn_cast<FloatAttr>(entry.getValue())) {
      init[entry.getName().getValue()] = toJson(value.getValueAsDouble());
    } else if (auto value = dyn_cast<IntegerAttr>(entry.getValue())) {
      init[entry.getName().getValue()] = value.getInt();
    } else if (auto dense = dyn_cast<DenseElementsAttr>(entry.getValue())) {
      json::Array values;
      if (isa<FloatType>(dense.getElementType()))
        for (APFloat value : dense.getValues<APFloat>())
          values.push_back(toJson(value.convertToDouble()));
      else
        for (APInt value : dense.getValues<APInt>())
          values.push_back(isUnsigned || value.getBitWidth() == 1
                               ? int64_t(value.getZExtValue())
                               : value.getSExtValue());
      init["values"] = std::move(values);
    }
  }
  return init;
}

bool fsdp::hasApproximations(ModuleOp module) {
  auto isApproximate = [](Operation *op) {
    if (auto call = dyn_cast<LLVM::CallIntrinsicOp>(op))
      return call.getIntrin().contains(".approx");
    return hasApproxFunc(op);
  };
  auto find = [&](Operation *op) {
    return isApproximate(op) ? WalkResult::interrupt() : WalkResult::advance();
  };
  return llvm::any_of(module.getOps<gpu::GPUModuleOp>(),
                      [&](gpu::GPUModuleOp device) {
                        return device.walk(find).wasInterrupted();
                      });
}

llvm::json::Array fsdp::getResiduals(ModuleOp module) {
  llvm::json::Array residuals;
  for (auto state : module.getOps<StateOp>()) {
    if (state.getKind() != StateKind::residual)
      continue;
    auto type = cast<RankedTensorType>(state.getType());
    residuals.push_back(
        llvm::json::Object{{"name", *state.getCheckpointName()},
                           {"dtype", getDtypeName(type.getElementType())},
                           {"shape", toJson(type.getShape())},
                           {"offset", int64_t(*state.getOffset())},
                           {"init", getInit(state.getInitAttr())}});
  }
  return residuals;
}

llvm::json::Array fsdp::getDerivedStates(ModuleOp module, StateKind kind) {
  llvm::json::Array states;
  for (auto state : module.getOps<StateOp>()) {
    if (state.getKind() != kind)
      continue;
    auto type = cast<RankedTensorType>(state.getType());
    states.push_back(
        llvm::json::Object{{"flat_param", *state.getFlatParam()},
                           {"dtype", getDtypeName(type.getElementType())},
                           {"numel", type.getNumElements()},
                           {"offset", int64_t(*state.getOffset())}});
  }
  return states;
}
