//===- LossScale.cpp - What a loss is multiplied by -----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/LossScale.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"

#include <cmath>
#include <limits>

using namespace mlir::fsdp;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

static Error refuse(const Twine &expected, StringRef got) {
  return llvm::createStringError("loss-scale: expected " + expected +
                                 ", got '" + got + "'");
}

/// A positive number that f32 holds without a loss of range.
static bool isScale(double value) {
  return std::isnormal(float(value)) && value > 0;
}

/// Reads one `key=value` into @scale.
static Error readEntry(StringRef entry, LossScale &scale) {
  auto [key, text] = entry.split('=');
  if (key == "interval") {
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    if (text.getAsInteger(10, scale.interval) || scale.interval < 1 ||
        scale.interval > most)
      return refuse("interval=N, steps from 1 to " + Twine(most), entry);
    return Error::success();
  }
  double value = 0;
  bool isNumber = !text.getAsDouble(value);
  if (key == "init") {
    scale.init = value;
    return isNumber && isScale(value)
               ? Error::success()
               : refuse("init=S, a positive number in f32's range", entry);
  }
  if (key == "growth") {
    scale.growth = value;
    return isNumber && isScale(value) && value > 1
               ? Error::success()
               : refuse("growth=G above 1", entry);
  }
  if (key == "backoff") {
    scale.backoff = value;
    return isNumber && isScale(value) && value < 1
               ? Error::success()
               : refuse("backoff=B between 0 and 1", entry);
  }
  if (key == "min") {
    scale.least = value;
    return isNumber && (value == 0 || isScale(value))
               ? Error::success()
               : refuse("min=M, 0 or a positive number in f32's range", entry);
  }
  return refuse("entries among init, growth, backoff, interval, min", entry);
}

Expected<LossScale> LossScale::parse(StringRef text) {
  LossScale scale;
  auto [word, entries] = text.split(':');
  if (word != "dynamic") {
    if (text.getAsDouble(scale.init) || !isScale(scale.init))
      return refuse("dynamic[:key=value,..], or a positive number in f32's "
                    "range",
                    text);
    return scale;
  }
  scale.isDynamic = true;
  llvm::StringSet<> seen;
  if (text.size() > word.size())
    for (StringRef entry : llvm::split(entries, ',')) {
      if (!seen.insert(entry.split('=').first).second)
        return refuse(entry.split('=').first + " once", text);
      if (Error error = readEntry(entry, scale))
        return error;
    }
  // Of the type of the scale: f32.
  if (float(scale.init * scale.growth) <= float(scale.init))
    return refuse("growth that makes init more", text);
  if (float(scale.init * scale.backoff) >= float(scale.init))
    return refuse("backoff that makes init less", text);
  if (scale.least > scale.init)
    return refuse("min that is at most init", text);
  return scale;
}
