//===- CheckpointRule.cpp - Which modules are checkpointed ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/CheckpointRule.h"
#include "ModuleTree.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace mlir::fsdp;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

static constexpr char kForms[] =
    "module:CLASS[,CLASS..], globs of names of modules such as '*.h.*', "
    "every=N, selective or none";

static std::vector<std::string> splitTexts(StringRef list) {
  std::vector<std::string> texts;
  for (StringRef text : llvm::split(list, ','))
    if (!text.empty())
      texts.push_back(text.str());
  return texts;
}

Expected<CheckpointRule> CheckpointRule::parse(StringRef text) {
  CheckpointRule rule;
  StringRef rest = text;
  if (rest.empty())
    return rule;
  if (rest == "none" || rest == "selective") {
    rule.kind = rest == "none" ? Kind::None : Kind::Selective;
    return rule;
  }
  if (rest.consume_front("every=")) {
    rule.kind = Kind::Every;
    if (rest.getAsInteger(10, rule.every) || rule.every < 1)
      return llvm::createStringError(
          "expected a positive number after 'every=', got '" + rest + "'");
    return rule;
  }
  rule.kind = rest.consume_front("module:") ? Kind::Classes : Kind::Names;
  rule.texts = splitTexts(rest);
  if (rule.texts.empty())
    return llvm::createStringError(Twine("expected ") + kForms +
                                   " as what is checkpointed, got '" + text +
                                   "'");
  return rule;
}

//===----------------------------------------------------------------------===//
// findCheckpointed
//===----------------------------------------------------------------------===//

using Nodes = std::vector<int>;

static Expected<Nodes> findByName(const ModuleTree &tree,
                                  ArrayRef<std::string> globs) {
  Nodes found;
  for (const std::string &text : globs) {
    auto glob = llvm::GlobPattern::create(text);
    if (!glob)
      return llvm::createStringError(
          "expected globs of names of modules, got '" + text +
          "': " + llvm::toString(glob.takeError()));
    size_t before = found.size();
    for (auto [i, node] : llvm::enumerate(tree.nodes))
      if (glob->match(node.fqn))
        found.push_back(i);
    if (found.size() == before)
      return llvm::createStringError(
          Twine("expected ") + kForms + " as what is checkpointed, got '" +
          text + "', which matches no module of the model" +
          (tree.nodes.size() > 1 ? ", such as " + tree.nodes.back().fqn : ""));
  }
  return found;
}

/// The @every-th, 2 @every-th .. of each list.
static Expected<Nodes> findBlocks(const ModuleTree &tree,
                                  ArrayRef<WrapParam> params, int64_t every) {
  Nodes found;
  llvm::DenseMap<int, int64_t> number;
  Nodes blocks = tree.findBlocks(tree.countElements(params));
  for (int block : blocks)
    if (++number[tree.nodes[block].parent] % every == 0)
      found.push_back(block);
  if (blocks.empty())
    return llvm::createStringError(
        "expected blocks to checkpoint, modules of one class in a list, got "
        "none; module:CLASS names others");
  if (found.empty())
    return llvm::createStringError("expected at least " + Twine(every) +
                                   " blocks in a list to checkpoint every " +
                                   Twine(every) + ", got " +
                                   Twine(blocks.size()));
  return found;
}

static Nodes findByClass(const ModuleTree &tree,
                         ArrayRef<std::string> classes) {
  Nodes found;
  for (auto [i, node] : llvm::enumerate(tree.nodes))
    if (llvm::is_contained(classes, node.className))
      found.push_back(i);
  return found;
}

static Expected<Nodes> find(const ModuleTree &tree,
                            ArrayRef<ModuleInfo> modules,
                            ArrayRef<WrapParam> params,
                            const CheckpointRule &rule) {
  switch (rule.kind) {
  case CheckpointRule::Kind::None:
    return Nodes();
  case CheckpointRule::Kind::Recorded: {
    llvm::StringSet<> recorded;
    for (const ModuleInfo &module : modules)
      if (module.isCheckpointed)
        recorded.insert(module.fqn);
    Nodes found;
    for (auto [i, node] : llvm::enumerate(tree.nodes))
      if (recorded.contains(node.fqn))
        found.push_back(i);
    return found;
  }
  case CheckpointRule::Kind::Classes:
    if (llvm::Error error = tree.expectClasses(rule.texts))
      return error;
    return findByClass(tree, rule.texts);
  case CheckpointRule::Kind::Names:
    return findByName(tree, rule.texts);
  case CheckpointRule::Kind::Every:
  case CheckpointRule::Kind::Selective:
    return findBlocks(tree, params, rule.every);
  }
  llvm_unreachable("unknown kind");
}

Expected<std::vector<std::string>>
fsdp::findCheckpointed(ArrayRef<ModuleInfo> modules, ArrayRef<WrapParam> params,
                       const CheckpointRule &rule) {
  ModuleTree tree(modules, params);
  Expected<Nodes> found = find(tree, modules, params, rule);
  if (!found)
    return found.takeError();
  auto isFound = [&](int node) { return llvm::is_contained(*found, node); };
  std::vector<std::string> names;
  for (auto [i, node] : llvm::enumerate(tree.nodes)) {
    int outer = node.parent;
    while (outer >= 0 && !isFound(outer))
      outer = tree.nodes[outer].parent;
    if (isFound(i) && outer < 0)
      names.push_back(node.fqn);
  }
  return names;
}
