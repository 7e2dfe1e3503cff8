//===- Stage.h - A part of compiling, as a pipeline -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DRIVER_STAGE_H
#define FSDP_DRIVER_STAGE_H

#include "fsdp/Driver/RemarkLog.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <functional>
#include <string>

namespace mlir::fsdp {

/// Passes on a module that run one after the other, and after which it is
/// verified.
struct Stage {
  llvm::StringRef what;
  std::function<void(OpPassManager &)> build;
  /// Its passes that remark.
  llvm::SmallVector<RemarkingPass> remarking = {};
  /// What is said once it has run; or null.
  std::function<void(ModuleOp)> report = nullptr;
};

/// The text of all passes of @stages, as --pass-pipeline takes it; an error
/// where an option has a value that this text cannot hold.
llvm::Expected<std::string> printPipeline(llvm::ArrayRef<Stage> stages);

} // namespace mlir::fsdp

#endif // FSDP_DRIVER_STAGE_H
