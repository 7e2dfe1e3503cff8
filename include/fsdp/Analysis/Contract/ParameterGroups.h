//===- ParameterGroups.h - Which parameters share scalars -------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Groups of parameters whose updates read scalars of their own, as those of
// torch.optim's param_groups, and the rules by which --group makes them:
//
//   NAME=RULE[,RULE..]:SCALAR=NUMBER[,SCALAR=NUMBER..]
//
// A rule is a glob of parameters' names, or dims<N, dims<=N, dims>N, dims>=N on
// their number of dimensions. A parameter is in the first group of which a rule
// holds, and in none where none does.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_CONTRACT_PARAMETERGROUPS_H
#define FSDP_ANALYSIS_CONTRACT_PARAMETERGROUPS_H

#include "fsdp/Analysis/Contract/InputContract.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/GlobPattern.h"

#include <string>
#include <vector>

namespace mlir::fsdp {

/// One --group, read.
struct GroupSpec {
  /// Decides on a parameter by a name of it and its number of dimensions.
  struct Rule {
    enum class Kind { Glob, Less, LessEqual, Greater, GreaterEqual };
    Kind kind = Kind::Glob;
    /// As it was given.
    std::string text;
    /// Of Kind::Glob.
    std::optional<llvm::GlobPattern> glob;
    /// Of the others.
    int64_t dims = 0;
  };

  /// Letters, digits and underscores.
  std::string name;
  /// At least one.
  std::vector<Rule> rules;
  /// By name; finite. At least one, each name once.
  std::vector<std::pair<std::string, double>> scalars;

  /// Fails where @text is not of the form above; braces around it are left out,
  /// as pipelines write a text with commas.
  static llvm::Expected<GroupSpec> parse(StringRef text);
  /// All of @texts; fails where two have one name.
  static llvm::Expected<std::vector<GroupSpec>>
  parseAll(ArrayRef<std::string> texts);
};

/// The groups' scalars as fsdp.optimizer_groups holds them.
DictionaryAttr getGroupScalars(MLIRContext *context, ArrayRef<GroupSpec> specs);

/// The index in @specs of each parameter's group; nullopt where no rule holds.
/// Fails where the names of one tied parameter are of different groups, where a
/// group gets no parameter that is trained, and where a rule holds for none.
llvm::Expected<SmallVector<std::optional<unsigned>>>
assignGroups(ArrayRef<ParamInfo> params, ArrayRef<GroupSpec> specs);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_CONTRACT_PARAMETERGROUPS_H
