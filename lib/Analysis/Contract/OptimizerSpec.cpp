//===- OptimizerSpec.cpp - Built-in optimizers as users write them --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/OptimizerSpec.h"

#include "fsdp/Analysis/Contract/InputContract.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <array>
#include <cassert>
#include <charconv>
#include <cmath>

using namespace mlir::fsdp;
using llvm::StringRef;
using Kind = HyperParameter::Kind;
using Named = HyperParameter::Named;

static constexpr StringRef kRate = scalars::learningRate.name;

//===----------------------------------------------------------------------===//
// The tables: names and defaults of torch.optim 2.15
//===----------------------------------------------------------------------===//

static constexpr HyperParameter number(StringRef name, double initial,
                                       double high = HUGE_VAL) {
  return {name, initial, 0, high};
}

/// Not in the texts of checkpoints that were written before it existed.
static constexpr HyperParameter laterNumber(StringRef name, double initial) {
  return {name, initial, 0, HUGE_VAL, Kind::Number, Named::IfGiven};
}

static constexpr HyperParameter initialValue(StringRef name, double initial) {
  return {name, initial, 0, HUGE_VAL, Kind::Initial};
}

static constexpr HyperParameter flag(StringRef name) {
  return {name, 0, 0, 2, Kind::Flag, Named::IfGiven};
}

static constexpr HyperParameter kAdamW[] = {number("lr", 1e-3),
                                            number("beta1", 0.9, 1),
                                            number("beta2", 0.999, 1),
                                            number("eps", 1e-8),
                                            number("weight_decay", 0.01),
                                            flag("amsgrad"),
                                            flag("maximize")};
static constexpr HyperParameter kAdam[] = {
    number("lr", 1e-3),        number("beta1", 0.9, 1),
    number("beta2", 0.999, 1), number("eps", 1e-8),
    number("weight_decay", 0), flag("amsgrad"),
    flag("maximize"),          flag("decoupled_weight_decay")};
static constexpr HyperParameter kSGD[] = {
    number("lr", 1e-3),        number("momentum", 0),
    number("weight_decay", 0), laterNumber("dampening", 0),
    flag("nesterov"),          flag("maximize")};
static constexpr HyperParameter kAdagrad[] = {
    number("lr", 1e-2),        number("lr_decay", 0),
    number("weight_decay", 0), initialValue("initial_accumulator_value", 0),
    number("eps", 1e-10),      flag("maximize")};
static constexpr HyperParameter kAdadelta[] = {
    number("lr", 1), number("rho", 0.9, 1), number("eps", 1e-6),
    number("weight_decay", 0), flag("maximize")};
static constexpr HyperParameter kRMSprop[] = {
    number("lr", 1e-2),        number("alpha", 0.99, 1), number("eps", 1e-8),
    number("weight_decay", 0), number("momentum", 0),    flag("centered"),
    flag("maximize")};
static constexpr HyperParameter kNAdam[] = {
    number("lr", 2e-3),        number("beta1", 0.9, 1),
    number("beta2", 0.999, 1), number("eps", 1e-8),
    number("weight_decay", 0), number("momentum_decay", 4e-3),
    flag("maximize"),          flag("decoupled_weight_decay")};
static constexpr HyperParameter kRAdam[] = {number("lr", 1e-3),
                                            number("beta1", 0.9, 1),
                                            number("beta2", 0.999, 1),
                                            number("eps", 1e-8),
                                            number("weight_decay", 0),
                                            flag("maximize"),
                                            flag("decoupled_weight_decay")};
static constexpr HyperParameter kAdamax[] = {
    number("lr", 2e-3),  number("beta1", 0.9, 1),   number("beta2", 0.999, 1),
    number("eps", 1e-8), number("weight_decay", 0), flag("maximize")};
/// Defaults of the authors' implementation.
static constexpr HyperParameter kLion[] = {
    number("lr", 1e-4), number("beta1", 0.9, 1), number("beta2", 0.99, 1),
    number("weight_decay", 0)};

static llvm::ArrayRef<HyperParameter> getTable(OptimizerKind kind) {
  switch (kind) {
  case OptimizerKind::AdamW:
    return kAdamW;
  case OptimizerKind::Adam:
    return kAdam;
  case OptimizerKind::SGD:
    return kSGD;
  case OptimizerKind::Adagrad:
    return kAdagrad;
  case OptimizerKind::Adadelta:
    return kAdadelta;
  case OptimizerKind::RMSprop:
    return kRMSprop;
  case OptimizerKind::NAdam:
    return kNAdam;
  case OptimizerKind::RAdam:
    return kRAdam;
  case OptimizerKind::Adamax:
    return kAdamax;
  case OptimizerKind::Lion:
    return kLion;
  }
  llvm_unreachable("expected a table for each optimizer");
}

namespace {
/// An optimizer that is known, and why there is none here.
struct Refused {
  StringRef name, reason;
};
} // namespace

/// What no function on flat tensors can be, and what nobody asked for yet.
static constexpr StringRef kWholeMatrices =
    "its state is of whole matrices, of which a rank has pieces";
static constexpr StringRef kNotBuiltIn =
    "--optimizer-file takes it as a function in MLIR";
static constexpr Refused kRefused[] = {
    {"adafactor", kWholeMatrices},
    {"shampoo", kWholeMatrices},
    {"soap", kWholeMatrices},
    {"muon", "it makes whole matrices orthogonal, of which a rank has pieces"},
    {"lamb", "it takes norms of whole parameters, of which a rank has pieces"},
    {"lars", "it takes norms of whole parameters, of which a rank has pieces"},
    {"lbfgs", "it evaluates the loss several times in a step"},
    {"sparse_adam", "it is for sparse gradients, and there are none here"},
    {"sparseadam", "it is for sparse gradients, and there are none here"},
    {"asgd", kNotBuiltIn},
    {"rprop", kNotBuiltIn},
};

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

OptimizerSpec::OptimizerSpec(OptimizerKind kind)
    : kind(kind),
      values(llvm::map_range(getTable(kind), [](const HyperParameter &it) {
        return it.initial;
      })) {}

llvm::ArrayRef<HyperParameter> OptimizerSpec::getHyperParameters() const {
  return getTable(kind);
}

static const HyperParameter *findRow(llvm::ArrayRef<HyperParameter> table,
                                     StringRef name) {
  const auto *row = llvm::find_if(
      table, [&](const HyperParameter &it) { return it.name == name; });
  return row == table.end() ? nullptr : row;
}

double OptimizerSpec::get(StringRef name) const {
  const HyperParameter *row = findRow(getTable(kind), name);
  assert(row && "expected a hyper-parameter of this optimizer");
  return values[row - getTable(kind).begin()];
}

bool OptimizerSpec::isSet(StringRef flag) const {
  return findRow(getTable(kind), flag) && get(flag) != 0;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// The shortest decimal that reads back as @value.
static std::string printShortest(double value) {
  std::array<char, 32> text;
  auto [end, error] = std::to_chars(text.begin(), text.end(), value);
  assert(error == std::errc() && "expected 32 characters to hold a double");
  (void)error;
  return std::string(text.begin(), end);
}

std::string
OptimizerSpec::printConstants(llvm::ArrayRef<StringRef> runTimeScalars) const {
  std::string text = getWord(kind).str();
  char separator = ':';
  for (auto [row, value] : llvm::zip_equal(getTable(kind), values)) {
    if (row.name == kRate || llvm::is_contained(runTimeScalars, row.name) ||
        (row.named == Named::IfGiven && value == row.initial))
      continue;
    text += separator + (row.name + "=").str() +
            (row.kind == Kind::Flag ? "true" : printShortest(value));
    separator = ',';
  }
  return text;
}

/// An error that lists the names of @table and, where one is near to @name,
/// proposes it after what was @typed.
static llvm::Error refuseName(llvm::ArrayRef<HyperParameter> table,
                              OptimizerKind kind, StringRef typed,
                              StringRef name) {
  auto names = llvm::map_to_vector(
      table, [](const HyperParameter &it) { return it.name; });
  auto distance = [&](StringRef it) {
    return name.edit_distance(it, /*AllowReplacements=*/true);
  };
  StringRef nearest = *llvm::min_element(names, [&](StringRef a, StringRef b) {
    return distance(a) < distance(b);
  });
  // Of a short name two letters are too much.
  bool isNear = distance(nearest) <= std::max<size_t>(1, name.size() / 3);
  return llvm::createStringError(
      "expected one of " + llvm::join(names, ", ") + " for " + getWord(kind) +
      ", got '" + typed + "'" +
      (isNear && !name.empty() ? "; did you mean '" + nearest.str() + "'?"
                               : std::string()));
}

static llvm::Error refuseOptimizer(StringRef name) {
  const Refused *known = llvm::find_if(
      kRefused, [&](const Refused &it) { return it.name == name; });
  return llvm::createStringError(
      "expected " + listWords<OptimizerKind>() + " as optimizer, got '" + name +
      "': " +
      (known != std::end(kRefused)
           ? known->reason
           : "--optimizer-file takes others as functions in MLIR"));
}

llvm::Error OptimizerSpec::set(StringRef name, StringRef value) {
  const HyperParameter &row = *findRow(getTable(kind), name);
  double &place = values[&row - getTable(kind).begin()];
  if (row.kind == Kind::Flag) {
    if (value != "true" && value != "false")
      return llvm::createStringError("expected " + name + "=true or " + name +
                                     "=false, got '" + value + "'");
    place = value == "true";
    return llvm::Error::success();
  }
  double number;
  if (value.getAsDouble(number) || !(number >= row.low) || !(number < row.high))
    return llvm::createStringError(
        "expected " + name + " in [" +
        llvm::Twine(static_cast<int64_t>(row.low)) + ", " +
        (std::isinf(row.high) ? llvm::Twine("inf") : llvm::Twine("1")) +
        "), got '" + value + "'");
  place = number;
  return llvm::Error::success();
}

/// As torch.optim.SGD refuses it.
llvm::Error OptimizerSpec::checkTogether() const {
  if (!isSet("nesterov") || (get("momentum") > 0 && get("dampening") == 0))
    return llvm::Error::success();
  return llvm::createStringError(
      "expected momentum above 0 and dampening of 0 beside nesterov, got "
      "momentum=" +
      printShortest(get("momentum")) +
      ",dampening=" + printShortest(get("dampening")));
}

llvm::Expected<OptimizerSpec> OptimizerSpec::parse(StringRef text) {
  auto [word, rest] = text.split(':');
  std::optional<OptimizerKind> kind = parseWord<OptimizerKind>(word);
  if (!kind)
    return refuseOptimizer(word);
  OptimizerSpec spec(*kind);
  llvm::SmallVector<StringRef> seen;
  if (rest.empty())
    return spec;
  for (StringRef part : llvm::split(rest, ',')) {
    auto [name, value] = part.split('=');
    if (!findRow(getTable(*kind), name))
      return refuseName(getTable(*kind), *kind, part, name);
    if (llvm::is_contained(seen, name))
      return llvm::createStringError("expected " + name + " once, got '" +
                                     rest + "'");
    seen.push_back(name);
    if (llvm::Error error = spec.set(name, value))
      return error;
  }
  if (llvm::Error error = spec.checkTogether())
    return error;
  return spec;
}

llvm::Expected<llvm::SmallVector<StringRef>>
OptimizerSpec::parseRunTimeScalars(llvm::ArrayRef<std::string> texts) const {
  llvm::SmallVector<HyperParameter> numbers;
  llvm::copy_if(
      getTable(kind), std::back_inserter(numbers),
      [](const HyperParameter &it) { return it.kind == Kind::Number; });
  llvm::SmallVector<StringRef> names;
  for (StringRef text : texts)
    for (StringRef name : llvm::split(text, ',')) {
      const HyperParameter *row = findRow(numbers, name);
      if (!row)
        return refuseName(numbers, kind, name, name);
      if (llvm::is_contained(names, name))
        return llvm::createStringError("expected " + name +
                                       " once, got it twice");
      if (isSet("nesterov") && name == "dampening")
        return llvm::createStringError(
            "expected dampening of 0 beside nesterov, got it at run time");
      // Names outlive the texts.
      names.push_back(findRow(getTable(kind), name)->name);
    }
  return names;
}

llvm::Error OptimizerSpec::checkNumber(StringRef name, double value) const {
  const HyperParameter *row = findRow(getTable(kind), name);
  if (!row)
    return refuseName(getTable(kind), kind, name, name);
  if (row->kind != Kind::Number)
    return llvm::createStringError("expected a number that may be given at run "
                                   "time, got '" +
                                   name + "'");
  OptimizerSpec changed(*this);
  if (llvm::Error error = changed.set(name, printShortest(value)))
    return error;
  return changed.checkTogether();
}
