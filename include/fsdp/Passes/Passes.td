//===- Passes.td - Passes of fsdp-mlir ---------------------*- tablegen -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In the order of the pipeline. One pass, one file: passes/<Room>/<Name>.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_PASSES_TD
#define FSDP_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// Verify
//===----------------------------------------------------------------------===//

def VerifyInput : Pass<"fsdp-verify-input", "::mlir::ModuleOp"> {
  let summary = "Checks the input contract (L0)";
  let description = [{
    Refuses a module that breaks a rule of docs/input-contract.md, naming the
    argument or the op, and the rule. Changes nothing. A module without
    `@forward_backward` breaks the first rule.
  }];
}

def VerifyLifetimes : Pass<"fsdp-verify-lifetimes", "::mlir::fsdp::ProgramOp"> {
  let summary = "Checks that nothing computed from parameters outlives their reshard (L1)";
  let description = [{
    - lifetimes_c1: no value that is computed from the members of an unshard
      alone is read behind its reshard, except that the step
      may return it. (Such a value would keep the whole
      gathered unit, or a copy of its size, alive.)
    - lifetimes_c2: an unshard of a flat parameter is resharded before the next
      one of the same flat parameter begins.
    - lifetimes_c3: a flat parameter with `keep` is unsharded once.
    - lifetimes_c4: a secondary shard is gathered once.
  }];
}

//===----------------------------------------------------------------------===//
// Partition: L0 -> L1 -> L2
//===----------------------------------------------------------------------===//

def IsolateStep : Pass<"fsdp-isolate-step", "::mlir::ModuleOp"> {
  let summary = "Leaves of a module what the input contract names (L0)";
  let description = [{
    Refuses a module that holds anything but `@forward_backward`, `@optimizer`
    and private functions (input_c16, input_c17, input_c18). Inlines the private
    ones and drops them, and all attributes but those of the contract and those
    that belong to an op: what other dialects say of a module, a function, an
    argument or an op reaches no later pass. A module with neither of the two
    functions stays as it is.
  }];
}

def AddOptimizer : Pass<"fsdp-add-optimizer", "::mlir::ModuleOp"> {
  let summary = "Appends a built-in optimizer where the module has none (L0)";
  let description = [{
    Adds `@optimizer`, written with linalg on flat tensors, with the semantics
    of a class of torch.optim, or Lion (docs/optimizers.md). A module that has
    an optimizer keeps it; giving options for another one is then an error.

    The rate is a scalar that is given for each run, and so are the
    hyper-parameters of `optimizer-scalars`, in f64; others are constants. What
    is computed of the step, not of elements, is computed in f64 and rounded to
    f32 once.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
  let options = [
    Option<"optimizer", "optimizer", "std::string", /*default=*/"\"\"",
           "its name, and hyper-parameters as torch.optim calls them: "
           "adamw[:lr=,beta1=,..]; adamw where neither this nor @optimizer is "
           "given">,
    ListOption<"runTimeScalars", "optimizer-scalars", "std::string",
           "hyper-parameters that are given at run time">,
    ListOption<"group", "group", "std::string",
               "groups of fsdp-assign-groups; the scalars that they name are "
               "given at run time">
  ];
}

def AssignGroups : Pass<"fsdp-assign-groups", "::mlir::ModuleOp"> {
  let summary = "Gives parameters to groups of the optimizer (L0)";
  let description = [{
    Each parameter of which a rule of a group holds gets that group's name, the
    first group's of several (`group` in `fsdp.param`), and @optimizer gets the
    groups' scalars (`fsdp.optimizer_groups`): numbers that the parameters of a
    group read instead of the scalar's own value, such as a weight decay of 0.
    Without options, what the module holds stays; groups of the module become
    those of @optimizer.
  }];
  let options = [
    ListOption<"group", "group", "std::string",
               "NAME=RULE[,RULE..]:SCALAR=NUMBER[,..]; a rule is a pattern of "
               "names or dims<N, dims<=N, dims>N, dims>=N">
  ];
}

include "fsdp/Passes/StepPasses.td"

def BoundRate : Pass<"fsdp-bound-rate", "::mlir::ModuleOp"> {
  let summary = "Keeps an optimizer that divides by the rate finite at 0 (L0)";
  let description = [{
    Where a divisor in `@optimizer` depends on its scalar `lr`, as in
    torch.optim's capturable optimizers, a rate of 0 gives 0 / 0 for elements
    whose moments are 0. There the function computes with a rate of at least
    2^-60. Other optimizers stay as they are. A rate in a type that has no such
    number is warned of.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def LocalizeValues : Pass<"fsdp-localize-values", "::mlir::ModuleOp"> {
  let summary = "Gives every reader its own constants and views of parameters (L0)";
  let description = [{
    Prepares the traced step for partitioning, without changing what it
    computes:

    - ops of the forward pass stand before those of the backward pass;
    - an empty tensor, a fill and a splat constant is made where it is read (a
      splat becomes a fill), so that no buffer is shared by thousands of ops;
    - a view or cast of parameters is repeated before each reader, anything
      else that is computed from parameters alone once per phase: otherwise it
      would be saved from forward to backward and keep its unit gathered. The
      return reads the loss and new buffers in forward, gradients in backward.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect"];
}

def DigestTrace : Pass<"fsdp-digest-trace", "::mlir::ModuleOp"> {
  let summary = "Says which step and optimizer were traced (L0)";
  let description = [{
    Writes `fsdp.traced` on the module: the SHA-256 of the step and of the
    optimizer, as text without locations, and the optimizer's float constants.
    It does not depend on what is decided later (mesh, strategy, units, order).
    A checkpoint carries it, so that going on with another program is said.
    `fsdp.name` beside it is what the manifest will call the module.
  }];
  let options = [
    Option<"name", "name", "std::string", /*default=*/"\"\"",
           "what the manifest calls the module; empty: nothing">
  ];
}

def AssignUnits : Pass<"fsdp-assign-units", "::mlir::ModuleOp"> {
  let summary = "Decides which parameters are gathered together (L0)";
  let description = [{
    Writes the plan attribute `fsdp.unit` (a module's name, "" for the root) on
    every parameter of `@forward_backward`. fsdp-flatten-parameters applies it;
    edited by hand, it is honoured.

    `pieces` are smaller than blocks, for a planner that groups them. `auto` is
    the same here; fsdp-compile and fsdp-plan take the fastest of `blocks`,
    `pieces` and `none` for it.
  }];
  let options = [
    Option<"wrap", "wrap", "std::string", /*default=*/"\"blocks\"",
           "module:CLASS[,CLASS..] | size:N | blocks | pieces | none | auto">
  ];
}

def FlattenParameters : Pass<"fsdp-flatten-parameters", "::mlir::ModuleOp"> {
  let summary = "Replaces parameters by shards of flat parameters (L0 to L1)";
  let description = [{
    Creates the mesh and one flat parameter per unit (several where a unit
    mixes element types, or trainable and frozen parameters). The step takes
    shards instead of parameters, and gathers each flat parameter before its
    first reader of a phase.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect"];
  let options = [
    Option<"mesh", "mesh", "std::string", /*default=*/"\"shard=2\"",
           "ranks per axis: shard=N or shard=N,replicate=M">,
    Option<"strategy", "strategy", "Strategy", /*default=*/"Strategy::Auto",
           "parameters, gradients and optimizer states are sharded:">,
    Option<"paramDtype", "param-dtype", "std::string", /*default=*/"\"\"",
           "element type parameters are gathered in; as traced where empty">,
    Option<"evalFullPrecision", "eval-full-precision", "bool", /*default=*/"false",
           "evaluations gather parameters in their state type">,
    Option<"reduceDtype", "reduce-dtype", "std::string", /*default=*/"\"\"",
           "element type gradients are reduced in; as traced where empty">,
    Option<"outputDtype", "output-dtype", "std::string", /*default=*/"\"\"",
           "element type of what evaluations return beside their loss; or empty">,
    Option<"bufferDtype", "buffer-dtype", "std::string", /*default=*/"\"\"",
           "element type to which buffers of wider floats are rounded; or empty">,
    ListOption<"ignore", "ignore", "std::string",
               "patterns of parameters and buffers that FSDP leaves alone: whole "
               "on every rank, no casts, gradients not reduced">,
    ListOption<"replicate", "replicate", "std::string",
               "patterns of parameters that are replicated, gradients averaged">,
    Option<"reshardAfterBackward", "reshard-after-backward", "bool",
           /*default=*/"true",
           "false: micro-batches but the first find parameters gathered">,
    ListOption<"unit", "unit", "std::string", "{PATTERN:KEY=VALUE,..}: strategy, "
               "types and resharding of units (docs/units.md)">
  ];
}

def ReduceGradients : Pass<"fsdp-reduce-gradients", "::mlir::fsdp::ProgramOp"> {
  let summary = "Averages gradients per flat parameter (L1)";
  let description = [{
    Puts one fsdp.reduce_grad behind the last op that computes a gradient of
    each trainable flat parameter. The step then returns sharded gradients.
    Where the loss is a sum (`fsdp.loss_count`), the count becomes its mean over
    all ranks, in f64, and gradients are divided by it. Else they are means, or
    what `gradient-divide-factor` makes of them: each rank's gradients are
    divided by P and rounded to their own type, and what reduce_grad gives is divided by
    `over` Q / ranks.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect"];
  let options = [
    Option<"gradientDivideFactor", "gradient-divide-factor", "std::string",
           /*default=*/"\"\"",
           "what the sum of the ranks' gradients is divided by, Q or "
           "pre=P,post=Q (P: before it is made); empty: by the ranks">
  ];
}

def InsertReshards : Pass<"fsdp-insert-reshards", "::mlir::fsdp::ProgramOp"> {
  let summary = "Frees gathered parameters behind their last reader (L1)";
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

def AddAccumulation : Pass<"fsdp-add-accumulation", "::mlir::ModuleOp"> {
  let summary = "Derives programs that accumulate gradients (L1)";
  let description = [{
    Adds an accumulator to the states for each flat parameter that is trained,
    and two programs: @accumulate adds the gradients of a micro-batch to them,
    @train_accumulated updates by their sum with those of the last one. Scalars
    of theirs are `accumulated`, the number of micro-batches before (with 0,
    accumulators are not read), and `accumulation_weight`, which divides the sum
    in its own type, before anything is rounded. A loss that is a sum is divided
    by what it is a sum over, of all micro-batches: the scalar
    `accumulated_count` and the last one's. `in` says what they hold:

    | in | an accumulator | what a micro-batch communicates |
    |---|---|---|
    | shard | the rank's piece, reduced over the shard axes | its reduce-scatters; the last one the sum over the replicate axes, too |
    | whole | the rank's whole gradient | nothing; the last one all reductions |

    With `none`, the default, nothing is added.

    Where flat parameters are `persistent`, @accumulate_first, the same as
    @accumulate, runs the first micro-batch and leaves what it gathered of them
    in gathered states, which the other two programs read instead of gathering.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect"];
  let options = [
    Option<"accumulateIn", "in", "AccumulateIn", /*default=*/"AccumulateIn::None",
           "what accumulators hold:">
  ];
}

def CheckLossCount : Pass<"fsdp-check-loss-count", "::mlir::fsdp::ProgramOp"> {
  let summary = "Fails a step whose loss is a sum over nothing (L1)";
  let description = [{
    Asserts, where it is known and before any update, that what gradients are
    divided by is above 0: a step whose ranks and micro-batches have no label
    that counts has no gradient.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::cf::ControlFlowDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ApplyOptimizer : Pass<"fsdp-apply-optimizer", "::mlir::ModuleOp"> {
  let summary = "Updates the shards in the step (L1)";
  let description = [{
    Behind each reduced gradient, or behind the gradient norm where gradients
    are clipped or updates skipped by it, the optimizer is applied to the shard. The step takes the
    optimizer's states and scalars and returns new shards and states instead of
    gradients, and the norm of the whole gradient before clipping; ignored
    parameters' gradients count and are scaled like the others (fsdp.grad_norm).
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
  let options = [
    Option<"clip", "clip", "bool", /*default=*/"false",
           "scale gradients down to the norm given by the scalar clip_norm">,
    Option<"skipNonfinite", "skip-nonfinite", "bool", /*default=*/"false",
           "leave parameters and states as they are where the gradient's norm "
           "is not finite">
  ];
}

def ConvertLogicalToCollectives
    : Pass<"convert-fsdp-logical-to-collectives", "::mlir::ModuleOp"> {
  let summary = "Expands unshard, reduce_grad, grad_norm and update (L1 to L2)";
  let description = [{
    Shards become flat local tensors; unshard becomes a cast and an all_gather,
    reduce_grad a pack, a cast, a reduce_scatter and an all_reduce, grad_norm
    sums and an all_reduce, average an all_reduce, update the optimizer's body.
    The loss becomes its mean over all ranks.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

include "fsdp/Passes/KernelPasses.td"

//===----------------------------------------------------------------------===//
// Optimize: L2 behind the kernels, placed by fsdp-plan-arena
//===----------------------------------------------------------------------===//

def PlanStep : Pass<"fsdp-plan-step", "::mlir::fsdp::ProgramOp"> {
  let summary = "Decides what is kept, computed again, issued together, and when";
  let description = [{
    Writes plan attributes that the next four passes apply. Those that are
    there already stand, and the plan is made around them:

    - `fsdp.keep` on a gather: what the gather of forward brought is kept
      (reshard_after_forward = false, for this unit);
    - `fsdp.recompute = array<i64: ..>` on a launch of forward: these results
      are computed again where backward reads them (activation checkpointing);
    - `fsdp.checkpoint` on launches of forward: what they make for their module
      alone is computed again;
    - `fsdp.offload = array<i64: ..>` on a launch of forward: these results are
      in the host's memory between forward and backward;
    - `fsdp.group = N` on collectives: those with one number are issued together.

    `fsdp.order` on the program is the order of what the plan makes of it, which
    fsdp-schedule-step applies; a program that has one is planned, and is left
    with it.

    Plans are scheduled on the cluster, simulated and packed: the fastest is
    taken whose packed arena fits. Where none does, the error names the least
    budget for which one would. Each decision is a remark.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
  let options = [
    Option<"cluster", "cluster", "std::string", /*default=*/"\"\"",
           "cluster file (docs/cluster.md)">,
    Option<"profile", "profile", "std::string", /*default=*/"\"\"",
           "times of the step's kernels, as an executable writes them with "
           "--profile: asked before the cluster">,
    Option<"budget", "budget", "int64_t", /*default=*/"0",
           "bytes for the arena; 0: what fsdp.budget of the module leaves, else "
           "what the device has">,
    Option<"reshardAfterForward", "reshard-after-forward",
           "sched::PlanRules::Keep", /*default=*/"sched::PlanRules::Keep::Auto",
           "gathered parameters between forward and backward are:">,
    Option<"recompute", "recompute", "sched::PlanRules::Recompute",
           /*default=*/"sched::PlanRules::Recompute::Auto",
           "what backward computes again:">,
    Option<"offload", "offload", "sched::PlanRules::Offload",
           /*default=*/"sched::PlanRules::Offload::Auto",
           "activations that are on the host between forward and backward:">,
    Option<"bucket", "bucket", "sched::PlanRules::Group",
           /*default=*/"sched::PlanRules::Group::Auto",
           "transfers that are issued together:">
  ];
}

def FollowRules : Pass<"fsdp-follow-rules", "::mlir::fsdp::ProgramOp"> {
  let summary = "Decides what rules decide without a cluster";
  let description = [{
    Writes the attributes that fsdp-keep-gathered and fsdp-recompute-activations
    apply, where rules alone say so: `fsdp.keep` on all second gathers
    (`reshard-after-forward=false`), `fsdp.recompute` on all launches that save
    memory (`recompute=full`, block by block), and on what checkpointed modules
    do not keep (`fsdp.checkpoint`, of fsdp-mark-checkpoints). What is there
    already stands; `auto` adds nothing. Each decision is a remark.

    fsdp-plan-step does the same with a cluster, and chooses the rest.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
  let options = [
    Option<"reshardAfterForward", "reshard-after-forward",
           "sched::PlanRules::Keep", /*default=*/"sched::PlanRules::Keep::Auto",
           "gathered parameters between forward and backward are:">,
    Option<"recompute", "recompute", "sched::PlanRules::Recompute",
           /*default=*/"sched::PlanRules::Recompute::Auto",
           "what backward computes again:">
  ];
}

def MarkCheckpoints
    : Pass<"fsdp-mark-checkpoints", "::mlir::fsdp::ProgramOp"> {
  let summary = "Says which launches are of checkpointed modules";
  let description = [{
    Writes `fsdp.checkpoint` on launches of forward, by the modules that their
    locations name: a launch is of a module where all its results are. What these
    launches make for their module alone is computed again in backward
    (fsdp-plan-step, fsdp-follow-rules). With `selective`, results of attentions,
    batched products and, of other products of a block, the first, the third and
    so on are kept.

    `rule` is that of `--checkpoint` (docs/checkpointing.md). Refused are classes
    and names that the model does not have, and programs whose locations name
    nothing.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
  let options = [
    Option<"rule", "rule", "std::string", /*default=*/"\"\"",
           "module:CLASS[,CLASS..], globs of names of modules, every=N, "
           "selective or none; default: what fsdp.modules says was "
           "checkpointed in the trace">
  ];
}

def KeepGathered : Pass<"fsdp-keep-gathered", "::mlir::fsdp::ProgramOp"> {
  let summary = "Drops gathers whose bytes are kept (applies fsdp.keep)";
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

def CountFlops : Pass<"fsdp-count-flops", "::mlir::fsdp::ProgramOp"> {
  let summary = "Counts the arithmetic of products and attention";
  let description = [{
    Writes `flops` of a program whose computation is outlined: what its launches
    of products, convolutions and attention compute, by type. The number is the
    model's: passes that repeat launches for backward leave it as it is. A
    program that launches a kernel without a body has none.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

def CutSavedValues : Pass<"fsdp-cut-saved-values", "::mlir::fsdp::ProgramOp"> {
  let summary = "Lets backward compute cheap values of forward again";
  let description = [{
    Of the values that forward leaves for backward, those are saved that a
    minimal cut needs; elementwise ops after it are repeated before the op of
    backward that reads them first, and once more for readers far after that.
    fsdp-form-kernels makes them part of kernels that read them; what a product
    reads is a kernel of its own then. Rules and prices:
    include/fsdp/Planning/SavedValues.h. The same ops on the same values give the
    same bits.

    Products, attention, reductions, lookups, collectives and everything else
    that is no elementwise op is not repeated, nor is what reads a parameter that
    is in no memory in backward.
  }];
  let options = [
    Option<"savedByte", "saved-byte", "int64_t",
           /*default=*/"getCpuKernelLimits().savedByte",
           "cost of a saved byte, in operations on an element, where one that is "
           "read costs 4: 8 where memory is free">
  ];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

def RecomputeActivations
    : Pass<"fsdp-recompute-activations", "::mlir::fsdp::ProgramOp"> {
  let summary = "Repeats launches for backward (applies fsdp.recompute)";
  let description = [{
    A launch is repeated right before the first op of backward that reads one of
    its marked results, with the launches before it that are marked, too; it
    reads what backward gathers. The same function on the same values gives the
    same bits.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

def OffloadActivations : Pass<"fsdp-offload-activations", "::mlir::fsdp::ProgramOp"> {
  let summary = "Keeps activations on the host (applies fsdp.offload)";
  let description = [{
    A marked result is copied to the host right behind the last op of forward
    that reads it (behind the launch where none does), and back right before the
    first op of backward that does, an op that fsdp-recompute-activations
    repeats there included. All of backward reads the copy.

    Refused are results that backward does not read, that the step returns and
    that lie inside of a pack: none of them would leave the device's memory.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

include "fsdp/Passes/StatePasses.td"

def GroupCollectives : Pass<"fsdp-group-collectives", "::mlir::fsdp::ProgramOp"> {
  let summary = "Brings collectives of a group together (applies fsdp.group)";
  let description = [{
    Gathers move to the first of their group, reductions to the last, and what
    is computed from them behind it. fsdp-schedule-step makes one fsdp.start of
    them.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

//===----------------------------------------------------------------------===//
// Lower
//===----------------------------------------------------------------------===//

def ChooseReduction : Pass<"fsdp-choose-reduction", "::mlir::ModuleOp"> {
  let summary = "Decides who adds up over ranks of CUDA devices";
  let description = [{
    Writes `fsdp.reduction` on a module whose kernels have code for CUDA devices.
    With `reduction=auto` that is `exact`, the runtime's sums with the bits of
    processors, unless sums of all programs, each alone, take more than half as
    long again on the cluster as NCCL's, and NCCL may add up their types: no
    narrow floats but those that `fsdp.reduce_dtype` names. Without a cluster
    nothing is known of times, and all ranks are taken to be on one node.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
  let options = [
    Option<"cluster", "cluster", "std::string", /*default=*/"\"\"",
           "cluster file (docs/cluster.md); empty: none">,
    Option<"reduction", "reduction", "ReductionMode",
           /*default=*/"ReductionMode::Auto", "auto, exact or nccl">
  ];
}

def ReserveMemory : Pass<"fsdp-reserve-memory", "::mlir::ModuleOp"> {
  let summary = "Decides what the arenas of a module may take";
  let description = [{
    Writes `fsdp.budget` on a module with programs: what a rank may use of its
    device, and what of it is reserved, by the cluster file for driver and
    libraries, or for what one thread takes with the kernels whose code the
    module has (their scratch memory, and the workspace of products), if that is
    more. The passes that plan, order and verify programs read it.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
  let options = [
    Option<"cluster", "cluster", "std::string", /*default=*/"\"\"",
           "cluster file (docs/cluster.md)">,
    Option<"memoryBudget", "memory-budget", "int64_t", /*default=*/"0",
           "bytes that a rank may use; 0: what the device has">
  ];
}

def ScheduleStep : Pass<"fsdp-schedule-step", "::mlir::fsdp::ProgramOp"> {
  let summary = "Orders the step and lets transfers run beside computation";
  let description = [{
    Reads the step as a program with the costs of a cluster, decides (order of
    the transfers on their queues, how far ahead gathers run, where casts and
    updates stand), and rewrites it: each collective becomes fsdp.start and
    fsdp.wait. Values stay what they are. The places in the arena, which
    fsdp-plan-arena must have given, tell how large things are; they are taken
    away, because they hold for the old order only.

    `order`: `scheduled` (the `fsdp.order` that the program has, which is
    refused where it is another program's; without one the best that the
    scheduler finds), `fsdp` (as FSDP prefetches, one unit ahead), `in_order`
    (each transfer is waited for at once).
  }];
  let options = [
    Option<"cluster", "cluster", "std::string", /*default=*/"",
           "the cluster's file (docs/cluster.md)">,
    Option<"profile", "profile", "std::string", /*default=*/"\"\"",
           "times of the step's kernels, as an executable writes them with "
           "--profile: asked before the cluster">,
    Option<"order", "order", "Order", /*default=*/"Order::scheduled",
           "the order in which the step runs:">,
    Option<"budget", "budget", "int64_t", /*default=*/"0",
           "bytes of a rank; 0: what fsdp.budget of the module leaves, else what "
           "the cluster's device has">,
    Option<"shrink", "shrink", "bool", /*default=*/"false",
           "where the budget is too small, use as little as possible instead of "
           "failing">,
    Option<"room", "room", "int64_t", /*default=*/"0",
           "order=scheduled: bytes to leave free wherever the step can do "
           "without them, for the gaps of its arena">,
    Option<"available", "available", "int64_t", /*default=*/"0",
           "bytes that the bound counts on, where the budget leaves some for "
           "the gaps of the arena; 0: the budget">,
    Option<"forwardPrefetch", "forward-prefetch", "bool", /*default=*/"true",
           "order=fsdp: gather the next unit of forward while one computes">,
    Option<"backwardPrefetch", "backward-prefetch", "sched::BackwardPrefetch",
           /*default=*/"sched::BackwardPrefetch::Pre",
           "order=fsdp: backward gathers the next unit:">,
    Option<"limitAllGathers", "limit-all-gathers", "bool", /*default=*/"true",
           "order=fsdp: at most two units are gathered at once">
  ];
}

def LayoutState : Pass<"fsdp-layout-state", "::mlir::ModuleOp"> {
  let summary = "gives every fsdp.state its place in the arena";
  let description = [{
    One place for all programs: from the arena's start, large states first,
    each at a multiple of 256 bytes. Runs at L2, where types are local.

    - layout_state_c1: no two states have kind, name and flat parameter in
      common: checkpoints tell states apart by them.
    - layout_state_c2: in a module with programs, one of them reads or writes
      it.
  }];
  let options = [
    Option<"guard", "guard", "bool", "false",
           "bytes behind each state that belong to nobody">
  ];
}

def PlanArena : Pass<"fsdp-plan-arena", "::mlir::fsdp::ProgramOp"> {
  let summary = "Gives every value of the step a place in the rank's arena";
  let description = [{
    Writes `fsdp.offset` (bytes) on the arguments of the step, `fsdp.offsets` on
    its ops and `arena` on the step. convert-fsdp-to-runtime applies it: it
    copies where the plan gives two places to what must be one.
  }];
  let options = [
    Option<"draft", "draft", "bool", /*default=*/"false",
           "do not pack, put one buffer behind the other: for passes that read "
           "sizes and what shares memory">,
    Option<"guard", "guard", "bool", /*default=*/"false",
           "leave 256 bytes free behind every buffer; then "
           "convert-fsdp-to-runtime has lives and borders checked at run time">
  ];
}

def TimeStep : Pass<"fsdp-time-step", "::mlir::fsdp::ProgramOp"> {
  let summary = "Says what a placed step takes, and refuses what does not fit";
  let description = [{
    Reads a program behind fsdp-schedule-step and fsdp-plan-arena. Its time by
    the cost model becomes `step` of its schedule: packing adds copies, of what
    could not be computed in its place. An arena that exceeds `fsdp.budget` of
    the module is refused with the budget that it would need, one that is not
    what `fsdp.order` promises as an internal error; then `fsdp.order` has
    served. A program without a schedule is left alone.
  }];
  let options = [
    Option<"cluster", "cluster", "std::string", /*default=*/"\"\"",
           "cluster file (docs/cluster.md)">,
    Option<"profile", "profile", "std::string", /*default=*/"\"\"",
           "times of the step's kernels, as an executable writes them with "
           "--profile: asked before the cluster">
  ];
}

def VerifySchedule : Pass<"fsdp-verify-schedule", "::mlir::fsdp::ProgramOp"> {
  let summary = "Checks that a placed step is right at whatever speed ops run";
  let description = [{
    Reads the step as it will run, with the places in the arena, and refuses
    accesses that no event orders, reads of bytes that hold another value,
    access outside of the arena, results over operands that they are not tied
    to, and transfers that are not waited for exactly once; collectives that
    join the wrong ranks; and an arena that is not what its summary says, or
    exceeds the budget. It shares no code with what ordered the step and packed
    its arena; what a step's ops read and write is extracted once, for all.
  }];
  let options = [
    Option<"budget", "budget", "int64_t", /*default=*/"0",
           "bytes that the arena may take; 0: what fsdp.budget of the module "
           "leaves, unless the arena has borders, else any">
  ];
}

def ConvertFSDPToRuntime : Pass<"convert-fsdp-to-runtime", "::mlir::ModuleOp"> {
  let summary = "Turns the step into calls of the runtime";
  let description = [{
    Each program becomes an LLVM function, a straight line of calls of
    include/fsdp-rt/abi.def with constant descriptors; the manifest and the
    artifact's entry are added. Kernels keep their code, the tensor functions
    they were made from go.

    With `cpu` or `cuda`, the manifest is written from the module alone: its name
    (`fsdp.name`), states, arenas, orders, budget and certificates. Launches get
    the code of its targets.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
  let options = [
    Option<"manifest", "manifest", "std::string", /*default=*/"\"\"",
           "the manifest's text (docs/manifest.md); {} where neither this nor a "
           "target is given">,
    Option<"cpu", "cpu", "std::string", /*default=*/"\"\"",
           "write the manifest for code for this processor">,
    ListOption<"features", "features", "std::string",
               "with cpu: processor features that the code needs, in LLVM's "
               "words">,
    Option<"cuda", "cuda", "std::string", /*default=*/"\"\"",
           "write the manifest for code for CUDA devices from this one on, as "
           "sm_80">
  ];
}

def ExpandRandomWords : Pass<"fsdp-expand-random-words"> {
  let summary = "Replaces fsdp.random_word by the rounds of Philox4x32-10";
  let description = [{
    Words of one block in one place have their rounds in common after CSE.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def ExpandMath : Pass<"fsdp-expand-math"> {
  let summary = "Replaces math functions by arithmetic";
  let description = [{
    Vectors and scalars of exp, log, sin, pow, erf, ... in f32 become arithmetic
    that is at most 2 units in the last place off for every argument, expm1 and
    erfc in f64, too. Narrower floats are computed in f32 and rounded once. What
    is left, of f64, is libm's or libclc's. No op has fast-math flags, and each
    element of a vector gets the bits that a scalar gets.

    With `approximate`, functions with `fastmath<afn>` become fewer ops, of which
    exp2 and divisions have that flag and are the device's approximate
    instructions (fsdp-convert-device-math).
  }];
  let options = [
    Option<"approximate", "approximate", "bool", /*default=*/"false",
           "heed fastmath<afn>">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect"];
}

def ConvertDeviceMath
    : Pass<"fsdp-convert-device-math", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Turns math functions into intrinsics and calls of libclc";
  let description = [{
    What NVPTX has as an instruction that rounds as IEEE 754 says (square root,
    floor, fma, ...) becomes an intrinsic, other functions of f32 and f64 calls
    of OpenCL's, which Target::serializeKernels links from libclc; absolute
    values and powers of integers become arithmetic. Maxima and minima of f32
    are one instruction each, exp2 and divisions with `fastmath<afn>` the
    approximate ones. Runs before convert-gpu-to-nvvm, which would call CUDA's
    libdevice.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect"];
}

def DefineKernelEntries : Pass<"fsdp-define-kernel-entries", "::mlir::ModuleOp"> {
  let summary = "Gives kernels the signature that the runtime calls";
  let description = [{
    Defines each `<kernel>_entry(operands, scratch, begin, end)`, which loads the
    operands' addresses and calls the kernel's code. Runs when that has become
    an LLVM function.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // FSDP_PASSES_PASSES_TD
