//===- StepModules.h - Which module an op works for -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_STEP_STEPMODULES_H
#define FSDP_LIB_ANALYSIS_STEP_STEPMODULES_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::fsdp {

/// By launch of @step: the module of the traced model that it works for, by
/// name. Where its location names none, that of the parameter that it reads
/// gathered, or whose gradient it makes. By all_reduce: "loss", "loss count" or
/// "gradient norm", if that is what it adds up. Ops of which nothing is known
/// are not there. @getUnit: the flat parameter that a gather, a reduction or a
/// pack is for, or null.
llvm::DenseMap<Operation *, std::string>
getModules(ProgramOp step,
           llvm::function_ref<FlatParamOp(Operation *)> getUnit);

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_STEP_STEPMODULES_H
