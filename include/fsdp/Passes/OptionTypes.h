//===- OptionTypes.h - Values of options ------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_OPTIONTYPES_H
#define FSDP_PASSES_OPTIONTYPES_H

#include "fsdp/Analysis/Step/Strategy.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"
#include "fsdp/Planning/PlanRules.h"
#include "fsdp/Schedule/FSDPSchedules.h"
#include "fsdp/Support/WordParser.h"

#include <cstdint>

namespace mlir::fsdp {

/// What becomes of softmax(f(q k^T)) v.
enum class AttentionMode { Fused, Decomposed };

/// How CUDA devices compute functions whose values are rounded to 16 bits: by
/// their approximate instructions, or as f32 everywhere.
enum class MathMode { Fast, Exact };

/// Who adds up what ranks of CUDA devices contribute: the runtime, NCCL, or
/// whichever is fast enough (fsdp-choose-reduction).
enum class ReductionMode { Auto, Exact, Nccl };

/// What an accumulator of gradients holds (fsdp-add-accumulation). `Auto`
/// leaves it to whoever plans; no pass takes it.
enum class AccumulateIn { None, Shard, Whole, Auto };

FSDP_WORDS(AttentionMode, {E::Fused, "fused", "one kernel (default)"},
           {E::Decomposed, "decomposed", "op by op"})

FSDP_WORDS(MathMode,
           {E::Fast, "fast",
            "approximately where the result is rounded to bf16 or f16 "
            "(default)"},
           {E::Exact, "exact", "to 2 units in the last place of f32"})

FSDP_WORDS(ReductionMode,
           {E::Auto, "auto",
            "the runtime, unless its sums take far longer on the cluster "
            "(default)"},
           {E::Exact, "exact", "the runtime, with the bits of processors"},
           {E::Nccl, "nccl", "NCCL, in its own order"})

FSDP_WORDS(
    AccumulateIn, {E::None, "none", "there are none (default)"},
    {E::Shard, "shard", "a rank's piece, reduced after each micro-batch"},
    {E::Whole, "whole", "a rank's whole gradient, reduced after the last one"},
    {E::Auto, "auto",
     "of tools: whichever is faster within the memory (needs --cluster)"})

FSDP_WORDS(Order,
           {E::scheduled, stringifyOrder(E::scheduled),
            "as is fastest within the memory (default)"},
           {E::fsdp, stringifyOrder(E::fsdp),
            "as FSDP prefetches, one unit ahead"},
           {E::in_order, stringifyOrder(E::in_order),
            "each transfer is waited for at once"})

/// How fine kernels may be that a target runs well: what fsdp-form-kernels
/// takes as options of these names, fsdp-split-column-sums as `items`, and
/// fsdp-pitch-rows as `alignment` (0: the pass does not run); whether products
/// add (fsdp-fuse-epilogues), and whether kernels of rows take column sums
/// (`sweeps` of both); and what fsdp-cut-saved-values takes as `saved-byte`.
struct KernelLimits {
  int64_t minItems, smallWork, sumItems, rowAlignment, savedByte;
  bool epilogues, sweeps;
};

/// Of processors, which hand work items to threads.
inline KernelLimits getCpuKernelLimits() {
  return {/*minItems=*/32,     /*smallWork=*/32768,
          /*sumItems=*/0,
          /*rowAlignment=*/0,  /*savedByte=*/32,
          /*epilogues=*/false, /*sweeps=*/false};
}

} // namespace mlir::fsdp

FSDP_WORD_OPTION(mlir::fsdp::AccumulateIn)
FSDP_WORD_OPTION(mlir::fsdp::AttentionMode)
FSDP_WORD_OPTION(mlir::fsdp::MathMode)
FSDP_WORD_OPTION(mlir::fsdp::Order)
FSDP_WORD_OPTION(mlir::fsdp::ReductionMode)
FSDP_WORD_OPTION(mlir::fsdp::Strategy)
FSDP_WORD_OPTION(mlir::fsdp::sched::BackwardPrefetch)
FSDP_WORD_OPTION(mlir::fsdp::sched::PlanRules::Group)
FSDP_WORD_OPTION(mlir::fsdp::sched::PlanRules::Keep)
FSDP_WORD_OPTION(mlir::fsdp::sched::PlanRules::Offload)
FSDP_WORD_OPTION(mlir::fsdp::sched::PlanRules::Recompute)

#endif // FSDP_PASSES_OPTIONTYPES_H
