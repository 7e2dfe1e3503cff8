//===- ManifestValues.h - Attributes as JSON --------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_LOWER_MANIFESTVALUES_H
#define FSDP_PASSES_LOWER_MANIFESTVALUES_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/JSON.h"

#include <map>

namespace mlir::fsdp {

llvm::json::Object toJson(const std::map<StringRef, int64_t> &values);
llvm::json::Array toJson(ArrayRef<int64_t> values);
/// Strings; none where @names is null.
llvm::json::Array toJson(ArrayAttr names);
/// A float as JSON; what JSON cannot write is a word.
llvm::json::Value toJson(double value);

/// How files and checkpoints name the elements of a buffer or input, whose
/// bytes carry no sign if it @isUnsigned.
StringRef getStoredDtype(RankedTensorType type, bool isUnsigned);

/// An initialiser of the input contract; null where only a file can tell. Its
/// integers are read without a sign if @isUnsigned.
llvm::json::Value getInit(Attribute attr, bool isUnsigned = false);

/// What reduction hooks keep, each rank's own.
llvm::json::Array getResiduals(ModuleOp module);
/// States of flat parameters of that kind, which no checkpoint has.
llvm::json::Array getDerivedStates(ModuleOp module, StateKind kind);

/// Whether code for CUDA devices has approximate instructions.
bool hasApproximations(ModuleOp module);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_LOWER_MANIFESTVALUES_H
