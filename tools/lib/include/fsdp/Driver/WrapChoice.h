//===- WrapChoice.h - Which units are fastest -------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// --wrap auto: a planner groups units, but cannot cut them or make one flat
// parameter of two. So the step is planned with several wraps, and the fastest
// that fits is taken.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DRIVER_WRAPCHOICE_H
#define FSDP_DRIVER_WRAPCHOICE_H

#include "fsdp/Cost/CostModel.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace mlir::fsdp {

/// The value of --wrap that leaves it to whoever plans.
inline constexpr llvm::StringLiteral kChosenWrap = "auto";

/// The wraps to choose from for the step @traced: none makes the units of one
/// before it, or of @other.
std::vector<std::string> getWraps(ModuleOp traced, llvm::StringRef other = "");

/// What came of planning a step.
struct WrapTrial {
  std::string wrap;
  bool fits = false;
  /// The plan's, where it fits.
  Time step = 0;
  /// A memory budget that would do, in bytes.
  int64_t leastBudget = 0;
};

/// The index of the fastest that fits, or where none does, of the one that
/// needs least; of equal ones the first.
size_t pickWrap(llvm::ArrayRef<WrapTrial> trials);

/// "wrap none: 0.360 ms" or "wrap none: does not fit, 81.20 GiB would".
std::string describe(const WrapTrial &trial);

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_WRAPCHOICE_H
