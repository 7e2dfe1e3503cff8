//===- ParameterGroups.cpp - Which parameters share scalars ---------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Contract/ParameterGroups.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fsdp;

using Rule = GroupSpec::Rule;

static llvm::Expected<Rule> parseRule(StringRef text) {
  Rule rule;
  rule.text = text.str();
  StringRef rest = text;
  if (rest.consume_front("dims") && rest.find_first_of("<>") == 0) {
    bool isLess = rest.front() == '<';
    rest = rest.drop_front();
    bool orEqual = rest.consume_front("=");
    rule.kind =
        isLess ? (orEqual ? Rule::Kind::LessEqual : Rule::Kind::Less)
               : (orEqual ? Rule::Kind::GreaterEqual : Rule::Kind::Greater);
    if (rest.getAsInteger(10, rule.dims) || rule.dims < 0)
      return llvm::createStringError(
          "expected dims<N, dims<=N, dims>N or dims>=N, got '" + text + "'");
    return rule;
  }
  auto glob = llvm::GlobPattern::create(text);
  if (!glob)
    return llvm::createStringError("expected a pattern of names, got '" + text +
                                   "': " + llvm::toString(glob.takeError()));
  rule.glob = std::move(*glob);
  return rule;
}

static llvm::Expected<std::pair<std::string, double>>
parseScalar(StringRef text) {
  auto [name, number] = text.split('=');
  double value;
  if (name.empty() || number.getAsDouble(value) || !std::isfinite(value))
    return llvm::createStringError(
        "expected SCALAR=NUMBER, such as weight_decay=0, got '" + text + "'");
  return std::pair(name.str(), value);
}

llvm::Expected<GroupSpec> GroupSpec::parse(StringRef text) {
  auto fail = [&](const Twine &message) {
    return llvm::createStringError("group '" + text + "': " + message);
  };
  StringRef inner = text;
  if (inner.consume_front("{"))
    inner.consume_back("}");
  auto [name, rest] = inner.split('=');
  // A rule has no colon: names of parameters have none.
  auto [rules, scalars] = rest.split(':');
  GroupSpec spec;
  spec.name = name.str();
  if (name.empty() ||
      !llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; }))
    return fail("expected a name of letters, digits and underscores before "
                "'=', got '" +
                name + "'");
  if (rules.empty() || scalars.empty())
    return fail("expected NAME=RULE[,RULE..]:SCALAR=NUMBER[,SCALAR=NUMBER..]");
  for (StringRef part : llvm::split(rules, ',')) {
    llvm::Expected<Rule> rule = parseRule(part);
    if (!rule)
      return fail(llvm::toString(rule.takeError()));
    spec.rules.push_back(std::move(*rule));
  }
  for (StringRef part : llvm::split(scalars, ',')) {
    auto scalar = parseScalar(part);
    if (!scalar)
      return fail(llvm::toString(scalar.takeError()));
    if (llvm::is_contained(llvm::make_first_range(spec.scalars), scalar->first))
      return fail("expected " + scalar->first + " once");
    spec.scalars.push_back(std::move(*scalar));
  }
  return spec;
}

llvm::Expected<std::vector<GroupSpec>>
GroupSpec::parseAll(ArrayRef<std::string> texts) {
  std::vector<GroupSpec> specs;
  for (StringRef text : texts) {
    llvm::Expected<GroupSpec> spec = parse(text);
    if (!spec)
      return spec.takeError();
    for (const GroupSpec &other : specs)
      if (other.name == spec->name)
        return llvm::createStringError(
            "expected groups with names of their own, got '" + spec->name +
            "' twice");
    specs.push_back(std::move(*spec));
  }
  return specs;
}

DictionaryAttr fsdp::getGroupScalars(MLIRContext *context,
                                     ArrayRef<GroupSpec> specs) {
  Builder builder(context);
  NamedAttrList groups;
  for (const GroupSpec &spec : specs) {
    NamedAttrList scalars;
    for (const auto &[name, value] : spec.scalars)
      scalars.set(name, builder.getF64FloatAttr(value));
    groups.set(spec.name, scalars.getDictionary(context));
  }
  return groups.getDictionary(context);
}

static bool holds(const Rule &rule, StringRef name, int64_t dims) {
  switch (rule.kind) {
  case Rule::Kind::Glob:
    return rule.glob->match(name);
  case Rule::Kind::Less:
    return dims < rule.dims;
  case Rule::Kind::LessEqual:
    return dims <= rule.dims;
  case Rule::Kind::Greater:
    return dims > rule.dims;
  case Rule::Kind::GreaterEqual:
    return dims >= rule.dims;
  }
  llvm_unreachable("all kinds are listed");
}

static bool holds(const Rule &rule, const ParamInfo &param) {
  return llvm::any_of(getNames(param.fqn, param.tied), [&](StringRef name) {
    return holds(rule, name, param.getType().getRank());
  });
}

static std::optional<unsigned> findGroup(ArrayRef<GroupSpec> specs,
                                         StringRef name, int64_t dims) {
  for (auto [index, spec] : llvm::enumerate(specs))
    if (llvm::any_of(spec.rules,
                     [&](const Rule &rule) { return holds(rule, name, dims); }))
      return index;
  return std::nullopt;
}

llvm::Expected<SmallVector<std::optional<unsigned>>>
fsdp::assignGroups(ArrayRef<ParamInfo> params, ArrayRef<GroupSpec> specs) {
  SmallVector<std::optional<unsigned>> groups;
  llvm::BitVector trained(specs.size()), frozen(specs.size());
  auto describe = [&](std::optional<unsigned> group) {
    return group ? "group '" + specs[*group].name + "'" : std::string("none");
  };
  for (const ParamInfo &param : params) {
    int64_t dims = param.getType().getRank();
    std::optional<unsigned> group = findGroup(specs, param.fqn, dims);
    for (StringRef name : getNames(param.fqn, param.tied))
      if (auto other = findGroup(specs, name, dims); other != group)
        return llvm::createStringError(
            "expected one group for a tied parameter, got " + describe(group) +
            " by its name '" + param.fqn.getValue() + "' and " +
            describe(other) + " by '" + name + "'");
    groups.push_back(group);
    if (group)
      (param.isTrainable() ? trained : frozen).set(*group);
  }
  for (const GroupSpec &spec : specs)
    for (const Rule &rule : spec.rules)
      if (llvm::none_of(params, [&](const ParamInfo &param) {
            return holds(rule, param);
          }))
        return llvm::createStringError("expected rules of group '" + spec.name +
                                       "' that a parameter matches, got '" +
                                       rule.text + "'");
  for (auto [index, spec] : llvm::enumerate(specs))
    if (!trained.test(index))
      return llvm::createStringError(
          "expected a trained parameter for group '" + spec.name + "', got " +
          (frozen.test(index) ? "only frozen ones"
                              : "none that no group before it takes"));
  return groups;
}
