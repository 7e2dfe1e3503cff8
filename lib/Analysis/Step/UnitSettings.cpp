//===- UnitSettings.cpp - Units with settings of their own ----------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Step/UnitSettings.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/GlobPattern.h"

#include <tuple>

using namespace mlir;
using namespace mlir::fsdp;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static constexpr llvm::StringLiteral kStrategyKey = "strategy",
                                     kParamKey = "param-dtype",
                                     kReduceKey = "reduce-dtype",
                                     kReshardKey = "reshard-after-forward",
                                     kReshardLastKey = "reshard-after-backward",
                                     kOffloadKey = "offload";

static llvm::Error failFor(const Twine &pattern, const Twine &message) {
  return llvm::createStringError("unit '" + pattern + "': " + message);
}

static bool keepsGathered(Strategy strategy) {
  return strategy == Strategy::ShardGradOp ||
         strategy == Strategy::HybridShardZero2;
}

/// Reads one KEY=VALUE into `spec`.
static llvm::Error readValue(UnitSpec &spec, MLIRContext *context,
                             StringRef text) {
  StringRef key, value;
  std::tie(key, value) = text.split('=');
  auto fail = [&](const Twine &expected) {
    return failFor(spec.pattern,
                   "expected " + expected + ", got '" + text + "'");
  };
  auto once = [&](bool isGiven) {
    return isGiven ? failFor(spec.pattern,
                             "expected " + key + " once, got it twice")
                   : llvm::Error::success();
  };
  if (key == kStrategyKey) {
    if (llvm::Error error = once(spec.strategy.has_value()))
      return error;
    SmallVector<StringRef> words;
    for (const OptionWord<Strategy> &word : getWords<Strategy>())
      if (word.value != Strategy::Auto)
        words.push_back(word.word);
    if (!llvm::is_contained(words, value))
      return fail("strategy=" + joinOr(words));
    spec.strategy = parseWord<Strategy>(value);
    return llvm::Error::success();
  }
  if (key == kParamKey || key == kReduceKey) {
    FloatType &type = key == kParamKey ? spec.paramDtype : spec.reduceDtype;
    if (llvm::Error error = once(bool(type)))
      return error;
    type = parseFloatType(context, value);
    return type ? llvm::Error::success() : fail(key + " of " + kFloatTypeWords);
  }
  if (key == kOffloadKey) {
    if (llvm::Error error = once(spec.offload.has_value()))
      return error;
    spec.offload = symbolizeHostPart(value);
    return spec.offload ? llvm::Error::success()
                        : fail("offload of none, parameters, optimizer or all");
  }
  if (key != kReshardKey && key != kReshardLastKey)
    return fail("strategy, param-dtype, reduce-dtype, reshard-after-forward, "
                "reshard-after-backward or offload before '='");
  std::optional<bool> &reshards =
      key == kReshardKey ? spec.reshardAfterForward : spec.reshardAfterBackward;
  if (llvm::Error error = once(reshards.has_value()))
    return error;
  bool isBool = value == "true" || value == "false";
  if (key == kReshardLastKey && !isBool)
    return fail(key + " of true or false");
  bool isRanks = !value.getAsInteger(10, spec.secondaryRanks);
  if (!isBool && !(isRanks && spec.secondaryRanks > 0))
    return fail("reshard-after-forward of true, false or a number of ranks");
  reshards = value != "false";
  return llvm::Error::success();
}

llvm::Expected<UnitSpec> UnitSpec::parse(MLIRContext *context, StringRef text) {
  StringRef inner = text;
  if (inner.starts_with("{") && inner.ends_with("}"))
    inner = inner.drop_front().drop_back();
  // Values have no colon.
  auto [pattern, values] = inner.rsplit(':');
  UnitSpec spec;
  spec.pattern = pattern.str();
  if (pattern.empty() || values.empty())
    return failFor(inner.trim(':'),
                   "expected PATTERN:KEY=VALUE[,KEY=VALUE..], got no " +
                       Twine(values.empty() ? "values" : "pattern"));
  std::string apart = values.str();
  llvm::replace(apart, ';', ',');
  for (StringRef value : llvm::split(apart, ','))
    if (llvm::Error error = readValue(spec, context, value))
      return std::move(error);
  if (!spec.strategy || !spec.reshardAfterForward)
    return std::move(spec);
  bool isGathered = *spec.strategy != Strategy::NoShard;
  if (!isGathered ||
      (*spec.reshardAfterForward && keepsGathered(*spec.strategy)))
    return failFor(
        pattern, "expected " +
                     Twine(isGathered ? "reshard-after-forward=false"
                                      : "no reshard-after-forward") +
                     " beside strategy=" + getWord(*spec.strategy) + ", got " +
                     (spec.secondaryRanks         ? Twine(spec.secondaryRanks)
                      : *spec.reshardAfterForward ? Twine("true")
                                                  : Twine("false")) +
                     (isGathered ? ": it keeps parameters gathered for backward"
                                 : ": it has parameters whole"));
  return std::move(spec);
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

/// Ranks that a flat parameter is cut over.
static int64_t countRanks(Strategy strategy, const MeshShape &mesh) {
  int64_t ranks = 1;
  Sharding sharding = fsdp::getSharding(strategy, mesh);
  for (const MeshShape::Axis &axis : mesh.getAxes())
    if (llvm::is_contained(sharding.shardAxes, axis.name))
      ranks *= axis.size;
  return ranks;
}

/// `units` as a message lists them.
static std::string listUnits(ArrayRef<StringRef> units) {
  constexpr size_t kMost = 8;
  std::string text =
      llvm::join(llvm::map_range(units.take_front(kMost), getUnitTitle), ", ");
  if (units.size() > kMost)
    text += " and " + std::to_string(units.size() - kMost) + " more";
  return text;
}

llvm::Expected<UnitTable> UnitTable::get(ArrayRef<std::string> units,
                                         ArrayRef<std::string> texts,
                                         const UnitSettings &usual,
                                         const MeshShape &mesh,
                                         MLIRContext *context) {
  UnitTable table;
  table.usual = usual;
  table.mesh = mesh;
  SmallVector<StringRef> titles;
  for (StringRef unit : units)
    if (!llvm::is_contained(titles, unit))
      titles.push_back(unit);
  for (const std::string &text : texts) {
    llvm::Expected<UnitSpec> spec = UnitSpec::parse(context, text);
    if (!spec)
      return spec.takeError();
    auto glob = llvm::GlobPattern::create(spec->pattern);
    if (!glob)
      return failFor(spec->pattern, "expected a pattern of units' names: " +
                                        llvm::toString(glob.takeError()));
    UnitSettings settings = usual;
    if (spec->strategy) {
      auto chosen = chooseStrategy(*spec->strategy, mesh);
      if (!chosen)
        return failFor(spec->pattern, llvm::toString(chosen.takeError()));
      settings.strategy = *chosen;
    }
    if (spec->paramDtype)
      settings.paramDtype = spec->paramDtype;
    if (spec->reduceDtype)
      settings.reduceDtype = spec->reduceDtype;
    settings.reshardAfterForward = spec->reshardAfterForward;
    settings.secondaryRanks = spec->secondaryRanks;
    if (llvm::Error error = table.cutMesh(*spec, settings))
      return std::move(error);
    if (spec->reshardAfterBackward)
      settings.reshardAfterBackward = *spec->reshardAfterBackward;
    settings.offload = spec->offload;
    if (!settings.reshardAfterBackward &&
        settings.reshardAfterForward.value_or(false))
      return failFor(spec->pattern,
                     "expected reshard-after-backward=true beside "
                     "reshard-after-forward=" +
                         Twine(spec->secondaryRanks
                                   ? std::to_string(spec->secondaryRanks)
                                   : "true") +
                         ", got false: what stays gathered behind backward "
                         "stays so behind forward");
    bool any = false;
    for (StringRef unit : titles) {
      if (!glob->match(getUnitTitle(unit)))
        continue;
      any = true;
      auto [it, isNew] = table.entries.try_emplace(
          unit, Entry{unsigned(table.specs.size()), settings});
      if (!isNew)
        return failFor(spec->pattern,
                       "expected units that no other --unit matches, got " +
                           getUnitTitle(unit) + ", which '" +
                           table.specs[it->second.spec].pattern +
                           "' matches, too");
    }
    if (!any)
      return failFor(spec->pattern, "expected a pattern of units, which are " +
                                        listUnits(titles) + ", got none");
    table.specs.push_back(std::move(*spec));
  }
  return std::move(table);
}

llvm::Error UnitTable::cutMesh(const UnitSpec &spec,
                               const UnitSettings &settings) {
  int64_t ranks = settings.secondaryRanks;
  if (!ranks)
    return llvm::Error::success();
  if (settings.strategy == Strategy::NoShard)
    return failFor(spec.pattern, "expected no reshard-after-forward beside "
                                 "strategy no_shard, got " +
                                     Twine(ranks) +
                                     ": it has parameters whole");
  int64_t all = countRanks(settings.strategy, mesh);
  if (mesh.shard % ranks != 0 || ranks == 1 || ranks == all)
    return failFor(spec.pattern,
                   "expected a divisor of the shard axis' " +
                       Twine(mesh.shard) + " ranks between 1 and " +
                       Twine(all) + " as reshard-after-forward, got " +
                       Twine(ranks) +
                       (ranks == 1     ? ": false keeps all of it on every rank"
                        : ranks == all ? ": true leaves every rank its shard"
                                       : ""));
  auto at = llvm::lower_bound(mesh.cuts, ranks);
  if (ranks == mesh.shard || (at != mesh.cuts.end() && *at == ranks))
    return llvm::Error::success();
  // Each secondary shard is whole axes of one mesh.
  for (int64_t other : mesh.cuts)
    if (other % ranks != 0 && ranks % other != 0) {
      auto first = llvm::find_if(specs, [&](const UnitSpec &known) {
        return known.secondaryRanks == other;
      });
      return failFor(spec.pattern,
                     "expected a divisor or a multiple of the " + Twine(other) +
                         " ranks of '" + first->pattern +
                         "' as reshard-after-forward, got " + Twine(ranks));
    }
  mesh.cuts.insert(at, ranks);
  return llvm::Error::success();
}

const UnitSettings &UnitTable::getSettings(StringRef unit) const {
  auto entry = entries.find(unit);
  return entry == entries.end() ? usual : entry->second.settings;
}

int64_t UnitTable::countShards(StringRef unit) const {
  return countRanks(getSettings(unit).strategy, mesh);
}

bool UnitTable::hasParamDtypes() const {
  return llvm::any_of(
      specs, [](const UnitSpec &spec) { return bool(spec.paramDtype); });
}

FloatType UnitTable::getChosenReduceType(ArrayRef<FlatPlan> plans) const {
  FloatType chosen;
  for (const FlatPlan &plan : plans) {
    FloatType type = getDtypes(plan).reduce;
    if (!plan.trainable || plan.treatment == Treatment::Ignored ||
        type.getWidth() >= 32)
      continue;
    if (!getSettings(plan.unit).reduceDtype || (chosen && chosen != type))
      return usual.reduceDtype;
    chosen = type;
  }
  return chosen ? chosen : usual.reduceDtype;
}

Sharding UnitTable::getSharding(const FlatPlan &plan,
                                const UnitSettings &settings) const {
  if (plan.treatment == Treatment::Ignored)
    return {{}, {}, {}, /*keep=*/true};
  if (plan.treatment == Treatment::Replicated)
    return fsdp::getSharding(Strategy::NoShard, mesh);
  Sharding sharding = fsdp::getSharding(settings.strategy, mesh);
  if (sharding.shardAxes.empty())
    return sharding;
  if (settings.reshardAfterForward)
    sharding.keep = !*settings.reshardAfterForward;
  else if (plan.unit.empty())
    sharding.keep = true;
  // One rank has all of it anyway.
  if (!settings.reshardAfterBackward && countRanks(settings.strategy, mesh) > 1)
    sharding.keep = sharding.persistent = true;
  if (settings.secondaryRanks)
    addSecondaryShard(sharding, mesh, settings.secondaryRanks);
  return sharding;
}

HostPartAttr UnitTable::getOffload(const FlatPlan &plan,
                                   MLIRContext *context) const {
  std::optional<HostPart> part = getSettings(plan.unit).offload;
  return part ? HostPartAttr::get(context, *part) : HostPartAttr();
}

FlatDtypes UnitTable::getDtypes(const FlatPlan &plan,
                                const UnitSettings &settings) {
  return getFlatDtypes(plan.elementType, settings.paramDtype,
                       settings.reduceDtype, plan.treatment);
}

//===----------------------------------------------------------------------===//
// What has an effect
//===----------------------------------------------------------------------===//

bool UnitTable::isSame(const FlatPlan &plan, const UnitSettings &a,
                       const UnitSettings &b) const {
  Sharding x = getSharding(plan, a), y = getSharding(plan, b);
  FlatDtypes s = getDtypes(plan, a), t = getDtypes(plan, b);
  return x.shardAxes == y.shardAxes && x.secondaryAxes == y.secondaryAxes &&
         x.replicateAxes == y.replicateAxes && x.keep == y.keep &&
         x.persistent == y.persistent && s.state == t.state &&
         s.gather == t.gather && (!plan.trainable || s.reduce == t.reduce);
}

llvm::Error UnitTable::checkChanges(ArrayRef<FlatPlan> plans) const {
  for (unsigned index = 0; index != specs.size(); ++index) {
    const UnitSpec &spec = specs[index];
    struct Value {
      bool isGiven;
      StringRef key;
      void (*reset)(UnitSettings &settings, const UnitSettings &usual);
    };
    const Value values[] = {{spec.strategy.has_value(), kStrategyKey,
                             [](UnitSettings &s, const UnitSettings &u) {
                               s.strategy = u.strategy;
                             }},
                            {bool(spec.paramDtype), kParamKey,
                             [](UnitSettings &s, const UnitSettings &u) {
                               s.paramDtype = u.paramDtype;
                             }},
                            {bool(spec.reduceDtype), kReduceKey,
                             [](UnitSettings &s, const UnitSettings &u) {
                               s.reduceDtype = u.reduceDtype;
                             }},
                            {spec.reshardAfterForward.has_value(), kReshardKey,
                             [](UnitSettings &s, const UnitSettings &u) {
                               s.reshardAfterForward = u.reshardAfterForward;
                               s.secondaryRanks = u.secondaryRanks;
                             }},
                            {spec.reshardAfterBackward.has_value(),
                             kReshardLastKey,
                             [](UnitSettings &s, const UnitSettings &u) {
                               s.reshardAfterBackward = u.reshardAfterBackward;
                             }}};
    for (const Value &value : values) {
      auto changes = [&](const FlatPlan &plan) {
        auto entry = entries.find(plan.unit);
        if (entry == entries.end() || entry->second.spec != index)
          return false;
        UnitSettings without = entry->second.settings;
        value.reset(without, usual);
        return !isSame(plan, entry->second.settings, without);
      };
      if (value.isGiven && llvm::none_of(plans, changes))
        return failFor(spec.pattern,
                       "expected " + value.key +
                           " that changes a unit, got what all that match "
                           "have without it");
    }
  }
  return llvm::Error::success();
}
