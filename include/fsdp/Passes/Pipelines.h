//===- Pipelines.h - Passes in their order ----------------------*- C++ -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PIPELINES_H
#define FSDP_PASSES_PIPELINES_H

#include "fsdp/Passes/OptionTypes.h"
#include "fsdp/Passes/PipelineOptions.h"
#include "fsdp/Passes/Stage.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir::fsdp {

/// Options of `fsdp-logical` and `fsdp-partition`.
struct PartitionOptions : PipelineOptions {
  Option<std::string> name{*this, "name", kOfDriver,
                           llvm::cl::desc("what the manifest calls the module"),
                           llvm::cl::init("")};
  Option<std::string> mesh{*this, "mesh",
                           llvm::cl::desc("shard=N or shard=N,replicate=M"),
                           llvm::cl::init("shard=2")};
  Option<Strategy> strategy{
      *this, "strategy",
      llvm::cl::desc("Parameters, gradients and optimizer states are sharded:"),
      llvm::cl::init(Strategy::Auto)};
  Option<std::string> wrap{
      *this, "wrap",
      llvm::cl::desc(
          "module:CLASS[,CLASS..] | size:N | blocks | pieces | none | auto"),
      llvm::cl::init("blocks")};
  Option<std::string> paramDtype{
      *this, "param-dtype",
      llvm::cl::desc(
          "Gather parameters, and compute products, in f32, bf16, .."),
      llvm::cl::init("")};
  Option<std::string> reduceDtype{
      *this, "reduce-dtype",
      llvm::cl::desc("Reduce gradients in f32, bf16, .."), llvm::cl::init("")};
  Option<std::string> reductionHook{
      *this, "reduction-hook", llvm::cl::value_desc("name:key=value,.."),
      llvm::cl::desc("What replaces the mean of gradients over replicas: bf16 "
                     "or fp16 (as --reduce-dtype), powersgd with rank=, "
                     "min-compression-rate=, epsilon= and error-feedback=, or "
                     "a plugin's"),
      llvm::cl::init("")};
  Option<std::string> gradientDivideFactor{
      *this, "gradient-divide-factor", llvm::cl::value_desc("number"),
      llvm::cl::desc(
          "What the sum of the ranks' gradients is divided by; or "
          "pre=P,post=Q: "
          "by P before it is made, by Q behind (default: by the ranks)"),
      llvm::cl::init("")};
  Option<std::string> bufferDtype{
      *this, "buffer-dtype",
      llvm::cl::desc("Read buffers of wider floats in f32, bf16, .."),
      llvm::cl::init("")};
  Option<std::string> outputDtype{
      *this, "output-dtype",
      llvm::cl::desc("What evaluations return, in f32, bf16, .."),
      llvm::cl::init("")};
  Option<std::string> optimizer{
      *this, "optimizer",
      llvm::cl::desc("adamw, adam, sgd, adagrad, adadelta, rmsprop, nadam, "
                     "radam, adamax or lion, with what is other than in "
                     "torch.optim: adamw:lr=3e-4,beta2=0.95,amsgrad=true "
                     "(default: the step's own, else adamw)"),
      llvm::cl::value_desc("name:key=value,.."), llvm::cl::init("")};
  TextsOption optimizerScalars{
      *this, "optimizer-scalars", llvm::cl::value_desc("weight_decay,.."),
      llvm::cl::desc("Hyper-parameters of --optimizer that each run may give "
                     "anew (the executable's --scalar NAME=X), as it may the "
                     "rate")};
  TextsOption group{
      *this, "group", llvm::cl::value_desc("name=rules:scalars"),
      llvm::cl::desc(
          "Parameters whose update reads numbers of its own, such as "
          "'no_decay=*.bias,dims<2:weight_decay=0': names, globs, or numbers "
          "of dimensions; of several groups the first that holds")};
  TextsOption ignore{
      *this, "ignore", llvm::cl::value_desc("pattern"),
      llvm::cl::desc("Parameters that are left whole, gradients not reduced: "
                     "names, or globs such as *.bias")};
  TextsOption replicate{
      *this, "replicate", llvm::cl::value_desc("pattern"),
      llvm::cl::desc("Parameters that are left whole, gradients averaged: "
                     "names, or globs such as *.bias")};
  TextsOption unit{
      *this, "unit", llvm::cl::value_desc("pattern:key=value,.."),
      llvm::cl::desc(
          "Units with a strategy, param-dtype, reduce-dtype, "
          "reshard-after-forward (true, false, ranks), reshard-after-backward "
          "or offload of their "
          "own, such as '*.lm_head:strategy=no_shard,param-dtype=f32': names "
          "of units, or "
          "globs; root is the model's own unit")};
  Option<bool> reshardAfterBackward{
      *this, "reshard-after-backward",
      llvm::cl::desc("False: what a step's first micro-batch gathers stays for "
                     "the others (beside --accumulate-in; with --strategy "
                     "shard_grad_op --accumulate-in whole that is ZeRO-1)"),
      llvm::cl::init(true)};
  Option<bool> clip{
      *this, "clip-norm",
      llvm::cl::desc("Compile in gradient clipping (the executable's "
                     "--clip-norm gives the norm)"),
      llvm::cl::init(false)};
  Option<bool> skipNonfinite{
      *this, "skip-nonfinite",
      llvm::cl::desc(
          "A step whose gradient norm is not finite updates nothing"),
      llvm::cl::init(false)};
  Option<std::string> lossScale{
      *this, "loss-scale",
      llvm::cl::value_desc("dynamic[:key=value,..] | number"),
      llvm::cl::desc(
          "Backward begins with this number times the loss, and "
          "gradients are divided by it before they are used, so that "
          "f16 holds small ones; dynamic, as torch.amp.GradScaler: "
          "dynamic:init=65536,growth=2,backoff=0.5,interval=2000, and "
          "min, below which a run ends (default: no scale)"),
      llvm::cl::init("")};
  Option<bool> evalFullPrecision{
      *this, "eval-full-precision",
      llvm::cl::desc("Evaluations gather and compute as if --param-dtype were "
                     "not given"),
      llvm::cl::init(false)};
  Option<AccumulateIn> accumulateIn{
      *this, "accumulate-in",
      llvm::cl::desc("Compile in gradient accumulation (the executable's "
                     "--accumulate gives the number of micro-batches), with "
                     "accumulators that hold:"),
      llvm::cl::init(AccumulateIn::None)};
};

/// Options of `fsdp-kernels`.
struct KernelOptions : PipelineOptions {
  Option<bool> offloadOptimizer{
      *this, "offload-optimizer",
      llvm::cl::desc("Optimizer states with an element per element of a "
                     "parameter are in the host's memory between updates"),
      llvm::cl::init(false)};
  Option<bool> offloadParameters{
      *this, "offload-parameters",
      llvm::cl::desc("Shards of parameters are in the host's memory; each pass "
                     "copies what it gathers"),
      llvm::cl::init(false)};
  Option<bool> optimizerInBackward{
      *this, "optimizer-in-backward",
      llvm::cl::desc("Update a unit right after its gradients are reduced, and "
                     "say what that does to the arena"),
      llvm::cl::init(false)};
  Option<std::string> checkpoint{
      *this, "checkpoint", llvm::cl::value_desc("rule"),
      llvm::cl::desc(
          "Backward computes again what is inside of these modules: "
          "module:CLASS[,CLASS..] | globs of names | every=N (blocks) | "
          "selective | none (default: those that were checkpointed in the "
          "trace, unless --recompute is given)"),
      llvm::cl::init("")};
  Option<AttentionMode> attention{
      *this, "attention",
      llvm::cl::desc("Attention as one kernel, or op by op as traced:"),
      llvm::cl::init(AttentionMode::Fused)};
  Option<bool> checkAll{
      *this, "check-all", kOfDriver,
      llvm::cl::desc("check indices that are known to be in range, too"),
      llvm::cl::init(false)};
  Option<int64_t> minItems{
      *this, "min-items", kOfDriver,
      llvm::cl::desc("work items that a kernel is not made smaller than; "
                     "default: of processors"),
      llvm::cl::init(getCpuKernelLimits().minItems)};
  Option<int64_t> smallWork{
      *this, "small-work", kOfDriver,
      llvm::cl::desc("work below which few items do no harm; default: of "
                     "processors"),
      llvm::cl::init(getCpuKernelLimits().smallWork)};
  Option<int64_t> sumItems{
      *this, "sum-items", kOfDriver,
      llvm::cl::desc("results below which large sums over rows are done in two "
                     "steps; 0: never; default: of processors"),
      llvm::cl::init(getCpuKernelLimits().sumItems)};
  Option<int64_t> rowAlignment{
      *this, "row-alignment", kOfDriver,
      llvm::cl::desc("bytes of which rows of a product's matrices begin at "
                     "multiples; 0: any; default: of processors"),
      llvm::cl::init(getCpuKernelLimits().rowAlignment)};
  Option<int64_t> savedByte{
      *this, "saved-byte", kOfDriver,
      llvm::cl::desc("cost of a byte that forward saves, in operations on an "
                     "element, where one that is read costs 4; default: of "
                     "processors"),
      llvm::cl::init(getCpuKernelLimits().savedByte)};
  Option<bool> epilogues{
      *this, "epilogues", kOfDriver,
      llvm::cl::desc("let products add biases and residuals, which processors "
                     "cannot; default: of processors"),
      llvm::cl::init(getCpuKernelLimits().epilogues)};
  Option<bool> sweeps{
      *this, "sweeps", kOfDriver,
      llvm::cl::desc("let kernels of rows take sums over these rows, which "
                     "processors cannot; default: of processors"),
      llvm::cl::init(getCpuKernelLimits().sweeps)};

  void setLimits(const KernelLimits &limits) {
    minItems = limits.minItems;
    smallWork = limits.smallWork;
    sumItems = limits.sumItems;
    rowAlignment = limits.rowAlignment;
    savedByte = limits.savedByte;
    epilogues = limits.epilogues;
    sweeps = limits.sweeps;
  }
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
struct OptimizeOptions : PipelineOptions {
  Option<std::string> profile{
      *this, "profile", llvm::cl::value_desc("file.json"),
      llvm::cl::desc("Take kernels' times from what an executable of this step "
                     "wrote with --profile, not from the cluster file"),
      llvm::cl::init("")};
  Option<std::string> cluster{
      *this, "cluster", llvm::cl::value_desc("file.json | name"),
      llvm::cl::desc("Let transfers run beside the computation, as is best on "
                     "this cluster: a file, or for tools the name of one that "
                     "is installed"),
      llvm::cl::init("")};
  Option<int64_t> budget{
      *this, "budget", kOfDriver,
      llvm::cl::desc("bytes for the arena; 0: what fsdp.budget of the module "
                     "leaves, else what the device has"),
      llvm::cl::init(0)};
  Option<sched::PlanRules::Keep> reshardAfterForward{
      *this, "reshard-after-forward",
      llvm::cl::desc("Gathered parameters between forward and backward are:"),
      llvm::cl::init(sched::PlanRules::Keep::Auto)};
  Option<sched::PlanRules::Recompute> recompute{
      *this, "recompute", llvm::cl::desc("What backward computes again:"),
      llvm::cl::init(sched::PlanRules::Recompute::Auto)};
  Option<sched::PlanRules::Offload> offload{
      *this, "offload",
      llvm::cl::desc("Activations that are in the host's memory between "
                     "forward and backward:"),
      llvm::cl::init(sched::PlanRules::Offload::Auto)};
  Option<sched::PlanRules::Group> bucket{
      *this, "bucket", llvm::cl::desc("Transfers that are issued together:"),
      llvm::cl::init(sched::PlanRules::Group::Auto)};

  /// Whether what is kept and repeated is said, and not to be chosen.
  bool hasRules() const {
    return reshardAfterForward != sched::PlanRules::Keep::Auto ||
           recompute != sched::PlanRules::Recompute::Auto;
  }
  sched::PlanRules getRules() const {
    return {reshardAfterForward, recompute, offload, bucket, std::nullopt};
  }
};

/// Options of `fsdp-schedule`.
struct SchedulePipelineOptions : OptimizeOptions {
  /// Tools take "24GiB", too (StepOptions).
  Option<int64_t> memoryBudget{
      *this, "memory-budget", kOfDriver,
      llvm::cl::desc("bytes that a rank may use; 0: what the device has"),
      llvm::cl::init(0)};
  Option<Order> order{*this, "order",
                      llvm::cl::desc("The order in which the step runs:"),
                      llvm::cl::init(Order::scheduled)};
  Option<bool> forwardPrefetch{
      *this, "forward-prefetch",
      llvm::cl::desc(
          "With --order fsdp: gather the next unit of forward early"),
      llvm::cl::init(true)};
  Option<sched::BackwardPrefetch> backwardPrefetch{
      *this, "backward-prefetch",
      llvm::cl::desc("With --order fsdp: backward gathers the next unit:"),
      llvm::cl::init(sched::BackwardPrefetch::Pre)};
  Option<bool> limitAllGathers{
      *this, "limit-all-gathers",
      llvm::cl::desc(
          "With --order fsdp: at most two units are gathered at once"),
      llvm::cl::init(true)};
  Option<bool> guard{
      *this, "guard",
      llvm::cl::desc("Debugging: poison memory outside of its planned life, "
                     "and check at run time that nobody writes there or after "
                     "a buffer"),
      llvm::cl::init(false)};

  Option<ReductionMode> reduction{
      *this, "reduction",
      llvm::cl::desc("Who adds up what ranks of CUDA devices contribute:"),
      llvm::cl::init(ReductionMode::Auto)};

  /// Whether the step is planned before it is ordered: orders without a plan
  /// take what they take.
  bool hasPlan() const { return order == Order::scheduled; }
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
  Option<MathMode> math{
      *this, "math",
      llvm::cl::desc("how functions of results of 16 bits are computed:"),
      llvm::cl::init(MathMode::Fast)};
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

/// Still L2, with kernels' code: who adds up over ranks of CUDA devices, also
/// without a cluster.
void addChooseReduction(OpPassManager &pm,
                        const SchedulePipelineOptions &options);

/// Still L2: plans what is kept, computed again and issued together, and when,
/// and does all but the last. Registered as `fsdp-optimize`; runs behind the
/// kernels.
void buildOptimizePipeline(OpPassManager &pm, const OptimizeOptions &options);

/// Still L2: what rules decide without a cluster (fsdp-follow-rules), and does
/// it. Options that only a planner can follow are not looked at.
void buildRulesPipeline(OpPassManager &pm, const OptimizeOptions &options);

/// Names of stages that targets share, or that tools ask for.
inline constexpr StringLiteral kKernelCodeStage = "code for kernels",
                               kPlanStage = "plan and order",
                               kRulesStage = "rules", kArenaStage = "arena",
                               kGuardedArenaStage = "guarded arena";

/// L2 with kernels' code: what arenas may take, and drafts of them for the
/// planner, which wants to know how large things are and which share memory.
void buildDraftPipeline(OpPassManager &pm,
                        const SchedulePipelineOptions &options);

/// L2 with kernels' code to L3: the plan where order is scheduled, the order by
/// the budget, the arena and what the programs take then, verified. @options
/// must outlive the stages.
llvm::SmallVector<Stage>
getScheduleStages(const SchedulePipelineOptions &options);
/// All of them. Registered as `fsdp-schedule`.
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
/// The same, verified: the stage of a step that no cluster orders.
Stage getArenaStage(bool guard);

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
