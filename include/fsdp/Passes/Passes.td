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
    of torch.optim.AdamW or torch.optim.SGD. A module that has an optimizer
    keeps it; giving options for another one is then an error.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
  let options = [
    Option<"optimizer", "optimizer", "std::string", /*default=*/"\"\"",
           "adamw[:lr=,beta1=,beta2=,eps=,weight_decay=] or "
           "sgd[:lr=,momentum=,weight_decay=]; adamw where neither this nor "
           "@optimizer is given">
  ];
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
  }];
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
    first reader of a phase. From here on the function is called `@step`.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect"];
  let options = [
    Option<"mesh", "mesh", "std::string", /*default=*/"\"shard=2\"",
           "ranks per axis: shard=N or shard=N,replicate=M">,
    Option<"strategy", "strategy", "std::string", /*default=*/"\"auto\"",
           "full_shard | shard_grad_op | no_shard | hybrid_shard | "
           "hybrid_shard_zero2 | auto (hybrid_shard where the mesh has a "
           "replicate axis, else full_shard)">,
    Option<"paramDtype", "param-dtype", "std::string", /*default=*/"\"\"",
           "element type parameters are gathered in; as traced where empty">,
    Option<"evalFullPrecision", "eval-full-precision", "bool", /*default=*/"false",
           "evaluations gather parameters in their state type">,
    Option<"reduceDtype", "reduce-dtype", "std::string", /*default=*/"\"\"",
           "element type gradients are reduced in; as traced where empty">,
    Option<"outputDtype", "output-dtype", "std::string", /*default=*/"\"\"",
           "element type of what evaluations return beside their loss; as traced "
           "where empty">,
    Option<"bufferDtype", "buffer-dtype", "std::string", /*default=*/"\"\"",
           "element type to which buffers of wider floats are rounded where they "
           "are read; as traced where empty">,
    ListOption<"ignore", "ignore", "std::string",
               "patterns of parameters and buffers that FSDP leaves alone: whole "
               "on every rank, no casts, gradients not reduced">,
    ListOption<"replicate", "replicate", "std::string",
               "patterns of parameters that are replicated, gradients averaged">
  ];
}

def ReduceGradients : Pass<"fsdp-reduce-gradients", "::mlir::fsdp::ProgramOp"> {
  let summary = "Averages gradients per flat parameter (L1)";
  let description = [{
    Puts one fsdp.reduce_grad behind the last op that computes a gradient of
    each trainable flat parameter. The step then returns sharded gradients.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
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
    in its own type, before anything is rounded. `in` says what they hold:

    | in | an accumulator | what a micro-batch communicates |
    |---|---|---|
    | shard | the rank's piece, reduced over the shard axes | its reduce-scatters; the last one the sum over the replicate axes, too |
    | whole | the rank's whole gradient | nothing; the last one all reductions |

    With `none`, the default, nothing is added.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
  let options = [
    Option<"accumulateIn", "in", "::mlir::fsdp::AccumulateIn",
           /*default=*/"::mlir::fsdp::AccumulateIn::None",
           "what accumulators hold",
           [{::llvm::cl::values(
             clEnumValN(::mlir::fsdp::AccumulateIn::None, "none", "there are none"),
             clEnumValN(::mlir::fsdp::AccumulateIn::Shard, "shard", "a rank's piece"),
             clEnumValN(::mlir::fsdp::AccumulateIn::Whole, "whole", "a rank's whole gradient"))}]>
  ];
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
    sums and an all_reduce, update the optimizer's body. The loss becomes its
    mean over all ranks.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

//===----------------------------------------------------------------------===//
// Kernels: still L2
//===----------------------------------------------------------------------===//

def CheckIndices : Pass<"fsdp-check-indices", "::mlir::fsdp::ProgramOp"> {
  let summary = "Asserts that indices computed from data are in range";
  let description = [{
    An access of an element or a slice of a tensor at an index that is neither
    known to be in range (IndexRanges: loops, bounds of the step's inputs, what
    arithmetic makes of them) nor asserted to be gets an assertion, and 0 for an
    index that is out of range. In scf.for, scf.while and scf.if, whether all were
    in range is carried through these ops to an fsdp.check. An access where
    neither can be, such as in scf.index_switch, is refused.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::cf::ControlFlowDialect"];
  let options = [
    Option<"all", "all", "bool", /*default=*/"false",
           "also where the index is known to be in range, unless it is a "
           "constant, the index of a loop itself, or in a loop or branch">
  ];
}

def HoistChecks : Pass<"fsdp-hoist-checks", "::mlir::fsdp::ProgramOp"> {
  let summary = "Moves assertions out of loops";
  let description = [{
    Exporters guard every lookup with cf.assert inside the loop that does it.
    The condition is computed once, by a loop of its own over what it depends
    on, and handed to fsdp.check; the lookup's index is replaced by 0 where the
    condition fails, so that no order of ops can read out of bounds.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect"];
}

def NormalizeCompute : Pass<"fsdp-normalize-compute", "::mlir::fsdp::ProgramOp"> {
  let summary = "Brings compute ops into the forms that kernels are made of";
  let description = [{
    Named linalg ops that are no contractions, convolutions or poolings, and
    elementwise ops on whole tensors, become linalg.generic; bodies are
    simplified (powers with small exponents, comparisons widened for a constant's
    sake); a scatter into zeros that is added to a tensor accumulates into that
    tensor instead; contractions whose operands no stride can describe read
    copies.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def WidenAccumulators : Pass<"fsdp-widen-accumulators", "::mlir::ModuleOp"> {
  let summary = "Adds up narrow floats in f32";
  let description = [{
    A value of a float type of fewer than 32 bits that an iteration of a loop
    makes from that of the iteration before, by an op that rounds, becomes one
    of f32: it is rounded to its own type once, where it leaves the loop. Loops
    are the reduction loops of structured ops and those of scf; the value is a
    number, or lies in the elements of a tensor. Numbers that are only read to
    be added, such as products, are not rounded either.

    Products that a BLAS takes stay as they are: it adds in f32. So do floats
    that are only compared and moved.

    ```mlir
    %sum = linalg.generic {iterator_types = ["reduction"], ..}
        ins(%x : tensor<4096xbf16>) outs(%zero : tensor<bf16>) {
    ^bb0(%a: bf16, %s: bf16):
      %0 = arith.addf %s, %a : bf16
      linalg.yield %0 : bf16
    } -> tensor<bf16>
    // becomes
    %wide = linalg.generic {iterator_types = ["reduction"], ..}
        ins(%x : tensor<4096xbf16>) outs(%zero_f32 : tensor<f32>) {
    ^bb0(%a: bf16, %s: f32):
      %0 = arith.extf %a : bf16 to f32
      %1 = arith.addf %s, %0 : f32
      linalg.yield %1 : f32
    } -> tensor<f32>
    %sum = linalg.generic .. ins(%wide : tensor<f32>) .. arith.truncf ..
    ```
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect"];
}

def FuseAttention : Pass<"fsdp-fuse-attention", "::mlir::fsdp::ProgramOp"> {
  let summary = "Makes attention one op, forward and backward";
  let description = [{
    Products, softmax and everything elementwise between them become
    fsdp.attention, and what computes their gradients fsdp.attention_backward:
    the matrix of scores is no value of the step any more. A softmax between two
    products that is left as it is gets a remark that says why.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::arith::ArithDialect"];
}

def NarrowProducts : Pass<"fsdp-narrow-products", "::mlir::fsdp::ProgramOp"> {
  let summary = "Computes products in the program's product type (L2)";
  let description = [{
    Rounds the operands of products, convolutions and attention of wider floats
    to the type that `product_type` of the program names, and widens what they
    give; without that attribute nothing is changed. A product of values that
    depend on no parameter stays as it is; so does everything else: norms,
    softmax, losses, sums. A value that was widened from that type, and moved, is
    read as it was before. A program that computes a product of parameters in
    that type, or in a narrower one, as it was traced is left alone.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect"];
}

def FormKernels : Pass<"fsdp-form-kernels", "::mlir::fsdp::ProgramOp"> {
  let summary = "Decides which ops of the step become one kernel";
  let description = [{
    Writes the plan attribute `fsdp.kernel` (a number) on every compute op.
    fsdp-outline-kernels applies it. The rules:
    include/fsdp/Analysis/Kernels/KernelFormation.h.
  }];
}

def RecomputeCheapValues : Pass<"fsdp-recompute-cheap-values", "::mlir::fsdp::ProgramOp"> {
  let summary = "Lets kernels compute what is cheaper to compute than to read";
  let description = [{
    An elementwise op whose result another kernel reads is repeated there, if
    its body costs less than a load and if that moves less memory: the kernel
    reads the op's operands anyway, or instead. A shard that is cast to be
    gathered is cast before each gather. Results do not change; what forward
    keeps for backward shrinks.
  }];
}

def OutlineKernels : Pass<"fsdp-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "Turns kernels into functions and launches";
  let description = [{
    Every set of ops with the same `fsdp.kernel` becomes a private function in
    destination-passing style, with the views, constants and scalars that it
    reads repeated inside, and an fsdp.launch. What is left of the step is a
    straight list of launches, collectives, views and packs.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::bufferization::BufferizationDialect"];
}

def DeduplicateKernels : Pass<"fsdp-deduplicate-kernels", "::mlir::ModuleOp"> {
  let summary = "Merges kernels that are structurally equal";
  let description = [{
    Equal layers launch the same functions: 126 layers cost as much to compile
    as one. Locations and names do not count.
  }];
}

def TieInits : Pass<"fsdp-tie-inits", "::mlir::ModuleOp"> {
  let summary = "Lets kernels that accumulate work in place";
  let description = [{
    A kernel whose result starts as one of its inputs (a scatter into a table, a
    product added to a tensor) takes the destination for that input, and its
    launches are tied to it. Where the input is needed later, the arena plan
    gives the result a place of its own and it is copied there first.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

def TieUpdates : Pass<"fsdp-tie-updates", "::mlir::fsdp::ProgramOp"> {
  let summary = "Lets the optimizer write shards and states in place";
  let description = [{
    A launch whose result replaces an argument of the step (a shard, a state, a
    buffer) is tied to that argument, if nothing reads the old value later and
    the kernel reads each element before it writes it.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

//===----------------------------------------------------------------------===//
// Kernels: code for CPUs
//===----------------------------------------------------------------------===//

def MatchMatmuls : Pass<"fsdp-match-matmuls", "::mlir::ModuleOp"> {
  let summary = "Finds kernels that are one matrix product";
  let description = [{
    Writes `fsdp.matmul` on kernels that a single call of a BLAS can do, with
    transposes, slices and broadcasts as strides. The kernel's body stays as the
    statement of what is computed.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

def EmitAttention : Pass<"fsdp-emit-attention", "::mlir::ModuleOp"> {
  let summary = "Emits the tile functions of attentions";
  let description = [{
    Adds, for each kernel that is an attention, the function that the runtime
    calls between its products, tile by tile (include/fsdp-rt/attention.h), and
    records it as `fsdp.impl`. Scratch memory is that of a whole work item.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::vector::VectorDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def VectorizeKernels : Pass<"fsdp-vectorize-kernels", "::mlir::ModuleOp"> {
  let summary = "Emits vector code for loop kernels";
  let description = [{
    Adds a function of scf loops over vectors for each kernel of loop ops and
    records it as `fsdp.impl`. Kernels it does not understand are left alone,
    with a remark that says why; fsdp-bufferize-kernels takes those.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::vector::VectorDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def IsolateKernels : Pass<"fsdp-isolate-kernels", "::mlir::ModuleOp"> {
  let summary = "Copies kernels that have no code yet into a module of their own";
  let description = [{
    The nested module `@fallback` holds one function `<kernel>_cpu` per kernel
    that neither a BLAS nor the vector emitter can do, so that upstream passes
    can bufferize and lower them without touching the step.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def BufferizeKernels : Pass<"fsdp-bufferize-kernels", "::mlir::ModuleOp"> {
  let summary = "One-shot bufferization of the functions of a module";
  let description = [{
    Tensors become memrefs of identity layout, results are written to the
    destinations, copies become linalg ops (a shipped kernel calls no helper).
    Runs on the nested module that fsdp-isolate-kernels makes.
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::memref::MemRefDialect"];
}

def AdoptKernels : Pass<"fsdp-adopt-kernels", "::mlir::ModuleOp"> {
  let summary = "Makes bufferized functions the code of their kernels";
  let description = [{
    Moves the functions of `@fallback` back, gives their temporary buffers
    places in scratch memory, and records them as `fsdp.impl`. An op that was
    not lowered is refused by name and location.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::arith::ArithDialect"];
}

//===----------------------------------------------------------------------===//
// Optimize: L2 behind the kernels, placed by fsdp-plan-arena
//===----------------------------------------------------------------------===//

def PlanStep : Pass<"fsdp-plan-step", "::mlir::fsdp::ProgramOp"> {
  let summary = "Decides what is kept, computed again and issued together";
  let description = [{
    Writes plan attributes that the next four passes apply. Those that are
    there already stand, and the plan is made around them:

    - `fsdp.keep` on a gather: what the gather of forward brought is kept
      (reshard_after_forward = false, for this unit);
    - `fsdp.recompute = array<i64: ..>` on a launch of forward: these results
      are computed again where backward reads them (activation checkpointing);
    - `fsdp.offload = array<i64: ..>` on a launch of forward: these results are
      in the host's memory between forward and backward;
    - `fsdp.group = N` on collectives: those with one number are issued together.

    Every candidate is scheduled on the cluster and simulated. Where no plan
    fits, the one that needs least is written. Each decision is a remark.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
  let options = [
    Option<"cluster", "cluster", "std::string", /*default=*/"\"\"",
           "cluster file (docs/cluster.md)">,
    Option<"profile", "profile", "std::string", /*default=*/"\"\"",
           "times of the step's kernels, as an executable writes them with "
           "--profile: asked before the cluster">,
    Option<"budget", "budget", "int64_t", /*default=*/"0",
           "bytes for the arena; 0: what the device has">,
    Option<"reshardAfterForward", "reshard-after-forward", "std::string",
           /*default=*/"\"auto\"", "auto, true or false (keep all)">,
    Option<"recompute", "recompute", "std::string", /*default=*/"\"auto\"",
           "auto (where the step does not fit, or something better does "
           "instead), none or full">,
    Option<"offload", "offload", "std::string", /*default=*/"\"auto\"",
           "auto (likewise), none or full">,
    Option<"bucket", "bucket", "std::string", /*default=*/"\"auto\"",
           "auto or none">
  ];
}

def KeepGathered : Pass<"fsdp-keep-gathered", "::mlir::fsdp::ProgramOp"> {
  let summary = "Drops gathers whose bytes are kept (applies fsdp.keep)";
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

def OffloadOptimizer : Pass<"fsdp-offload-optimizer", "::mlir::ModuleOp"> {
  let summary = "Keeps optimizer states in the host's memory between programs";
  let description = [{
    The optimizer states of flat parameters, which have an element for each
    element of one (Adam's exp_avg and exp_avg_sq, the momentum of SGD), become
    states on the host. A program that reads one copies it to the device right
    before the first op that does, and copies its new value back right after the
    op that makes it. Programs that do not update are left alone. States lose
    their places (run fsdp-layout-state after it).

    ```
    before   update(w, grad, m) -> w', m'
    after    reload(m)   update(w, grad, m) -> w', m'   offload(m')
    ```

    Constraints:
    - offload_optimizer_c1: the module has such a state.
    - offload_optimizer_c2: a program returns for one what it computes, or the
      value that it had, and that value for nothing else.
    - offload_optimizer_c3: a launch computes the new value of the old one, so
      that no order of the copies writes over what is yet to be read.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

def HoistUpdates : Pass<"fsdp-hoist-updates", "::mlir::fsdp::ProgramOp"> {
  let summary = "Runs updates beside backward where states are on the host";
  let description = [{
    An update that reloads a state moves up, with the launches, views and
    reloads that it depends on, to before the first reduction after the one that
    brings its gradient: copies of states then run beside backward, rather than
    after it. An update that needs
    all gradients (clipping) or whose parameters are read later stays.

    ```
    before   reduce 1   backward 0   reduce 0   update 1   update 0
    after    reduce 1   backward 0   update 1   reduce 0   update 0
    ```
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

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

def ScheduleStep : Pass<"fsdp-schedule-step", "::mlir::fsdp::ProgramOp"> {
  let summary = "Orders the step and lets transfers run beside computation";
  let description = [{
    Reads the step as a program with the costs of a cluster, decides (order of
    the transfers on their queues, how far ahead gathers run, where casts and
    updates stand), and rewrites it: each collective becomes fsdp.start and
    fsdp.wait. Values stay what they are. The places in the arena, which
    fsdp-plan-arena must have given, tell how large things are; they are taken
    away, because they hold for the old order only.

    `order`: `scheduled` (the best that the scheduler finds), `fsdp` (as FSDP
    prefetches, one unit ahead), `in_order` (each transfer is waited for at
    once).
  }];
  let options = [
    Option<"cluster", "cluster", "std::string", /*default=*/"",
           "the cluster's file (docs/cluster.md)">,
    Option<"profile", "profile", "std::string", /*default=*/"\"\"",
           "times of the step's kernels, as an executable writes them with "
           "--profile: asked before the cluster">,
    Option<"order", "order", "std::string", /*default=*/"\"scheduled\"",
           "scheduled, fsdp or in_order">,
    Option<"budget", "budget", "int64_t", /*default=*/"0",
           "bytes of a rank; 0: what the cluster's device has">,
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
    Option<"backwardPrefetch", "backward-prefetch", "std::string",
           /*default=*/"\"pre\"", "order=fsdp: pre, post or none">,
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
           "bytes that the arena may take; 0: any">
  ];
}

def ConvertFSDPToRuntime : Pass<"convert-fsdp-to-runtime", "::mlir::ModuleOp"> {
  let summary = "Turns the step into calls of the runtime";
  let description = [{
    The step becomes the LLVM function `fsdp_step`, a straight line of calls of
    include/fsdp-rt/abi.def with constant descriptors; the manifest and the
    program's entry are added. Kernels keep their code, the tensor functions
    they were made from go.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
  let options = [
    Option<"manifest", "manifest", "std::string", /*default=*/"\"{}\"",
           "the manifest's text (docs/manifest.md)">
  ];
}

def ExpandMath : Pass<"fsdp-expand-math", "::mlir::func::FuncOp"> {
  let summary = "Replaces math functions by polynomials";
  let description = [{
    Vectors of exp, tanh, erf, log, sin, cos, ... in f32 (and narrower, through
    f32) become arithmetic. What has no polynomial is left to libm.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::vector::VectorDialect"];
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
