//===- ModuleTree.h - The modules of a model by name ------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_ANALYSIS_STEP_MODULETREE_H
#define FSDP_LIB_ANALYSIS_STEP_MODULETREE_H

#include "fsdp/Analysis/Step/WrapPolicy.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::fsdp {

/// The model's modules. Node 0 is the root. Modules that the step does not list
/// but whose names are prefixes of parameters' exist too, without a class.
class ModuleTree {
public:
  struct Node {
    std::string fqn;
    StringRef className;
    int parent = -1;
    std::vector<int> children;
    bool wrapped = false;
  };

  ModuleTree(ArrayRef<ModuleInfo> modules, ArrayRef<WrapParam> params);

  /// The module that holds a parameter of that name.
  int getOwner(StringRef paramName) const;
  /// The innermost module that contains both.
  int getCommonAncestor(int a, int b) const;
  /// By node: elements of the distinct parameters in and below it.
  std::vector<int64_t> countElements(ArrayRef<WrapParam> params) const;
  /// Elements of lists that have parameters and a sibling of the same class,
  /// outermost first. @numel: of countElements.
  std::vector<int> findBlocks(ArrayRef<int64_t> numel) const;
  /// Fails where one of @classes, named after 'module:', is none of the
  /// model's; the message lists those it has.
  llvm::Error expectClasses(ArrayRef<std::string> classes) const;

  std::vector<Node> nodes;

private:
  int getOrCreate(StringRef fqn);
  void addBlocksBelow(int node, ArrayRef<int64_t> numel,
                      std::vector<int> &blocks) const;

  llvm::StringMap<int> index;
};

} // namespace mlir::fsdp

#endif // FSDP_LIB_ANALYSIS_STEP_MODULETREE_H
