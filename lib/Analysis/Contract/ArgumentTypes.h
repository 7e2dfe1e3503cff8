//===- ArgumentTypes.h - Types of a traced step's arguments ----*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_CONTRACT_ARGUMENTTYPES_H
#define FSDP_LIB_ANALYSIS_CONTRACT_ARGUMENTTYPES_H

#include "mlir/IR/Types.h"

#include <string>

namespace mlir::fsdp {

/// What is wrong with @type as that of @argument, which is a parameter or not:
/// the rule (input_c5, input_c6), what was expected, what is there; empty:
/// nothing.
std::string findArgumentFault(Type type, const std::string &argument,
                              bool isParameter);

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_CONTRACT_ARGUMENTTYPES_H
