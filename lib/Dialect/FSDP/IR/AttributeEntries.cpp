//===- AttributeEntries.cpp - Dictionaries that are read by name ----------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttributeEntries.h"
#include "fsdp/Dialect/FSDP/IR/AttributeNames.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Dialect/FSDP/IR/JsonText.h"

#include "mlir/IR/BuiltinAttributes.h"

#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// An entry of a dictionary, and what its value is.
struct Entry {
  StringRef name, what;
  bool (*isRight)(Attribute);
  bool isNeeded = false;
};
} // namespace

static bool isName(Attribute value) {
  auto text = dyn_cast<StringAttr>(value);
  return text && !text.empty();
}

/// The dictionary @attr has what passes read of it by name.
static LogicalResult verifyEntries(Operation *op, NamedAttribute attr,
                                   ArrayRef<Entry> entries,
                                   const Twine &where) {
  auto emit = [&]() -> InFlightDiagnostic {
    return op->emitOpError("expected ") << attr.getName().getValue() << where;
  };
  auto dictionary = dyn_cast<DictionaryAttr>(attr.getValue());
  if (!dictionary)
    return emit() << " with a dictionary, got " << attr.getValue();
  for (const Entry &entry : entries) {
    Attribute value = dictionary.get(entry.name);
    if (value ? entry.isRight(value) : !entry.isNeeded)
      continue;
    InFlightDiagnostic diag = emit();
    diag << " with " << entry.what << " as " << entry.name << ", got ";
    if (value)
      return diag << value;
    return diag << "none";
  }
  return success();
}

/// discardable_c9
LogicalResult fsdp::verifyNotes(Operation *op, NamedAttribute attr) {
  auto list = dyn_cast<ArrayAttr>(attr.getValue());
  if (list && llvm::all_of(list, isName))
    return success();
  return op->emitOpError("expected fsdp.notes with a list of texts, got ")
         << attr.getValue();
}

LogicalResult fsdp::verifyTraced(Operation *op, NamedAttribute attr) {
  constexpr auto isString = [](Attribute value) {
    return isa<StringAttr>(value);
  };
  constexpr auto areNumbers = [](Attribute value) {
    auto list = dyn_cast<ArrayAttr>(value);
    return list && llvm::all_of(list, llvm::IsaPred<FloatAttr>);
  };
  // discardable_c7
  return verifyEntries(op, attr,
                       {{"step", "a string", isString, true},
                        {"optimizer", "a string", isString, true},
                        {"constants", "a list of floats", areNumbers, true},
                        {"spec", "a string", isString, false}},
                       "");
}

bool fsdp::isJsonObject(Attribute attr) {
  auto text = dyn_cast<StringAttr>(attr);
  if (!text)
    return false;
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(text.getValue());
  if (json)
    return json->getAsObject() != nullptr;
  llvm::consumeError(json.takeError());
  return false;
}

LogicalResult fsdp::verifyModules(Operation *op, NamedAttribute attr) {
  constexpr auto isText = [](Attribute value) {
    return isa<StringAttr>(value);
  };
  constexpr auto isBool = [](Attribute value) { return isa<BoolAttr>(value); };
  auto list = dyn_cast<ArrayAttr>(attr.getValue());
  if (!list)
    return op->emitOpError("expected ")
           << attr.getName().getValue() << " with a list, got "
           << attr.getValue();
  // discardable_c8
  for (auto [i, entry] : llvm::enumerate(list))
    if (failed(verifyEntries(op, NamedAttribute(attr.getName(), entry),
                             {{"fqn", "a string", isText, true},
                              {"class", "a string", isText, true},
                              {"config", "a JSON object as text", isJsonObject},
                              {"checkpoint", "true or false", isBool}},
                             " at " + Twine(i))))
      return failure();
  return success();
}

LogicalResult fsdp::verifyProgramAttribute(Operation *op, NamedAttribute attr,
                                           const Twine &where) {
  constexpr auto isInteger = [](Attribute value) {
    return isa<IntegerAttr>(value);
  };
  constexpr auto isFloat = [](Attribute value) {
    return isa<FloatAttr>(value);
  };
  constexpr auto isBool = [](Attribute value) { return isa<BoolAttr>(value); };
  constexpr auto isList = [](Attribute value) {
    return isa<DenseI64ArrayAttr>(value);
  };
  constexpr auto isRange = [](Attribute value) {
    auto list = dyn_cast<DenseI64ArrayAttr>(value);
    return list && list.size() == 2;
  };
  constexpr auto isShift = [](Attribute value) {
    return isa<IntegerAttr, StringAttr>(value);
  };
  StringRef name = attr.getName().getValue();
  const Entry called{"name", "a string that is not empty", isName, true};
  // program_c10
  if (name == names::kInput)
    return verifyEntries(op, attr,
                         {called,
                          {"low", "an integer", isInteger},
                          {"high", "an integer", isInteger},
                          {"allowed", "an array of i64", isList},
                          {"draw", "two numbers of i64", isRange},
                          {"shift", "an integer or \"unknown\"", isShift},
                          {"unsigned", "true or false", isBool}},
                         " on " + where);
  if (name == names::kScalar)
    return verifyEntries(op, attr, {called, {"default", "a float", isFloat}},
                         " on " + where);
  if (name == names::kOutput)
    return verifyEntries(op, attr, {called}, " on " + where);
  if (name == names::kOffset && !isa<IntegerAttr>(attr.getValue()))
    return op->emitOpError("expected ") << name << " with a number of bytes on "
                                        << where << ", got " << attr.getValue();
  return success();
}

LogicalResult fsdp::verifyTuning(Operation *op, NamedAttribute attr) {
  auto isEntry = [](NamedAttribute entry) {
    StringRef name = entry.getName().getValue();
    if (name == "rows" || name == "columns")
      return isa<IntegerAttr>(entry.getValue());
    auto tile = dyn_cast<DenseI64ArrayAttr>(entry.getValue());
    return (name == "forward" || name == "dq" || name == "dkdv") && tile &&
           tile.size() == 3;
  };
  auto entries = dyn_cast<DictionaryAttr>(attr.getValue());
  if (entries && llvm::all_of(entries, isEntry))
    return success();
  // discardable_c6
  return op->emitError("expected ")
         << attr.getName().getValue()
         << " with rows, columns and stages of tiles (forward, dq, dkdv: "
            "array<i64>) "
            "and numbers of threads (rows, columns), got "
         << attr.getValue();
}
