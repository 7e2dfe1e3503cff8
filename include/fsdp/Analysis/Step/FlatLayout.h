//===- FlatLayout.h - Which parameters share a flat parameter ---*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_STEP_FLATLAYOUT_H
#define FSDP_ANALYSIS_STEP_FLATLAYOUT_H

#include "fsdp/Analysis/Contract/InputContract.h"
#include "fsdp/Analysis/Step/Strategy.h"

#include <string>
#include <vector>

namespace mlir::fsdp {

/// How FSDP treats a parameter.
enum class Treatment {
  Sharded,
  /// Whole on every rank, gradients averaged.
  Replicated,
  /// Whole on every rank, gradients left alone.
  Ignored
};

/// Element types of a flat parameter: kept, gathered, reduced.
struct FlatDtypes {
  FloatType state, gather, reduce;
};

/// The types for parameters traced as `traced`, given --param-dtype and
/// --reduce-dtype (null where not given). As in FSDP, gradients are reduced in
/// the gather type unless told otherwise, and ignored parameters stay as they
/// are; the state of a narrow trace is kept in f32 once a gather type was asked
/// for.
FlatDtypes getFlatDtypes(FloatType traced, FloatType paramDtype,
                         FloatType reduceDtype, Treatment treatment);

constexpr llvm::StringLiteral kFloatTypeWords = "f32, f64, bf16 or f16";
/// One of these; null for any other text.
FloatType parseFloatType(MLIRContext *context, StringRef text);

/// One flat parameter to be.
struct FlatPlan {
  std::string name;
  std::string unit;
  Treatment treatment = Treatment::Sharded;
  bool trainable = true;
  FloatType elementType;
  /// Indices into the step's parameters, by group of the optimizer and in
  /// traversal order, and where each begins, in elements.
  SmallVector<unsigned> params;
  SmallVector<int64_t> offsets;
  /// Elements, padding included.
  int64_t numel = 0;
};

/// Members start at multiples of this many elements: 64 bytes of the narrowest
/// type, a cache line and a vector register.
constexpr int64_t kMemberAlignment = 32;

/// Shards hold a multiple of this many elements: a power of two that adds at
/// most a hundredth, so that a shard can be cut into equal rows.
int64_t getShardAlignment(int64_t shardNumel);

/// Groups the parameters: one flat parameter per unit, split where element
/// types, treatment or trainability differ. `countShards` gives the ranks that
/// a sharded flat parameter of a unit is cut over. Deterministic: first member
/// decides.
std::vector<FlatPlan>
planFlatParams(const TracedStep &step, ArrayRef<std::string> units,
               ArrayRef<Treatment> treatments,
               llvm::function_ref<int64_t(StringRef)> countShards);

} // namespace mlir::fsdp

#endif // FSDP_ANALYSIS_STEP_FLATLAYOUT_H
