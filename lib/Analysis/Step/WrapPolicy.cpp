//===- WrapPolicy.cpp - Which parameters form a unit ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/WrapPolicy.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::fsdp;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

Expected<WrapPolicy> WrapPolicy::parse(StringRef text) {
  WrapPolicy policy;
  StringRef rest = text;
  std::optional<Kind> kind = llvm::StringSwitch<std::optional<Kind>>(rest)
                                 .Case("blocks", Kind::Blocks)
                                 .Cases({"pieces", "auto"}, Kind::Pieces)
                                 .Case("none", Kind::None)
                                 .Default(std::nullopt);
  if (kind) {
    policy.kind = *kind;
    return policy;
  }
  if (rest.consume_front("module:")) {
    policy.kind = Kind::Module;
    for (StringRef name : llvm::split(rest, ','))
      if (!name.empty())
        policy.classes.push_back(name.str());
    if (policy.classes.empty())
      return llvm::createStringError(
          "expected a class after 'module:', got nothing");
    return policy;
  }
  if (rest.consume_front("size:")) {
    policy.kind = Kind::Size;
    int64_t scale = 1;
    if (rest.consume_back("k"))
      scale = 1000;
    else if (rest.consume_back("M"))
      scale = 1000 * 1000;
    else if (rest.consume_back("G"))
      scale = 1000 * 1000 * 1000;
    int64_t count;
    if (rest.getAsInteger(10, count) || count < 1 ||
        count > std::numeric_limits<int64_t>::max() / scale)
      return llvm::createStringError(
          "expected a positive number of elements after 'size:', "
          "got '" +
          text.substr(5) + "'");
    policy.minNumel = count * scale;
    return policy;
  }
  return llvm::createStringError(
      "expected module:CLASS[,CLASS..], size:N, blocks, pieces, none or "
      "auto as wrap policy, got '" +
      text + "'");
}

//===----------------------------------------------------------------------===//
// Module tree
//===----------------------------------------------------------------------===//

namespace {
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

  ModuleTree(ArrayRef<ModuleInfo> modules, ArrayRef<WrapParam> params) {
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

  /// The module that holds a parameter of that name.
  int getOwner(StringRef paramName) const {
    auto [module, leaf] = paramName.rsplit('.');
    return index.lookup(leaf.empty() ? "" : module);
  }

  int getOrCreate(StringRef fqn) {
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

  /// The innermost module that contains both.
  int getCommonAncestor(int a, int b) const {
    llvm::SmallDenseSet<int> ancestors;
    for (int n = a; n >= 0; n = nodes[n].parent)
      ancestors.insert(n);
    while (!ancestors.contains(b))
      b = nodes[b].parent;
    return b;
  }

  std::vector<Node> nodes;

private:
  llvm::StringMap<int> index;
};

/// The last part of a module's name, if it is a number: a list's element.
bool isListElement(StringRef fqn) {
  StringRef leaf = fqn.contains('.') ? fqn.rsplit('.').second : fqn;
  return !leaf.empty() && llvm::all_of(leaf, llvm::isDigit);
}
} // namespace

//===----------------------------------------------------------------------===//
// Policies: each marks nodes as wrapped
//===----------------------------------------------------------------------===//

static llvm::Error wrapByClass(ModuleTree &tree,
                               ArrayRef<std::string> classes) {
  llvm::SetVector<StringRef> known;
  for (const ModuleTree::Node &node : tree.nodes)
    if (!node.className.empty())
      known.insert(node.className);
  for (const std::string &name : classes)
    if (!known.contains(name))
      return llvm::createStringError(
          "expected classes of the model after 'module:', got '" + name +
          "'; there are " +
          (known.empty() ? "none: the step lists no modules"
                         : llvm::join(known, ", ")));
  for (ModuleTree::Node &node : tree.nodes)
    node.wrapped = llvm::is_contained(classes, node.className);
  return llvm::Error::success();
}

/// As torch.distributed.fsdp.wrap._recursive_wrap with
/// size_based_auto_wrap_policy: children first; a module whose own rest is
/// large enough becomes a unit. Returns the elements that units below own.
static int64_t wrapBySize(ModuleTree &tree, int node, int64_t minNumel,
                          ArrayRef<int64_t> numel) {
  static constexpr StringLiteral kLeaves[] = {"MultiheadAttention"};
  static constexpr StringLiteral kContainers[] = {"ModuleList", "ModuleDict"};
  StringRef className = tree.nodes[node].className;
  if (numel[node] < minNumel || llvm::is_contained(kLeaves, className))
    return 0;
  int64_t wrapped = 0;
  for (int child : tree.nodes[node].children)
    wrapped += wrapBySize(tree, child, minNumel, numel);
  if (node == 0 || numel[node] - wrapped < minNumel ||
      llvm::is_contained(kContainers, className))
    return wrapped;
  tree.nodes[node].wrapped = true;
  return numel[node];
}

/// Elements of lists that have a sibling of the same class, outermost first.
static void wrapBlocks(ModuleTree &tree, int node, ArrayRef<int64_t> numel) {
  llvm::MapVector<StringRef, SmallVector<int>> byClass;
  for (int child : tree.nodes[node].children)
    if (isListElement(tree.nodes[child].fqn) && numel[child] > 0)
      byClass[tree.nodes[child].className].push_back(child);
  for (auto &[className, children] : byClass)
    if (children.size() > 1)
      for (int child : children)
        tree.nodes[child].wrapped = true;
  for (int child : tree.nodes[node].children)
    if (!tree.nodes[child].wrapped)
      wrapBlocks(tree, child, numel);
}

/// Wraps the innermost modules below @node with at least @least elements.
static void wrapLarge(ModuleTree &tree, int node, int64_t least,
                      ArrayRef<int64_t> numel) {
  bool isInnermost = true;
  for (int child : tree.nodes[node].children)
    if (numel[child] >= least && !tree.nodes[child].wrapped) {
      isInnermost = false;
      wrapLarge(tree, child, least, numel);
    }
  // What holds blocks keeps only what is beside them.
  for (int child : tree.nodes[node].children)
    isInnermost &= !tree.nodes[child].wrapped;
  if (isInnermost && node != 0)
    tree.nodes[node].wrapped = true;
}

/// Blocks, cut further: a part with a quarter of its block is a unit, the first
/// such part stays with the rest unless that is an eighth itself; beside the
/// blocks, what is as large as half of one. So the first gather and the last
/// reduction, which nothing can hide, are small. Without blocks, sixteenths.
static void wrapPieces(ModuleTree &tree, ArrayRef<int64_t> numel) {
  wrapBlocks(tree, 0, numel);
  SmallVector<int> blocks;
  for (int node = 0, e = tree.nodes.size(); node != e; ++node)
    if (tree.nodes[node].wrapped)
      blocks.push_back(node);
  if (blocks.empty()) {
    wrapLarge(tree, 0, std::max<int64_t>(numel[0] / 16, 1), numel);
    return;
  }
  SmallVector<int64_t> sizes;
  for (int block : blocks) {
    SmallVector<int> parts;
    int64_t rest = numel[block];
    for (int child : tree.nodes[block].children)
      if (!tree.nodes[child].wrapped && numel[child] * 4 >= numel[block]) {
        parts.push_back(child);
        rest -= numel[child];
      }
    for (int part : llvm::drop_begin(parts, rest * 8 < numel[block] ? 1 : 0))
      if (parts.size() > 1 || rest * 8 >= numel[block])
        tree.nodes[part].wrapped = true;
    sizes.push_back(numel[block]);
  }
  llvm::sort(sizes);
  int64_t least = std::max<int64_t>(sizes[sizes.size() / 2] / 2, 1);
  for (int child : tree.nodes[0].children)
    if (numel[child] >= least && !tree.nodes[child].wrapped)
      wrapLarge(tree, child, least, numel);
}

//===----------------------------------------------------------------------===//
// assignUnits
//===----------------------------------------------------------------------===//

std::vector<WrapParam> fsdp::getWrapParams(ArrayRef<ParamInfo> infos) {
  std::vector<WrapParam> params;
  for (const ParamInfo &info : infos) {
    WrapParam &param = params.emplace_back();
    param.numel = info.getType().getNumElements();
    param.names.push_back(info.fqn.str());
    if (info.tied)
      for (auto name : info.tied.getAsValueRange<StringAttr>())
        param.names.push_back(name.str());
  }
  return params;
}

/// Elements of the distinct parameters in and below each module.
static std::vector<int64_t> countElements(const ModuleTree &tree,
                                          ArrayRef<WrapParam> params) {
  std::vector<int64_t> numel(tree.nodes.size(), 0);
  for (const WrapParam &param : params) {
    llvm::SmallDenseSet<int> holders;
    for (const std::string &name : param.names)
      for (int n = tree.getOwner(name); n >= 0; n = tree.nodes[n].parent)
        holders.insert(n);
    for (int n : holders)
      numel[n] += param.numel;
  }
  return numel;
}

Expected<std::vector<std::string>>
fsdp::assignUnits(ArrayRef<ModuleInfo> modules, ArrayRef<WrapParam> params,
                  const WrapPolicy &policy) {
  ModuleTree tree(modules, params);
  std::vector<int64_t> numel = countElements(tree, params);
  switch (policy.kind) {
  case WrapPolicy::Kind::Module:
    if (llvm::Error error = wrapByClass(tree, policy.classes))
      return error;
    break;
  case WrapPolicy::Kind::Size:
    wrapBySize(tree, 0, policy.minNumel, numel);
    break;
  case WrapPolicy::Kind::Blocks:
    wrapBlocks(tree, 0, numel);
    break;
  case WrapPolicy::Kind::Pieces:
    wrapPieces(tree, numel);
    break;
  case WrapPolicy::Kind::None:
    break;
  }

  std::vector<std::string> units;
  for (const WrapParam &param : params) {
    int node = tree.getOwner(param.names.front());
    for (const std::string &name : llvm::drop_begin(param.names))
      node = tree.getCommonAncestor(node, tree.getOwner(name));
    while (node != 0 && !tree.nodes[node].wrapped)
      node = tree.nodes[node].parent;
    units.push_back(tree.nodes[node].fqn);
  }
  return units;
}
