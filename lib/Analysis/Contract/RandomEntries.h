//===- RandomEntries.h - What fsdp.random says of an argument ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_CONTRACT_RANDOMENTRIES_H
#define FSDP_LIB_ANALYSIS_CONTRACT_RANDOMENTRIES_H

#include "fsdp/Analysis/Contract/InputContract.h"

#include <string>

namespace mlir::fsdp {

/// Reads kind, site and whether it is shared into @info, whose argument is set;
/// @others are the function's that were read before. Returns what was expected
/// and what is there, "X, got Y"; empty: all is right.
std::string readRandomEntries(DictionaryAttr random,
                              ArrayRef<RandomInfo> others, RandomInfo &info);

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_CONTRACT_RANDOMENTRIES_H
