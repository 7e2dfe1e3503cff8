//===- OptionTypes.h - Values of options ------------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_OPTIONTYPES_H
#define FSDP_PASSES_OPTIONTYPES_H

#include "llvm/Support/CommandLine.h"

#include <cstdint>

namespace mlir::fsdp {

/// What becomes of softmax(f(q k^T)) v.
enum class AttentionMode { Fused, Decomposed };

/// What an accumulator of gradients holds (fsdp-add-accumulation). `Auto`
/// leaves it to whoever plans; no pass takes it.
enum class AccumulateIn { None, Shard, Whole, Auto };

/// The words for it, of passes, pipelines and tools.
inline llvm::cl::ValuesClass getAccumulateInValues() {
  return llvm::cl::values(
      clEnumValN(AccumulateIn::None, "none", "there are none (default)"),
      clEnumValN(AccumulateIn::Shard, "shard",
                 "a rank's piece, reduced after each micro-batch"),
      clEnumValN(AccumulateIn::Whole, "whole",
                 "a rank's whole gradient, reduced after the last one"),
      clEnumValN(AccumulateIn::Auto, "auto",
                 "of tools: whichever is faster within the memory (needs "
                 "--cluster)"));
}

/// How fine kernels may be that a target runs well: what fsdp-form-kernels
/// takes as options of these names, fsdp-split-column-sums as `items`, and
/// fsdp-pitch-rows as `alignment` (0: the pass does not run); and whether
/// products add (fsdp-fuse-epilogues).
struct KernelLimits {
  int64_t minItems, smallWork, sumItems, rowAlignment;
  bool epilogues;
};

/// Of processors, which hand work items to threads.
inline KernelLimits getCpuKernelLimits() {
  return {/*minItems=*/32, /*smallWork=*/32768, /*sumItems=*/0,
          /*rowAlignment=*/0, /*epilogues=*/false};
}

} // namespace mlir::fsdp

#endif // FSDP_PASSES_OPTIONTYPES_H
