//===- ArenaPurpose.h - What the bytes of an arena are for ------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_ARENAPURPOSE_H
#define FSDP_SCHEDULE_ARENAPURPOSE_H

#include "llvm/ADT/StringRef.h"

#include <array>

namespace mlir::fsdp {

/// Parts of a program's arena, one after the other: as #fsdp.arena has them.
constexpr std::array<llvm::StringLiteral, 5> kSegmentNames = {
    "state", "inputs", "communicated", "transient", "workspace"};

/// What bytes are there for; the rows of the memory report.
enum class Purpose {
  Parameters,
  Optimizer,
  Gathered,
  Gradients,
  Activations,
  Other,
  Workspace
};
constexpr std::array<llvm::StringLiteral, 7> kPurposeNames = {
    "parameters",  "optimizer", "gathered", "gradients",
    "activations", "other",     "workspace"};

} // namespace mlir::fsdp

#endif // FSDP_SCHEDULE_ARENAPURPOSE_H
