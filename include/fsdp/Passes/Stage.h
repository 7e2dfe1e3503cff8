//===- Stage.h - A part of compiling, as a pipeline -------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_STAGE_H
#define FSDP_PASSES_STAGE_H

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <string>

namespace mlir::fsdp {

/// A pass that remarks, and of which kinds.
struct RemarkingPass {
  llvm::StringRef name;
  bool passed, missed;
};

/// A part of a pipeline under a name of its own: passes on a module that tools
/// run, time and reproduce together, and after which they verify the module.
struct Stage {
  llvm::StringRef what;
  std::function<void(OpPassManager &)> build;
  /// Its passes that remark.
  llvm::SmallVector<RemarkingPass> remarking = {};
};

/// The text of all passes of @stages, as --pass-pipeline takes it; an error
/// where an option has a value that this text cannot hold.
llvm::Expected<std::string> printPipeline(llvm::ArrayRef<Stage> stages);

} // namespace mlir::fsdp

#endif // FSDP_PASSES_STAGE_H
