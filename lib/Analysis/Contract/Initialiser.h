//===- Initialiser.h - Stored types, initial values -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_CONTRACT_INITIALISER_H
#define FSDP_LIB_ANALYSIS_CONTRACT_INITIALISER_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <optional>
#include <string>

namespace mlir::fsdp {

/// Types that the runtime stores and that files hold.
bool isStoredFloat(Type type);
bool isStoredInteger(Type type);

/// The float or i64 at @key; none where it is missing or something else.
std::optional<double> getInitNumber(DictionaryAttr dict, StringRef key);

/// Whether every element of type @integer can be @value; with @isUnsigned its
/// bits are read without a sign.
bool fitsInteger(double value, Type integer, bool isUnsigned);

/// The entries that @init may have, by its kind; empty where it has none that
/// is known.
ArrayRef<StringRef> getInitEntries(Attribute init);

/// What was expected of @init, the initialiser of a tensor of @type, and is not
/// so; empty where all is.
std::string findInitFault(Attribute init, RankedTensorType type,
                          bool isUnsigned);

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_CONTRACT_INITIALISER_H
