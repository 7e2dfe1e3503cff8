//===- UnitSettings.h - Units with settings of their own --------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What nested FSDP instances are given each: sharding_strategy,
// mixed_precision (param_dtype, reduce_dtype), reshard_after_forward,
// set_reshard_after_backward and cpu_offload. One --unit gives them to the
// units that its pattern matches:
//
//   PATTERN:KEY=VALUE[,KEY=VALUE..]
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_UNITSETTINGS_H
#define FSDP_ANALYSIS_STEP_UNITSETTINGS_H

#include "fsdp/Analysis/Step/FlatLayout.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::fsdp {

/// How a unit is sharded, and in which types.
struct UnitSettings {
  /// Never Auto.
  Strategy strategy = Strategy::FullShard;
  /// As getFlatDtypes takes them.
  FloatType paramDtype, reduceDtype;
  /// Whether it is gathered again for backward; nullopt: as its strategy says,
  /// and never for the root, in whose forward backward begins.
  std::optional<bool> reshardAfterForward;
  /// Where it is resharded after forward: the neighbouring ranks that each have
  /// a piece of it from there to backward; 0: it is its shard that each has.
  int64_t secondaryRanks = 0;
  /// False: it stays gathered for the step's other micro-batches.
  bool reshardAfterBackward = true;
  /// What of it is in the host's memory; nullopt: what the step's options say.
  std::optional<HostPart> offload;
};

/// One --unit, read.
struct UnitSpec {
  /// As it was given.
  std::string pattern;
  std::optional<Strategy> strategy;
  FloatType paramDtype, reduceDtype;
  std::optional<bool> reshardAfterForward, reshardAfterBackward;
  std::optional<HostPart> offload;
  int64_t secondaryRanks = 0;

  /// Fails where `text` is not of the form above. Semicolons may stand for its
  /// commas, and braces around it, as in lists of a pipeline's text.
  static llvm::Expected<UnitSpec> parse(MLIRContext *context, StringRef text);
};

/// What a unit is called in patterns and messages: its module's path, or root.
inline StringRef getUnitTitle(StringRef unit) {
  return unit.empty() ? "root" : unit;
}

/// The settings of all units of a step.
class UnitTable {
public:
  /// Of `units`, each of which may stand there several times. Fails where a
  /// pattern matches none, where two match one unit, and where a strategy needs
  /// another mesh.
  static llvm::Expected<UnitTable>
  get(ArrayRef<std::string> units, ArrayRef<std::string> texts,
      const UnitSettings &usual, const MeshShape &mesh, MLIRContext *context);

  const UnitSettings &getSettings(StringRef unit) const;
  /// With its shard axis cut where secondary shards need it.
  const MeshShape &getMesh() const { return mesh; }
  /// Ranks that a sharded flat parameter of the unit is cut over.
  int64_t countShards(StringRef unit) const;
  Sharding getSharding(const FlatPlan &plan) const {
    return getSharding(plan, getSettings(plan.unit));
  }
  /// Null where the unit says nothing.
  HostPartAttr getOffload(const FlatPlan &plan, MLIRContext *context) const;
  FlatDtypes getDtypes(const FlatPlan &plan) const {
    return getDtypes(plan, getSettings(plan.unit));
  }
  /// Whether a unit has a param-dtype of its own.
  bool hasParamDtypes() const;
  /// The type that --reduce-dtype, or a unit's, chose for all sums of gradients
  /// in fewer than 32 bits; that of --reduce-dtype where there is no such one.
  FloatType getChosenReduceType(ArrayRef<FlatPlan> plans) const;
  /// Fails where a value that a unit was given leaves every flat parameter as
  /// it would be without.
  llvm::Error checkChanges(ArrayRef<FlatPlan> plans) const;

private:
  /// Cuts the mesh for the secondary shards of units that @spec matches, which
  /// have @settings.
  llvm::Error cutMesh(const UnitSpec &spec, const UnitSettings &settings);
  Sharding getSharding(const FlatPlan &plan,
                       const UnitSettings &settings) const;
  static FlatDtypes getDtypes(const FlatPlan &plan,
                              const UnitSettings &settings);
  bool isSame(const FlatPlan &plan, const UnitSettings &a,
              const UnitSettings &b) const;

  UnitSettings usual;
  MeshShape mesh;
  std::vector<UnitSpec> specs;
  /// By unit the index of its spec, and what it has.
  struct Entry {
    unsigned spec;
    UnitSettings settings;
  };
  llvm::StringMap<Entry> entries;
};

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_UNITSETTINGS_H
