//===- StepLowering.h - Calls of one program --------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_LOWER_STEPLOWERING_H
#define FSDP_PASSES_LOWER_STEPLOWERING_H

#include "KernelImplementations.h"
#include "RuntimeDescriptors.h"
#include "fsdp/Analysis/Step/GuardPlan.h"

namespace mlir::fsdp {

/// The name of the LLVM function that runs @program.
std::string getRunName(ProgramOp program);

/// Creates the function that runs @program, whose values have places: a call
/// for each op, in order, up to the first one that fails. @guards: null for a
/// program without.
LogicalResult lowerStep(ProgramOp program, const GuardPlan *guards,
                        DescriptorBuilder &descriptors,
                        KernelImplementations &implementations);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_LOWER_STEPLOWERING_H
