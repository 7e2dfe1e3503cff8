//===- InstructionUnits.h - Which units execute an op -----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_CODE_INSTRUCTIONUNITS_H
#define FSDP_LIB_ANALYSIS_CODE_INSTRUCTIONUNITS_H

#include "fsdp/Cost/CostModel.h"

#include "mlir/IR/Operation.h"

namespace mlir::fsdp {

/// Instructions of a thread for @op itself, without its regions. Constants,
/// places in vectors, and conversions between index and i64 are none; what
/// computes a vector computes each of its elements.
int64_t getInstructions(Operation &op);

/// Results that each unit computes for a thread that executes @op, without its
/// regions, in the machine code that ptxas makes of it: a division takes
/// several. What moves 16 bytes takes the units of loads and stores four times
/// as long as what moves 4.
std::array<double, kNumLaneUnits> getUnitWork(Operation &op);

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_CODE_INSTRUCTIONUNITS_H
