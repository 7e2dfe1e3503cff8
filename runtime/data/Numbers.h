//===- Numbers.h - Numbers as users type and read them -----------*- C++
//-*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_NUMBERS_H
#define FSDP_RT_DATA_NUMBERS_H

#include "core/Status.h"

#include <cstdint>
#include <string>

namespace fsdp::rt::data {

/// All of `text` as a decimal integer in [min, max].
Result<int64_t> parseInteger(const std::string &text, int64_t min, int64_t max);

/// All of `text` as a number; "inf" counts, "nan" does not.
Result<double> parseNumber(const std::string &text);

/// "seed=K" with 0 <= K < 2^64.
Result<uint64_t> parseSeed(const std::string &text);

/// The fewest digits that read back as the same number: "0.001".
std::string formatNumber(double value);

/// "12,345".
std::string groupDigits(int64_t value);

/// "1.23MiB".
std::string formatBytes(int64_t bytes);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_NUMBERS_H
