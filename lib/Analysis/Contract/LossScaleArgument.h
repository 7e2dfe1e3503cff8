//===- LossScaleArgument.h - What scales a traced loss ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_CONTRACT_LOSSSCALEARGUMENT_H
#define FSDP_LIB_ANALYSIS_CONTRACT_LOSSSCALEARGUMENT_H

#include "fsdp/Analysis/Contract/InputContract.h"

#include <string>

namespace mlir::fsdp {

/// @arg, which has fsdp.loss_scale among @attrs, becomes the scale of @step's
/// loss. Returns what was expected and what is there, "X, got Y"; empty: all is
/// right.
std::string takeLossScale(BlockArgument arg, DictionaryAttr attrs,
                          TracedStep &step);

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_CONTRACT_LOSSSCALEARGUMENT_H
