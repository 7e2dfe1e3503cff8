//===- Pipelines.h - Passes in their order ----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PIPELINES_H
#define FSDP_PASSES_PIPELINES_H

#include "fsdp/Passes/OptionTypes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir::fsdp {

/// Options of `fsdp-logical` and `fsdp-partition`, with the names and defaults
/// of the passes.
struct PartitionOptions : PassPipelineOptions<PartitionOptions> {
  Option<std::string> name{*this, "name",
                           llvm::cl::desc("what the manifest calls the module"),
                           llvm::cl::init("")};
  Option<std::string> mesh{*this, "mesh",
                           llvm::cl::desc("shard=N or shard=N,replicate=M"),
                           llvm::cl::init("shard=2")};
  Option<std::string> strategy{*this, "strategy",
                               llvm::cl::desc("sharding strategy"),
                               llvm::cl::init("auto")};
  Option<std::string> wrap{
      *this, "wrap",
      llvm::cl::desc(
          "module:CLASS[,CLASS..] | size:N | blocks | pieces | none | auto"),
      llvm::cl::init("blocks")};
  Option<std::string> paramDtype{*this, "param-dtype",
                                 llvm::cl::desc("gather in this type, and "
                                                "compute products in it"),
                                 llvm::cl::init("")};
  Option<bool> evalFullPrecision{
      *this, "eval-full-precision",
      llvm::cl::desc("evaluations gather and compute in the types that were "
                     "traced"),
      llvm::cl::init(false)};
  Option<std::string> reduceDtype{*this, "reduce-dtype",
                                  llvm::cl::desc("reduce in this type"),
                                  llvm::cl::init("")};
  Option<std::string> bufferDtype{*this, "buffer-dtype",
                                  llvm::cl::desc("read buffers in this type"),
                                  llvm::cl::init("")};
  Option<std::string> outputDtype{
      *this, "output-dtype",
      llvm::cl::desc("evaluations return outputs in this type"),
      llvm::cl::init("")};
  Option<std::string> optimizer{*this, "optimizer",
                                llvm::cl::desc("built-in optimizer"),
                                llvm::cl::init("")};
  ListOption<std::string> ignore{
      *this, "ignore", llvm::cl::desc("parameters and buffers left alone")};
  ListOption<std::string> replicate{*this, "replicate",
                                    llvm::cl::desc("replicated parameters")};
  Option<AccumulateIn> accumulateIn{
      *this, "accumulate-in",
      llvm::cl::desc("programs for micro-batches, whose accumulators hold .."),
      llvm::cl::init(AccumulateIn::None),
      llvm::cl::values(
          clEnumValN(AccumulateIn::None, "none", "no such programs"),
          clEnumValN(AccumulateIn::Shard, "shard", "a rank's piece"),
          clEnumValN(AccumulateIn::Whole, "whole", "a whole gradient"))};
  Option<bool> clip{*this, "clip", llvm::cl::desc("clip gradients"),
                    llvm::cl::init(false)};
  Option<bool> skipNonfinite{
      *this, "skip-nonfinite",
      llvm::cl::desc("no update where the gradient's norm is not finite"),
      llvm::cl::init(false)};
};

/// Options of `fsdp-kernels`.
struct KernelOptions : PassPipelineOptions<KernelOptions> {
  Option<AttentionMode> attention{
      *this, "attention",
      llvm::cl::desc("attention as one kernel, or as traced"),
      llvm::cl::init(AttentionMode::Fused),
      llvm::cl::values(
          clEnumValN(AttentionMode::Fused, "fused", "one kernel"),
          clEnumValN(AttentionMode::Decomposed, "decomposed", "as traced"))};
  Option<bool> checkAll{
      *this, "check-all",
      llvm::cl::desc("check indices that are known to be in range, too"),
      llvm::cl::init(false)};
  Option<bool> offloadOptimizer{
      *this, "offload-optimizer",
      llvm::cl::desc("keep optimizer states in the host's memory"),
      llvm::cl::init(false)};
  Option<int64_t> minItems{
      *this, "min-items",
      llvm::cl::desc("work items that a kernel is not made smaller than; "
                     "default: of processors"),
      llvm::cl::init(getCpuKernelLimits().minItems)};
  Option<int64_t> smallWork{
      *this, "small-work",
      llvm::cl::desc("work below which few items do no harm; default: of "
                     "processors"),
      llvm::cl::init(getCpuKernelLimits().smallWork)};
  Option<int64_t> sumItems{
      *this, "sum-items",
      llvm::cl::desc("results below which large sums over rows are done in two "
                     "steps; 0: never; default: of processors"),
      llvm::cl::init(getCpuKernelLimits().sumItems)};
  Option<int64_t> rowAlignment{
      *this, "row-alignment",
      llvm::cl::desc("bytes of which rows of a product's matrices begin at "
                     "multiples; 0: any; default: of processors"),
      llvm::cl::init(getCpuKernelLimits().rowAlignment)};
  Option<bool> epilogues{
      *this, "epilogues",
      llvm::cl::desc("let products add biases and residuals, which processors "
                     "cannot; default: of processors"),
      llvm::cl::init(getCpuKernelLimits().epilogues)};
};

/// Options of `fsdp-arena`.
struct ArenaPipelineOptions : PassPipelineOptions<ArenaPipelineOptions> {
  Option<bool> guard{
      *this, "guard",
      llvm::cl::desc("leave bytes free behind each state and buffer"),
      llvm::cl::init(false)};
};

/// L0 to L1: units, flat parameters, reduced gradients, optimizer.
void buildLogicalPipeline(OpPassManager &pm, const PartitionOptions &options);

/// L0 to L2: the logical pipeline, then collectives. Registered as
/// `fsdp-partition`.
void buildPartitionPipeline(OpPassManager &pm, const PartitionOptions &options);

/// L1 to L2: what the logical pipeline leaves becomes collectives on local
/// tensors. Registered as `fsdp-collectives`.
void buildCollectivesPipeline(OpPassManager &pm);

/// Still L2: what computes becomes kernels and launches of them. Registered as
/// `fsdp-kernels`.
void buildKernelPipeline(OpPassManager &pm,
                         const KernelOptions &options = KernelOptions());

/// What fsdp-optimize plans for.
struct OptimizeOptions : PassPipelineOptions<OptimizeOptions> {
  Option<std::string> profile{
      *this, "profile",
      llvm::cl::desc("times of the step's kernels, as an executable writes "
                     "them with --profile"),
      llvm::cl::init("")};
  Option<std::string> cluster{*this, "cluster", llvm::cl::desc("cluster file"),
                              llvm::cl::init("")};
  Option<int64_t> budget{
      *this, "budget",
      llvm::cl::desc("bytes for the arena; 0: what fsdp.budget of the module "
                     "leaves, else what the device has"),
      llvm::cl::init(0)};
  Option<std::string> reshardAfterForward{*this, "reshard-after-forward",
                                          llvm::cl::desc("auto, true or false"),
                                          llvm::cl::init("auto")};
  Option<std::string> recompute{*this, "recompute",
                                llvm::cl::desc("auto, none or full"),
                                llvm::cl::init("auto")};
  Option<std::string> offload{*this, "offload",
                              llvm::cl::desc("auto, none or full"),
                              llvm::cl::init("auto")};
  Option<std::string> bucket{*this, "bucket", llvm::cl::desc("auto or none"),
                             llvm::cl::init("auto")};
};

/// Options of `fsdp-schedule`.
struct SchedulePipelineOptions : OptimizeOptions {
  Option<int64_t> memoryBudget{
      *this, "memory-budget",
      llvm::cl::desc("bytes that a rank may use; 0: what the device has"),
      llvm::cl::init(0)};
  Option<std::string> order{*this, "order",
                            llvm::cl::desc("scheduled, fsdp or in_order"),
                            llvm::cl::init("scheduled")};
  Option<bool> forwardPrefetch{
      *this, "forward-prefetch",
      llvm::cl::desc("order=fsdp: gather the next unit of forward early"),
      llvm::cl::init(true)};
  Option<std::string> backwardPrefetch{
      *this, "backward-prefetch",
      llvm::cl::desc("order=fsdp: pre, post or none"), llvm::cl::init("pre")};
  Option<bool> limitAllGathers{
      *this, "limit-all-gathers",
      llvm::cl::desc("order=fsdp: at most two units are gathered at once"),
      llvm::cl::init(true)};
  Option<bool> guard{
      *this, "guard",
      llvm::cl::desc("leave bytes free behind each state and buffer"),
      llvm::cl::init(false)};
};

/// Options of `fsdp-cuda-kernels`.
struct CudaKernelOptions : PassPipelineOptions<CudaKernelOptions> {
  Option<bool> tf32{
      *this, "tf32",
      llvm::cl::desc("let devices round factors of f32 products to TF32"),
      llvm::cl::init(false)};
  Option<std::string> tuning{
      *this, "tuning",
      llvm::cl::desc("shapes of kernels that were measured to be fast, "
                     "fsdp-tuning/1"),
      llvm::cl::init("")};
};

/// Options of `fsdp-lower`.
struct LowerOptions : PassPipelineOptions<LowerOptions> {
  Option<std::string> cpu{
      *this, "cpu",
      llvm::cl::desc("write the manifest for code for this processor"),
      llvm::cl::init("")};
  ListOption<std::string> features{
      *this, "features",
      llvm::cl::desc("processor features that the code needs, in LLVM's words; "
                     "without avx512bf16, casts to bf16 become integer "
                     "arithmetic")};
  Option<std::string> cuda{
      *this, "cuda",
      llvm::cl::desc("write the manifest for code for CUDA devices from this "
                     "one on, as sm_80"),
      llvm::cl::init("")};
};

/// Still L2: plans what is kept, computed again and issued together, and when,
/// and does all but the last. Registered as `fsdp-optimize`; runs behind the
/// kernels.
void buildOptimizePipeline(OpPassManager &pm, const OptimizeOptions &options);

/// L2 to L3: orders programs, by the orders that were found with their plans or
/// as the options say.
void buildOrderPipeline(OpPassManager &pm,
                        const SchedulePipelineOptions &options);

/// L3: a place for every value of an ordered program, and what it takes then.
void buildTimedArenaPipeline(OpPassManager &pm, const OptimizeOptions &options);

/// L2 with kernels' code to L3: the budget, the plan where order is scheduled,
/// the order and the arena, verified. Registered as `fsdp-schedule`.
void buildSchedulePipeline(OpPassManager &pm,
                           const SchedulePipelineOptions &options);

/// Code for every kernel: a BLAS call, vector loops, or bufferized loops.
/// Registered as `fsdp-cpu-kernels`.
void buildCpuKernelPipeline(OpPassManager &pm);

/// Code for every kernel on CUDA devices. Registered as `fsdp-cuda-kernels`.
void buildCudaKernelPipeline(OpPassManager &pm,
                             const CudaKernelOptions &options);

/// Functions of a gpu.module to the LLVM and NVVM dialects. Registered as
/// `fsdp-lower-cuda-kernels`, for a gpu.module.
void buildLowerCudaKernelsPipeline(OpPassManager &pm);

/// L2 to L3: a place for every state and value, whatever places there were.
/// @guard: with borders behind all of them. Registered as `fsdp-arena`.
void buildArenaPipeline(OpPassManager &pm, bool guard = false);

/// Kernels and runtime calls to the LLVM dialect. Registered as
/// `fsdp-lower-to-llvm`. `expandBf16`: the processor does not round to bf16, so
/// casts become integer arithmetic.
void buildLowerToLLVMPipeline(OpPassManager &pm, bool expandBf16 = false);

/// L3 to the LLVM dialect: runtime calls, the manifest where a processor is
/// named, and kernels. Registered as `fsdp-lower`.
void buildLowerPipeline(OpPassManager &pm, const LowerOptions &options);

/// Registers all passes and pipelines of fsdp-mlir. Idempotent.
void registerAllPasses();

} // namespace mlir::fsdp

#endif // FSDP_PASSES_PIPELINES_H
