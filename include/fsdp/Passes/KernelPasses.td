//===- KernelPasses.td - Passes that make kernels ----------*- tablegen -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_KERNELPASSES_TD
#define FSDP_PASSES_KERNELPASSES_TD

// Included by Passes.td.

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

def StackPieces : Pass<"fsdp-stack-pieces", "::mlir::fsdp::ProgramOp"> {
  let summary = "Makes concatenations and insertions of equal pieces elementwise";
  let description = [{
    A concatenation of pieces of one size along a dimension, and insertions of
    such pieces, one after the other, into a constant or an elementwise result,
    become a linalg.generic over the pieces and their elements, which loop
    kernels fuse. Every point loads an element of each piece: so there are at
    most 4 of them, of at most 1024 elements each, counted from the dimension on.
    Slices of an elementwise result are computed of slices of its operands where
    nothing else reads it, and slices of a transpose or broadcast where loops
    alone read it.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect"];
}

def InlineLookups : Pass<"fsdp-inline-lookups", "::mlir::fsdp::ProgramOp"> {
  let summary = "Computes looked up elements where they are looked up";
  let description = [{
    A loop that looks up elements of an elementwise result (tensor.extract)
    computes them of its operands' elements instead, where all lookups of the
    result together take fewer operations than it has elements, and loops alone
    read it: it need not be written for the lookup. Operands that are looked up
    at the loop's own point become operands of the loop.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect"];
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
    depend on no parameter stays as it is; so do products by positions, where
    the program makes angles or exponents of some (PositionProducts.h), and
    everything else: norms, softmax, losses, sums. A value that was widened from
    that type, and moved, is read as it was before. A program that computes a
    product of parameters in that type, or in a narrower one, as it was traced
    is left alone.

    A unit that is gathered in a type of its own (`--unit`) has it for the
    products inside of its module, as locations name it; where they name none,
    that is an error.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect"];
}

def SplitColumnSums : Pass<"fsdp-split-column-sums", "::mlir::fsdp::ProgramOp"> {
  let summary = "Sums chunks of rows, and then their sums, where columns are few";
  let description = [{
    A reduction of at least a million elements, whose neighbours in memory belong
    to different results, is done in two steps where it has fewer than `items`
    results: over chunks of at least 16 rows, as many as make that number, and
    over the chunks. The order of additions becomes a function of the shape.
    With `sweeps` chunks are as small as an eighth, of at least 8 rows, where the
    same rows are reduced as well: fsdp-form-kernels then puts both into one
    kernel.
  }];
  let options = [
    Option<"items", "items", "int64_t", /*default=*/"65536",
           "results of which as many are computed at a time">,
    Option<"sweeps", "sweeps", "bool",
           /*default=*/"getCpuKernelLimits().sweeps",
           "whether a kernel of rows may sum them">
  ];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::arith::ArithDialect"];
}

def FuseEpilogues : Pass<"fsdp-fuse-epilogues", "::mlir::fsdp::ProgramOp"> {
  let summary = "Lets products add biases and residuals";
  let description = [{
    Marks additions to products' results with `fsdp.epilogue`, which
    fsdp-form-kernels, fsdp-outline-kernels and fsdp-match-matmuls take for part
    of the product: of a bias, and of a tensor that is in memory in any case.
    The sum is rounded once. Only libraries with such an epilogue do it: those
    of CUDA devices.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
}

def FormKernels : Pass<"fsdp-form-kernels", "::mlir::fsdp::ProgramOp"> {
  let summary = "Decides which ops of the step become one kernel";
  let description = [{
    Writes the plan attribute `fsdp.kernel` (a number) on every compute op.
    fsdp-outline-kernels applies it. The rules:
    include/fsdp/Analysis/Kernels/KernelFormation.h. How fine kernels may be is
    the target's: the defaults are those of processors.
  }];
  let options = [
    Option<"minItems", "min-items", "int64_t",
           /*default=*/"getCpuKernelLimits().minItems",
           "work items that a kernel is not made smaller than">,
    Option<"smallWork", "small-work", "int64_t",
           /*default=*/"getCpuKernelLimits().smallWork",
           "work below which few items do no harm">,
    Option<"sweeps", "sweeps", "bool",
           /*default=*/"getCpuKernelLimits().sweeps",
           "whether a kernel of rows may sum them">
  ];
}

def RecomputeCheapValues : Pass<"fsdp-recompute-cheap-values", "::mlir::fsdp::ProgramOp"> {
  let summary = "Lets kernels compute what is cheaper to compute than to read";
  let description = [{
    A kernel repeats elementwise ops of other kernels, whose bodies cost less
    than a load, where that moves less memory: a minimal cut between what its
    own ops read and what it cannot compute, over bytes that it reads (and that
    are written for it alone) and operations that it repeats. A kernel of
    backward reads no value of forward that backward did
    not read before (fsdp-cut-saved-values has decided that). A shard that is cast
    to be gathered is cast before each gather. Results do not change.
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

def PitchRows : Pass<"fsdp-pitch-rows", "::mlir::ModuleOp"> {
  let summary = "Lets rows of matrices begin at aligned addresses";
  let description = [{
    A value between launches that a library multiplies or writes, with a leading
    dimension that is no multiple of `alignment` bytes, gets longer rows, of
    which kernels read and write a slice
    (include/fsdp/Analysis/Kernels/PitchedRows.h), unless that makes it larger
    by more than an eighth. All of its kernels are products or loops, none works
    in place on it, and nothing else reads it.
  }];
  let options = [
    Option<"alignment", "alignment", "int64_t", /*default=*/"16",
           "bytes of which rows begin at multiples">
  ];
  let dependentDialects = ["::mlir::tensor::TensorDialect"];
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

    With `tf32` products of f32 may round their factors to TF32 (`fsdp.tf32`),
    where the device that runs them has faster products of those. Processors
    never do.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
  let options = [
    Option<"tf32", "tf32", "bool", /*default=*/"false",
           "let devices round factors of f32 products to TF32">
  ];
}

def EmitAttention : Pass<"fsdp-emit-attention", "::mlir::ModuleOp"> {
  let summary = "Emits the tile functions of attentions";
  let description = [{
    Adds, for each kernel that is an attention, the function that the runtime
    calls between its products, tile by tile (include/fsdp-rt/cpu-attention.h),
    and records it as `fsdp.impl`. Scratch memory is that of a whole work item.
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
    The nested module `@fallback` holds one function `<kernel>_<target>` per
    kernel that is no product and has no code for the target, so that upstream
    passes can bufferize and lower them without touching the step.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"cpu\"",
           "the target, as fsdp.impl names it">
  ];
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
// Kernels: code for CUDA devices
//===----------------------------------------------------------------------===//

def EmitCudaKernels : Pass<"fsdp-emit-cuda-kernels", "::mlir::ModuleOp"> {
  let summary = "Emits code for CUDA devices for loop kernels";
  let description = [{
    Adds a gpu.func to `@cuda_kernels` for each kernel of loop ops, with a thread
    or a block per work item, and records it as `cuda` of `fsdp.impl`. Kernels it
    does not understand are left alone, with a remark that says why. Products
    need no code; they get the workspace that cuBLASLt may use.

    With `math` fast, functions and divisions whose values nothing but a result
    of 16 bits depends on (`findRoundedFunctions`) have `fastmath<afn>`.
  }];
  let options = [
    Option<"productWorkspace", "product-workspace", "int64_t",
           /*default=*/"int64_t(32) << 20",
           "bytes of the arena that cuBLASLt may use for a product">,
    Option<"math", "math", "MathMode", /*default=*/"MathMode::Fast",
           "how functions of results of 16 bits are computed">
  ];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::gpu::GPUDialect",
                           
                           "::mlir::scf::SCFDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::vector::VectorDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def TuneKernels : Pass<"fsdp-tune-kernels", "::mlir::ModuleOp"> {
  let summary = "Gives kernels the shapes that a table says are fast";
  let description = [{
    Writes `fsdp.tuning` on kernel functions for which the file `table`
    (fsdp-tuning/1, docs/cuda.md) has a row: of attentions the rows and columns
    of a tile, of kernels that reduce the threads of a row and of a block of
    columns. fsdp-emit-cuda-attention and fsdp-emit-cuda-kernels apply it. The
    module says whose table it was (`fsdp.tuned_for`).
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect"];
  let options = [Option<"table", "table", "std::string", /*default=*/"",
                        "file of format fsdp-tuning/1">];
}

def EmitCudaAttention : Pass<"fsdp-emit-cuda-attention", "::mlir::ModuleOp"> {
  let summary = "Emits code for CUDA devices for attention";
  let description = [{
    Adds the functions of each fsdp.attention (one) and fsdp.attention_backward
    (one for dq, one for dk and dv) to `@cuda_kernels` and records them as `cuda`
    of `fsdp.impl`: a block per tile of queries, or of keys. Tensor cores compute
    products of bf16 and f16; what is rounded to these types in between are the
    probabilities and the gradients of the scores. With `math` fast, these are
    exponentials of base 2 by the approximate instruction.
  }];
  let options = [
    Option<"math", "math", "MathMode", /*default=*/"MathMode::Fast",
           "how exponentials between products of 16 bits are computed">
  ];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::gpu::GPUDialect",
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::NVVM::NVVMDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::vector::VectorDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def InterchangeLoops
    : Pass<"fsdp-interchange-loops", "::mlir::func::FuncOp"> {
  let summary = "Puts parallel loops around sequential ones";
  let description = [{
    `for i { parallel j { .. } }` becomes `parallel j { for i { .. } }` where no
    iteration j touches what another one writes: a sum over rows of a table, row by
    row, is one per column. What is added up stays in its order.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect"];
}

def AdoptCudaKernels : Pass<"fsdp-adopt-cuda-kernels", "::mlir::ModuleOp"> {
  let summary = "Makes bufferized functions code for CUDA devices";
  let description = [{
    A function of `@fallback` becomes a list of gpu.funcs, which are launched one
    after another: one for each parallel loop, with a thread per point, and one
    for what lies between two, which one block runs. There all threads execute
    what is sequential, points of a parallel loop go round them, and barriers lie
    around what writes. Temporary buffers of one block lie in its shared memory,
    up to 48 KiB; others, and those that several functions use, in the arena's
    workspace, whose address is the last parameter. Ops that were not lowered are
    refused.
  }];
  let dependentDialects = ["::mlir::fsdp::FSDPDialect",
                           "::mlir::gpu::GPUDialect",
                           
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::NVVM::NVVMDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::arith::ArithDialect"];
}

#endif // FSDP_PASSES_KERNELPASSES_TD
