//===- StepPasses.td - Random numbers and loss scales ------*- tablegen -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a traced step has arguments for that are neither state nor batch: passes
// that give them a value.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_STEPPASSES_TD
#define FSDP_PASSES_STEPPASSES_TD

// Included by Passes.td.

def InsertRandom : Pass<"fsdp-insert-random", "::mlir::ModuleOp"> {
  let summary = "Arguments that a traced step draws become fsdp.random (L0)";
}

def ExpandRandom : Pass<"fsdp-expand-random", "::mlir::ModuleOp"> {
  let summary = "Makes arithmetic on each element's number of fsdp.random (L1)";
  let description = [{
    A program that draws gets the scalars `random_seed`, `random_step` and, where
    something is drawn that ranks do not share, `random_rank`; one for
    micro-batches reads its `accumulated`, too. Of these, the site and an element's number
    fsdp.random_word makes the element, in a linalg.generic that fuses as any
    other elementwise op. docs/random.md says how.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def InsertLossScale : Pass<"fsdp-insert-loss-scale", "::mlir::ModuleOp"> {
  let summary = "The argument that scales a traced step's loss becomes fsdp.loss_scale (L0)";
  let description = [{
    Without a scale it becomes the constant 1. A step that has no such argument
    is refused where a scale is asked for: its cotangent is buried in constants.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::arith::ArithDialect"];
  let options = [
    Option<"lossScale", "loss-scale", "std::string", /*default=*/"",
           "as fsdp-scale-loss has it">
  ];
}

def ScaleLoss : Pass<"fsdp-scale-loss", "::mlir::ModuleOp"> {
  let summary = "Multiplies the loss's cotangent, and divides gradients by as much (L1)";
  let description = [{
    fsdp.loss_scale becomes a constant, or a state of all ranks that the programs
    which update return anew: after a gradient norm that is not finite times
    `backoff`, after `interval` finite ones in a row times `growth`, as
    torch.amp.GradScaler. Norm, clipping and update take gradients that are
    multiplied by 1 / scale, in f32 at least (docs/loss-scaling.md).
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
  let options = [
    Option<"lossScale", "loss-scale", "std::string", /*default=*/"",
           "NUMBER, or dynamic:init=S,growth=G,backoff=B,interval=N,min=M">
  ];
}

def AssignReductionHooks
    : Pass<"fsdp-assign-reduction-hooks", "::mlir::ModuleOp"> {
  let summary = "Says by what hook flat parameters are reduced over replicas (L1)";
  let description = [{
    Each flat parameter that is trained and reduced gets the hook as its
    `reduction_hook`, once the hook has said that it can reduce it. One that has
    no replicas is refused, whatever the hook. bf16 and fp16 are the reduce
    type, which fsdp-flatten-parameters writes (docs/reduction-hooks.md).
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
  let options = [
    Option<"hook", "hook", "std::string", /*default=*/"",
           "NAME or NAME:KEY=VALUE,..; no hook where empty">,
    Option<"reduceDtype", "reduce-dtype", "std::string", /*default=*/"",
           "what fsdp-flatten-parameters was given beside it">,
    Option<"lossScale", "loss-scale", "std::string", /*default=*/"",
           "what fsdp-scale-loss is given beside it">,
    Option<"gradientDivideFactor", "gradient-divide-factor", "std::string",
           /*default=*/"", "what fsdp-reduce-gradients was given beside it">
  ];
}

def ApplyReductionHooks
    : Pass<"fsdp-apply-reduction-hooks", "::mlir::ModuleOp"> {
  let summary = "Writes what hooks do for fsdp.reduce_replicas (L2)";
  let description = [{
    Each fsdp.reduce_replicas becomes the ops that the flat parameter's hook
    writes. What a hook keeps becomes states of kind residual, which the programs
    that update share: each reads them and returns them anew, where the module
    skips steps whose gradient norm is not finite, unless it is not.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

#endif // FSDP_PASSES_STEPPASSES_TD
