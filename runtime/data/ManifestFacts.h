//===- ManifestFacts.h - What the compiler says of its code -----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RT_DATA_MANIFESTFACTS_H
#define FSDP_RT_DATA_MANIFESTFACTS_H

#include "data/Json.h"
#include "data/Manifest.h"

#include <cstdint>

namespace fsdp::rt::data {

/// Sizes beyond this are mistakes; sums of two of them do not overflow.
constexpr int64_t maxBytes = int64_t(1) << 60;

TracedProgram readTraced(const JsonReader &json);
Certificate readCertificate(const JsonReader &json);
/// The plan is for people and tools; the runtime only sees that it is there.
void readPlan(const JsonReader &json);
Bound readBound(const JsonReader &json);

} // namespace fsdp::rt::data

#endif // FSDP_RT_DATA_MANIFESTFACTS_H
