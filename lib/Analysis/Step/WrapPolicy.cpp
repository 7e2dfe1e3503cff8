//===- WrapPolicy.cpp - Which parameters form a unit ----------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/WrapPolicy.h"
#include "ModuleTree.h"

#include "llvm/ADT/StringExtras.h"
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
// Policies: each marks nodes as wrapped
//===----------------------------------------------------------------------===//

static llvm::Error wrapByClass(ModuleTree &tree,
                               ArrayRef<std::string> classes) {
  if (llvm::Error error = tree.expectClasses(classes))
    return error;
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

/// Repeated modules, outermost first.
static void wrapBlocks(ModuleTree &tree, ArrayRef<int64_t> numel) {
  for (int block : tree.findBlocks(numel))
    tree.nodes[block].wrapped = true;
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
  wrapBlocks(tree, numel);
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

WrapParam fsdp::getWrapParam(StringAttr fqn, ArrayAttr tied, int64_t numel) {
  WrapParam param;
  param.numel = numel;
  for (StringRef name : getNames(fqn, tied))
    param.names.push_back(name.str());
  return param;
}

std::vector<WrapParam> fsdp::getWrapParams(ArrayRef<ParamInfo> infos) {
  std::vector<WrapParam> params;
  for (const ParamInfo &info : infos)
    params.push_back(
        getWrapParam(info.fqn, info.tied, info.getType().getNumElements()));
  return params;
}

Expected<std::vector<std::string>>
fsdp::assignUnits(ArrayRef<ModuleInfo> modules, ArrayRef<WrapParam> params,
                  const WrapPolicy &policy) {
  ModuleTree tree(modules, params);
  std::vector<int64_t> numel = tree.countElements(params);
  switch (policy.kind) {
  case WrapPolicy::Kind::Module:
    if (llvm::Error error = wrapByClass(tree, policy.classes))
      return error;
    break;
  case WrapPolicy::Kind::Size:
    wrapBySize(tree, 0, policy.minNumel, numel);
    break;
  case WrapPolicy::Kind::Blocks:
    wrapBlocks(tree, numel);
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
