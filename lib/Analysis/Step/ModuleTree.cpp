//===- ModuleTree.cpp - The modules of a model by name --------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModuleTree.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::fsdp;

ModuleTree::ModuleTree(ArrayRef<ModuleInfo> modules,
                       ArrayRef<WrapParam> params) {
  nodes.emplace_back();
  index[""] = 0;
  for (const ModuleInfo &module : modules)
    nodes[getOrCreate(module.fqn)].className = module.className;
  for (const WrapParam &param : params)
    for (const std::string &name : param.names)
      getOrCreate(StringRef(name).rsplit('.').second.empty()
                      ? ""
                      : StringRef(name).rsplit('.').first);
}

int ModuleTree::getOrCreate(StringRef fqn) {
  if (auto it = index.find(fqn); it != index.end())
    return it->second;
  auto [parentName, leaf] = fqn.rsplit('.');
  int parent = leaf.empty() ? 0 : getOrCreate(parentName);
  int node = static_cast<int>(nodes.size());
  nodes.emplace_back();
  nodes[node].fqn = fqn.str();
  nodes[node].parent = parent;
  nodes[parent].children.push_back(node);
  index[fqn] = node;
  return node;
}

int ModuleTree::getOwner(StringRef paramName) const {
  auto [module, leaf] = paramName.rsplit('.');
  return index.lookup(leaf.empty() ? "" : module);
}

int ModuleTree::getCommonAncestor(int a, int b) const {
  llvm::SmallDenseSet<int> ancestors;
  for (int n = a; n >= 0; n = nodes[n].parent)
    ancestors.insert(n);
  while (!ancestors.contains(b))
    b = nodes[b].parent;
  return b;
}

std::vector<int64_t>
ModuleTree::countElements(ArrayRef<WrapParam> params) const {
  std::vector<int64_t> numel(nodes.size(), 0);
  for (const WrapParam &param : params) {
    llvm::SmallDenseSet<int> holders;
    for (const std::string &name : param.names)
      for (int n = getOwner(name); n >= 0; n = nodes[n].parent)
        holders.insert(n);
    for (int n : holders)
      numel[n] += param.numel;
  }
  return numel;
}

/// The last part of a module's name, if it is a number: a list's element.
static bool isListElement(StringRef fqn) {
  StringRef leaf = fqn.contains('.') ? fqn.rsplit('.').second : fqn;
  return !leaf.empty() && llvm::all_of(leaf, llvm::isDigit);
}

void ModuleTree::addBlocksBelow(int node, ArrayRef<int64_t> numel,
                                std::vector<int> &blocks) const {
  llvm::MapVector<StringRef, SmallVector<int>> byClass;
  for (int child : nodes[node].children)
    if (isListElement(nodes[child].fqn) && numel[child] > 0)
      byClass[nodes[child].className].push_back(child);
  llvm::SmallDenseSet<int> found;
  for (auto &[className, children] : byClass)
    if (children.size() > 1)
      found.insert_range(children);
  for (int child : nodes[node].children)
    if (found.contains(child))
      blocks.push_back(child);
    else
      addBlocksBelow(child, numel, blocks);
}

std::vector<int> ModuleTree::findBlocks(ArrayRef<int64_t> numel) const {
  std::vector<int> blocks;
  addBlocksBelow(0, numel, blocks);
  return blocks;
}

llvm::Error ModuleTree::expectClasses(ArrayRef<std::string> classes) const {
  llvm::SetVector<StringRef> known;
  for (const Node &node : nodes)
    if (!node.className.empty())
      known.insert(node.className);
  for (const std::string &name : classes)
    if (!known.contains(name))
      return llvm::createStringError(
          "expected classes of the model after 'module:', got '" + name +
          "'; there are " +
          (known.empty() ? "none: the step lists no modules"
                         : llvm::join(known, ", ")));
  return llvm::Error::success();
}
