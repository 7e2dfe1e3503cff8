//===- ProductTypes.h - Types products are computed in ----------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_PRODUCTTYPES_H
#define FSDP_ANALYSIS_STEP_PRODUCTTYPES_H

#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::fsdp {

/// Names in `loc`: paths of modules that an op is of, by the trace.
SmallVector<StringRef> getModulePaths(Location loc);

/// In which type each product of a program is computed.
class ProductTypes {
public:
  /// `usual`: of products of no unit with a type of its own.
  ProductTypes(ProgramOp program, FloatType usual);

  FloatType get(Location loc) const;
  /// The types that products have, the narrowest first.
  llvm::ArrayRef<FloatType> getAll() const { return all; }
  /// Fails where locations name nothing inside of a unit that the program reads
  /// and that has a type of its own.
  LogicalResult verifyLocations(ProgramOp program) const;

private:
  struct Unit {
    FlatParamOp flat;
    FloatType type;
    /// The type is its own, and the program reads it.
    bool isOwn;
  };
  /// The innermost unit that `path` is of or below; the root's where no other
  /// is. Null where the root has no flat parameter.
  const Unit *find(StringRef path) const;

  FloatType usual;
  SmallVector<FloatType> all;
  /// By its name, "" for the root.
  llvm::StringMap<Unit> units;
};

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_PRODUCTTYPES_H
