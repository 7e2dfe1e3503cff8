//===- WrapPolicy.h - Which parameters form a unit --------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A unit is what is gathered and resharded together: a module of the model with
// all parameters below it that no inner unit owns. The policies are PyTorch
// FSDP's (torch.distributed.fsdp.wrap), decided here from names alone: no IR.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_WRAPPOLICY_H
#define FSDP_ANALYSIS_STEP_WRAPPOLICY_H

#include "fsdp/Analysis/Contract/InputContract.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace mlir::fsdp {

/// `module:A,B` | `size:N` | `blocks` | `none` | `pieces`: smaller ones than
/// blocks, for a planner that issues neighbours together (fsdp-plan-step).
/// `auto` is for those who can compare plans; to all others it is `pieces`.
struct WrapPolicy {
  enum class Kind { Module, Size, Blocks, Pieces, None };
  Kind kind = Kind::Blocks;
  /// Kind::Module: names of classes.
  std::vector<std::string> classes;
  /// Kind::Size: least elements of a unit, as in size_based_auto_wrap_policy.
  int64_t minNumel = 0;

  /// Reads a policy; sizes may end in k, M or G (powers of 1000).
  static llvm::Expected<WrapPolicy> parse(llvm::StringRef text);
};

/// A parameter as policies see it.
struct WrapParam {
  /// All names of the storage; the first is the parameter's own.
  std::vector<std::string> names;
  int64_t numel = 0;
};

/// One parameter, by its name and its tied names, which may be null.
WrapParam getWrapParam(StringAttr fqn, ArrayAttr tied, int64_t numel);

/// Of all parameters of a step, in its order.
std::vector<WrapParam> getWrapParams(llvm::ArrayRef<ParamInfo> infos);

/// The name of the owning unit for each parameter: the module's fully qualified
/// name, "" for the root. A parameter with several names belongs to the
/// innermost unit that contains all of them. Fails where the policy names a
/// class that the model does not have; the message lists those it has.
llvm::Expected<std::vector<std::string>>
assignUnits(llvm::ArrayRef<ModuleInfo> modules,
            llvm::ArrayRef<WrapParam> params, const WrapPolicy &policy);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_WRAPPOLICY_H
