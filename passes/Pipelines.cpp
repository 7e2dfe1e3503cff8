//===- Pipelines.cpp - Passes in their order ------------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Passes/Pipelines.h"
#include "fsdp/Dialect/FSDP/IR/ReductionHook.h"
#include "fsdp/Passes/Passes.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::fsdp;

void fsdp::buildLogicalPipeline(OpPassManager &pm,
                                const PartitionOptions &options) {
  //===--------------------------------------------------------------------===//
  // L0
  //===--------------------------------------------------------------------===//
  pm.addPass(createVerifyInput());
  pm.addPass(createIsolateStep());
  AssignGroupsOptions groups;
  // Braces keep a text's commas where the pipeline is printed and read again.
  for (const std::string &text : options.group)
    groups.group.push_back("{" + text + "}");
  AddOptimizerOptions optimizer;
  optimizer.group = groups.group;
  optimizer.optimizer = options.optimizer;
  llvm::append_range(optimizer.runTimeScalars, options.optimizerScalars);
  pm.addPass(createAddOptimizer(optimizer));
  pm.addPass(createDigestTrace({options.name}));
  pm.addPass(createInsertRandom());
  pm.addPass(createInsertLossScale({options.lossScale}));
  pm.addPass(createBoundRate());
  pm.addPass(createAssignGroups(groups));
  pm.addPass(createLocalizeValues());
  pm.addPass(createAssignUnits({options.wrap}));

  //===--------------------------------------------------------------------===//
  // L1
  //===--------------------------------------------------------------------===//
  FlattenParametersOptions flatten;
  flatten.mesh = options.mesh;
  flatten.strategy = options.strategy;
  flatten.paramDtype = options.paramDtype;
  flatten.evalFullPrecision = options.evalFullPrecision;
  flatten.reduceDtype = options.reduceDtype;
  if (options.reduceDtype.empty())
    flatten.reduceDtype = getCompressedType(options.reductionHook).str();
  flatten.bufferDtype = options.bufferDtype;
  flatten.outputDtype = options.outputDtype;
  llvm::append_range(flatten.ignore, options.ignore);
  llvm::append_range(flatten.replicate, options.replicate);
  flatten.reshardAfterBackward = options.reshardAfterBackward;
  // A list in a pipeline's text has commas between its elements.
  for (StringRef text : options.unit) {
    auto [pattern, values] = text.rsplit(':');
    std::string apart = values.str();
    llvm::replace(apart, ',', ';');
    flatten.unit.push_back((pattern + ":" + apart).str());
  }
  pm.addPass(createFlattenParameters(flatten));
  pm.addPass(createAssignReductionHooks({options.reductionHook,
                                         options.reduceDtype, options.lossScale,
                                         options.gradientDivideFactor}));
  pm.addNestedPass<ProgramOp>(
      createReduceGradients({options.gradientDivideFactor}));
  pm.addNestedPass<ProgramOp>(createInsertReshards());
  pm.addPass(createAddAccumulation({options.accumulateIn}));
  pm.addNestedPass<ProgramOp>(createCheckLossCount());
  // A dynamic scale needs steps that may be skipped.
  bool isDynamic = StringRef(options.lossScale).starts_with("dynamic");
  pm.addPass(
      createApplyOptimizer({options.clip, options.skipNonfinite || isDynamic}));
  pm.addPass(createScaleLoss({options.lossScale}));
  pm.addPass(createExpandRandom());
  pm.addNestedPass<ProgramOp>(createVerifyLifetimes());
}

void fsdp::buildPartitionPipeline(OpPassManager &pm,
                                  const PartitionOptions &options) {
  buildLogicalPipeline(pm, options);
  buildCollectivesPipeline(pm);
}

void fsdp::buildCollectivesPipeline(OpPassManager &pm) {
  //===--------------------------------------------------------------------===//
  // L2
  //===--------------------------------------------------------------------===//
  pm.addPass(createConvertLogicalToCollectives());
  pm.addPass(createApplyReductionHooks());
  // Bodies are single blocks.
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  config.setUseTopDownTraversal();
  pm.addPass(createCanonicalizerPass(config));
  pm.addPass(createLayoutState());
}

void fsdp::buildKernelPipeline(OpPassManager &pm,
                               const KernelOptions &options) {
  pm.addNestedPass<ProgramOp>(createCheckIndices({options.checkAll}));
  pm.addNestedPass<ProgramOp>(createHoistChecks());
  pm.addNestedPass<ProgramOp>(createNormalizeCompute());
  pm.addNestedPass<ProgramOp>(createStackPieces());
  pm.addPass(createWidenAccumulators());
  pm.addPass(createCSEPass());
  if (options.attention == AttentionMode::Fused)
    pm.addNestedPass<ProgramOp>(createFuseAttention());
  pm.addNestedPass<ProgramOp>(createNarrowProducts());
  // After the pass that adds roundings before products, and before those that
  // decide what forward saves.
  pm.addNestedPass<ProgramOp>(createInlineLookups());
  if (options.sumItems > 0)
    pm.addNestedPass<ProgramOp>(
        createSplitColumnSums({options.sumItems, options.sweeps}));
  if (options.epilogues)
    pm.addNestedPass<ProgramOp>(createFuseEpilogues());
  pm.addNestedPass<ProgramOp>(createCutSavedValues({options.savedByte}));
  pm.addNestedPass<ProgramOp>(
      createFormKernels({options.minItems, options.smallWork, options.sweeps}));
  pm.addNestedPass<ProgramOp>(createRecomputeCheapValues());
  pm.addPass(createOutlineKernels());
  pm.addPass(createDeduplicateKernels());
  pm.addPass(createTieInits());
  pm.addNestedPass<ProgramOp>(createTieUpdates());
  if (options.rowAlignment > 0)
    pm.addPass(createPitchRows({options.rowAlignment}));
  pm.addNestedPass<ProgramOp>(createCountFlops());
  pm.addNestedPass<ProgramOp>(createMarkCheckpoints({options.checkpoint}));
  // Units may have settings of their own.
  pm.addPass(createOffloadOptimizer({options.offloadOptimizer}));
  pm.addPass(createOffloadParameters({options.offloadParameters}));
  pm.addNestedPass<ProgramOp>(
      createHoistUpdates({options.optimizerInBackward}));
  pm.addPass(createLayoutState());
}

void fsdp::buildOptimizePipeline(OpPassManager &pm,
                                 const OptimizeOptions &options) {
  OpPassManager &programs = pm.nest<ProgramOp>();
  // The planner wants to know how large things are and which share memory.
  programs.addPass(createPlanArena({/*draft=*/true}));
  PlanStepOptions plan;
  plan.cluster = options.cluster;
  plan.profile = options.profile;
  plan.budget = options.budget;
  plan.reshardAfterForward = options.reshardAfterForward;
  plan.recompute = options.recompute;
  plan.offload = options.offload;
  plan.bucket = options.bucket;
  programs.addPass(createPlanStep(plan));
  programs.addPass(createKeepGathered());
  programs.addPass(createRecomputeActivations());
  programs.addPass(createOffloadActivations());
  programs.addPass(createGroupCollectives());
}

void fsdp::buildRulesPipeline(OpPassManager &pm,
                              const OptimizeOptions &options) {
  OpPassManager &programs = pm.nest<ProgramOp>();
  programs.addPass(createPlanArena({/*draft=*/true}));
  programs.addPass(
      createFollowRules({options.reshardAfterForward, options.recompute}));
  programs.addPass(createKeepGathered());
  programs.addPass(createRecomputeActivations());
}

void fsdp::addChooseReduction(OpPassManager &pm,
                              const SchedulePipelineOptions &options) {
  pm.addPass(createChooseReduction({options.cluster, options.reduction}));
}

static void addReserveMemory(OpPassManager &pm,
                             const SchedulePipelineOptions &options) {
  pm.addPass(createReserveMemory({options.cluster, options.memoryBudget}));
}

void fsdp::buildDraftPipeline(OpPassManager &pm,
                              const SchedulePipelineOptions &options) {
  addChooseReduction(pm, options);
  addReserveMemory(pm, options);
  pm.addNestedPass<ProgramOp>(createPlanArena({/*draft=*/true}));
}

/// Orders programs, by the orders that were found with their plans or as the
/// options say.
static void addOrder(OpPassManager &pm,
                     const SchedulePipelineOptions &options) {
  ScheduleStepOptions schedule;
  schedule.cluster = options.cluster;
  schedule.profile = options.profile;
  schedule.order = options.order;
  schedule.forwardPrefetch = options.forwardPrefetch;
  schedule.backwardPrefetch = options.backwardPrefetch;
  schedule.limitAllGathers = options.limitAllGathers;
  OpPassManager &programs = pm.nest<ProgramOp>();
  programs.addPass(createPlanArena({/*draft=*/true}));
  programs.addPass(createScheduleStep(schedule));
}

/// A place for every value of an ordered program, and what it takes then. The
/// verifier right behind needs no ExtractedStep of its own.
static void addTimedArena(OpPassManager &pm,
                          const SchedulePipelineOptions &options) {
  OpPassManager &programs = pm.nest<ProgramOp>();
  programs.addPass(createPlanArena());
  programs.addPass(createTimeStep({options.cluster, options.profile}));
  if (!options.guard)
    programs.addPass(createVerifySchedule());
}

Stage fsdp::getArenaStage(bool guard) {
  return {kArenaStage, [=](OpPassManager &pm) {
            buildArenaPipeline(pm, guard);
            pm.addNestedPass<ProgramOp>(createVerifySchedule());
          }};
}

SmallVector<Stage>
fsdp::getScheduleStages(const SchedulePipelineOptions &options) {
  SmallVector<Stage> stages;
  if (options.hasPlan())
    stages.push_back({kPlanStage,
                      [&](OpPassManager &pm) {
                        addChooseReduction(pm, options);
                        addReserveMemory(pm, options);
                        buildOptimizePipeline(pm, options);
                      },
                      {{"fsdp-plan-step", true, true},
                       {"fsdp-offload-activations", true, false}}});
  stages.push_back({"schedule",
                    [&](OpPassManager &pm) {
                      if (!options.hasPlan()) {
                        addChooseReduction(pm, options);
                        addReserveMemory(pm, options);
                        buildRulesPipeline(pm, options);
                      }
                      addOrder(pm, options);
                    },
                    {{"fsdp-schedule-step", true, true}}});
  stages.push_back(
      {kArenaStage, [&](OpPassManager &pm) { addTimedArena(pm, options); }});
  if (options.guard) {
    // Borders come on top of what was packed within the budget.
    stages.push_back(getArenaStage(/*guard=*/true));
    stages.back().what = kGuardedArenaStage;
  }
  return stages;
}

void fsdp::buildSchedulePipeline(OpPassManager &pm,
                                 const SchedulePipelineOptions &options) {
  for (const Stage &stage : getScheduleStages(options))
    stage.build(pm);
}

void fsdp::buildCpuKernelPipeline(OpPassManager &pm) {
  pm.addPass(createMatchMatmuls());
  pm.addPass(createEmitAttention());
  // Products that no BLAS takes.
  pm.addPass(createWidenAccumulators());
  pm.addPass(createVectorizeKernels());
  // What is left goes the upstream way.
  pm.addPass(createIsolateKernels());
  OpPassManager &fallback = pm.nest<ModuleOp>();
  fallback.addPass(createBufferizeKernels());
  fallback.addNestedPass<func::FuncOp>(createConvertLinalgToLoopsPass());
  fallback.addPass(createCanonicalizerPass());
  fallback.addPass(createCSEPass());
  pm.addPass(createAdoptKernels());
}

void fsdp::buildArenaPipeline(OpPassManager &pm, bool guard) {
  LayoutStateOptions states;
  states.guard = guard;
  pm.addPass(createLayoutState(states));
  PlanArenaOptions arena;
  arena.guard = guard;
  pm.addNestedPass<ProgramOp>(createPlanArena(arena));
}

void fsdp::buildCudaKernelPipeline(OpPassManager &pm,
                                   const CudaKernelOptions &options) {
  pm.addPass(createMatchMatmuls({options.tf32}));
  if (!options.tuning.empty())
    pm.addPass(createTuneKernels({options.tuning}));
  pm.addPass(createEmitCudaAttention({options.math}));
  // Products that no BLAS takes.
  pm.addPass(createWidenAccumulators());
  EmitCudaKernelsOptions kernels;
  kernels.math = options.math;
  pm.addPass(createEmitCudaKernels(kernels));
  pm.addPass(createIsolateKernels({kCudaTarget.str()}));
  OpPassManager &fallback = pm.nest<ModuleOp>();
  fallback.addPass(createBufferizeKernels());
  // Copies of a destination to itself go.
  fallback.addPass(createCSEPass());
  fallback.addPass(createCanonicalizerPass());
  OpPassManager &functions = fallback.nest<func::FuncOp>();
  functions.addPass(createConvertLinalgToParallelLoopsPass());
  functions.addPass(memref::createFoldMemRefAliasOpsPass());
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createCSEPass());
  functions.addPass(createInterchangeLoops());
  pm.addPass(createAdoptCudaKernels());
}

void fsdp::buildLowerCudaKernelsPipeline(OpPassManager &pm) {
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createLoopInvariantCodeMotionPass());
  pm.addPass(createExpandRandomWords());
  pm.addPass(createExpandMath({/*approximate=*/true}));
  pm.addPass(createConvertDeviceMath());
  pm.addPass(createCSEPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addPass(arith::createArithExpandOpsPass());
  ConvertGpuOpsToNVVMOpsOptions nvvm;
  nvvm.useBarePtrCallConv = true;
  pm.addPass(createConvertGpuOpsToNVVMOps(nvvm));
  pm.addPass(createReconcileUnrealizedCastsPass());
}

void fsdp::buildLowerToLLVMPipeline(OpPassManager &pm, bool expandBf16) {
  buildLowerCudaKernelsPipeline(pm.nest<gpu::GPUModuleOp>());
  OpPassManager &kernels = pm.nest<func::FuncOp>();
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
  kernels.addPass(createLoopInvariantCodeMotionPass());
  kernels.addPass(createExpandRandomWords());
  kernels.addPass(createExpandMath());
  kernels.addPass(createCSEPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addPass(createConvertMathToFuncs());
  // log(1 + x) is no log1p.
  pm.addPass(createConvertMathToLLVMPass({/*approximateLog1p=*/false}));
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createConvertVectorToLLVMPass());
  arith::ArithExpandOpsPassOptions expand;
  expand.includeBf16 = expandBf16;
  pm.addNestedPass<func::FuncOp>(arith::createArithExpandOpsPass(expand));
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  pm.addPass(createConvertIndexToLLVMPass());
  ConvertFuncToLLVMPassOptions func;
  func.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(func));
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createUBToLLVMConversionPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addPass(createDefineKernelEntries());
}

void fsdp::buildLowerPipeline(OpPassManager &pm, const LowerOptions &options) {
  ConvertFSDPToRuntimeOptions convert;
  convert.cpu = options.cpu;
  llvm::append_range(convert.features, options.features);
  convert.cuda = options.cuda;
  pm.addPass(createConvertFSDPToRuntime(convert));
  buildLowerToLLVMPipeline(pm,
                           !llvm::is_contained(convert.features, "avx512bf16"));
}

void fsdp::registerAllPasses() {
  static bool once = [] {
    registerFSDPPasses();
    PassPipelineRegistration<PartitionOptions>(
        "fsdp-logical", "L0 to L1: shards, unshard and reshard, optimizer",
        buildLogicalPipeline);
    PassPipelineRegistration<PartitionOptions>(
        "fsdp-partition", "L0 to L2: a traced step for all ranks of a mesh",
        buildPartitionPipeline);
    PassPipelineRegistration<>("fsdp-collectives",
                               "L1 to L2: collectives on local tensors",
                               buildCollectivesPipeline);
    PassPipelineRegistration<KernelOptions>(
        "fsdp-kernels", "L2: compute ops become kernels and launches",
        buildKernelPipeline);
    PassPipelineRegistration<OptimizeOptions>(
        "fsdp-optimize", "L2: keeps, repeats and groups what pays on a cluster",
        buildOptimizePipeline);
    PassPipelineRegistration<SchedulePipelineOptions>(
        "fsdp-schedule",
        "L2 with kernels' code to L3: budget, plan, order and arena",
        buildSchedulePipeline);
    PassPipelineRegistration<LowerOptions>(
        "fsdp-lower", "L3 to LLVM: runtime calls, manifest and kernels",
        buildLowerPipeline);
    PassPipelineRegistration<>("fsdp-cpu-kernels", "code for kernels on CPUs",
                               buildCpuKernelPipeline);
    PassPipelineRegistration<CudaKernelOptions>(
        "fsdp-cuda-kernels", "code for kernels on CUDA devices",
        buildCudaKernelPipeline);
    PassPipelineRegistration<>(
        "fsdp-lower-cuda-kernels",
        "functions of a gpu.module to the LLVM and NVVM dialects",
        buildLowerCudaKernelsPipeline);
    PassPipelineRegistration<ArenaPipelineOptions>(
        "fsdp-arena", "L2 to L3: a place for every state and value",
        [](OpPassManager &pm, const ArenaPipelineOptions &options) {
          buildArenaPipeline(pm, options.guard);
        });
    PassPipelineRegistration<>(
        "fsdp-lower-to-llvm", "kernels and runtime calls to LLVM",
        [](OpPassManager &pm) { buildLowerToLLVMPipeline(pm); });
    return true;
  }();
  (void)once;
}
