//===- OptimizerSpec.cpp - Built-in optimizers as users write them --------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/OptimizerSpec.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <array>
#include <cassert>
#include <charconv>
#include <cmath>
#include <tuple>

using namespace mlir::fsdp;
using llvm::StringRef;

namespace {
/// A hyper-parameter: its name, where it goes, and the values it may have.
struct Field {
  StringRef name;
  double OptimizerSpec::*member;
  double low, high;
};
} // namespace

static constexpr double kInfinity = HUGE_VAL;
static const Field kAdamWFields[] = {
    {"lr", &OptimizerSpec::lr, 0, kInfinity},
    {"beta1", &OptimizerSpec::beta1, 0, 1},
    {"beta2", &OptimizerSpec::beta2, 0, 1},
    {"eps", &OptimizerSpec::eps, 0, kInfinity},
    {"weight_decay", &OptimizerSpec::weightDecay, 0, kInfinity},
};
static const Field kSGDFields[] = {
    {"lr", &OptimizerSpec::lr, 0, kInfinity},
    {"momentum", &OptimizerSpec::momentum, 0, kInfinity},
    {"weight_decay", &OptimizerSpec::weightDecay, 0, kInfinity},
};

static llvm::ArrayRef<Field> getFields(OptimizerSpec::Kind kind) {
  if (kind == OptimizerSpec::Kind::SGD)
    return kSGDFields;
  return kAdamWFields;
}

/// The shortest decimal that reads back as @value.
static std::string printShortest(double value) {
  std::array<char, 32> text;
  auto [end, error] = std::to_chars(text.begin(), text.end(), value);
  assert(error == std::errc() && "expected 32 characters to hold a double");
  (void)error;
  return std::string(text.begin(), end);
}

std::string OptimizerSpec::printConstants() const {
  std::string text = kind == Kind::SGD ? "sgd" : "adamw";
  char separator = ':';
  for (const Field &field : getFields(kind)) {
    if (field.member == &OptimizerSpec::lr)
      continue;
    text += separator + (field.name + "=").str() +
            printShortest(this->*field.member);
    separator = ',';
  }
  return text;
}

llvm::Expected<OptimizerSpec> OptimizerSpec::parse(StringRef text) {
  OptimizerSpec spec;
  auto [kind, rest] = text.split(':');
  if (kind == "sgd") {
    spec.kind = Kind::SGD;
    spec.weightDecay = 0;
  } else if (kind != "adamw") {
    return llvm::createStringError("expected adamw or sgd as optimizer, got '" +
                                   kind + "'");
  }
  llvm::ArrayRef<Field> fields = getFields(spec.kind);
  if (rest.empty())
    return spec;
  llvm::SmallDenseSet<StringRef> seen;
  for (StringRef part : llvm::split(rest, ',')) {
    StringRef name = part.split('=').first, value = part.split('=').second;
    auto field =
        llvm::find_if(fields, [&](const Field &f) { return f.name == name; });
    if (field == fields.end())
      return llvm::createStringError(
          "expected one of " +
          llvm::join(llvm::map_range(fields, [](auto &f) { return f.name; }),
                     ", ") +
          " for " + kind + ", got '" + part + "'");
    if (!seen.insert(name).second)
      return llvm::createStringError("expected " + name + " once, got '" +
                                     rest + "'");
    double number;
    if (value.getAsDouble(number) || !(number >= field->low) ||
        !(number < field->high))
      return llvm::createStringError(
          "expected " + name + " in [" +
          llvm::Twine(static_cast<int64_t>(field->low)) + ", " +
          (std::isinf(field->high) ? llvm::Twine("inf") : llvm::Twine("1")) +
          "), got '" + value + "'");
    spec.*(field->member) = number;
  }
  return spec;
}
