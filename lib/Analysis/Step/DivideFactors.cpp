//===- DivideFactors.cpp - What gradients are divided by ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/DivideFactors.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <cmath>

using namespace mlir::fsdp;
using llvm::Expected;
using llvm::StringRef;

static Expected<double> parseFactor(StringRef text) {
  double factor;
  if (text.getAsDouble(factor) || !std::isnormal(float(factor)) || factor < 0)
    return llvm::createStringError(
        "gradient-divide-factor: expected a positive number in f32's range, "
        "got '" +
        text + "'");
  return factor;
}

Expected<DivideFactors> DivideFactors::parse(StringRef text) {
  DivideFactors factors;
  if (text.empty())
    return factors;
  bool hasBefore = false;
  for (StringRef part : llvm::split(text, ',')) {
    StringRef number = part;
    bool isBefore = number.consume_front("pre=");
    bool isNamed = isBefore || number.consume_front("post=");
    if (!isNamed && part.size() != text.size())
      return llvm::createStringError(
          "gradient-divide-factor: expected a number, or pre=P,post=Q, got '" +
          text + "'");
    if (isBefore ? hasBefore : factors.after.has_value())
      return llvm::createStringError("gradient-divide-factor: expected " +
                                     part.split('=').first + " once, got '" +
                                     text + "'");
    Expected<double> factor = parseFactor(number);
    if (!factor)
      return factor.takeError();
    if (isBefore)
      factors.before = *factor;
    else
      factors.after = *factor;
    hasBefore |= isBefore;
  }
  return factors;
}
