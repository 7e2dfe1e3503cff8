//===- CheckpointRule.h - Which modules are checkpointed --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is computed inside of a checkpointed module is not kept for backward,
// which computes it again from what the module was given. Rules are those that
// people give to torch.utils.checkpoint and to torchtitan, decided here from
// names alone: no IR.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_CHECKPOINTRULE_H
#define FSDP_ANALYSIS_STEP_CHECKPOINTRULE_H

#include "fsdp/Analysis/Step/WrapPolicy.h"

namespace mlir::fsdp {

/// `module:A,B` | `every=N` | `selective` | `none` | globs of names of modules,
/// apart by commas; nothing: those that the trace recorded.
struct CheckpointRule {
  enum class Kind { Recorded, None, Classes, Names, Every, Selective };
  Kind kind = Kind::Recorded;
  /// Kind::Classes: names of classes. Kind::Names: globs.
  std::vector<std::string> texts;
  /// Kind::Every: of each list of blocks the N-th, the 2N-th and so on.
  int64_t every = 1;

  /// Whether results of products and attentions are kept all the same.
  bool isSelective() const { return kind == Kind::Selective; }

  static llvm::Expected<CheckpointRule> parse(llvm::StringRef text);
};

/// The outermost modules that @rule names, in the order of the model. Fails
/// where it names a class that the model does not have, a glob matches no
/// module, or blocks (as WrapPolicy finds them) are wanted and there are none.
llvm::Expected<std::vector<std::string>>
findCheckpointed(llvm::ArrayRef<ModuleInfo> modules,
                 llvm::ArrayRef<WrapParam> params, const CheckpointRule &rule);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_CHECKPOINTRULE_H
