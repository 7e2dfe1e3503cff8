//===- FSDPAttrs.td - Attributes of the fsdp dialect -------*- tablegen -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DIALECT_FSDP_IR_FSDPATTRS_TD
#define FSDP_DIALECT_FSDP_IR_FSDPATTRS_TD

include "fsdp/Dialect/FSDP/IR/FSDPBase.td"

class FSDP_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<FSDP_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def FSDP_Phase : I32EnumAttr<"Phase", "the part of the step that needs a value", [
    I32EnumAttrCase<"forward", 0>,
    I32EnumAttrCase<"backward", 1>
  ]> {
  let cppNamespace = "::mlir::fsdp";
  let genSpecializedAttr = 0;
}
def FSDP_PhaseAttr : EnumAttr<FSDP_Dialect, FSDP_Phase, "phase">;

def FSDP_TransferQueue : I32EnumAttr<"TransferQueue",
    "where transfers run, each in its order", [
    I32EnumAttrCase<"all_gather", 1>,
    I32EnumAttrCase<"reduce", 2>,
    I32EnumAttrCase<"all_reduce", 3>,
    I32EnumAttrCase<"d2h", 4>,
    I32EnumAttrCase<"h2d", 5>
  ]> {
  let cppNamespace = "::mlir::fsdp";
  let genSpecializedAttr = 0;
}
def FSDP_TransferQueueAttr
    : EnumAttr<FSDP_Dialect, FSDP_TransferQueue, "queue">;

def FSDP_Adder : I32EnumAttr<"Adder",
    "who adds up what ranks of CUDA devices contribute", [
    I32EnumAttrCase<"exact", 0>,
    I32EnumAttrCase<"nccl", 1>
  ]> {
  let cppNamespace = "::mlir::fsdp";
  let genSpecializedAttr = 0;
}
def FSDP_AdderAttr : EnumAttr<FSDP_Dialect, FSDP_Adder, "adder">;

def FSDP_StateKind : I32EnumAttr<"StateKind", "what a state is for", [
    I32EnumAttrCase<"parameter", 0>,
    I32EnumAttrCase<"optimizer", 1>,
    I32EnumAttrCase<"accumulator", 2>,
    I32EnumAttrCase<"buffer", 3>,
    I32EnumAttrCase<"gathered", 4>,
    I32EnumAttrCase<"residual", 5>
  ]> {
  let cppNamespace = "::mlir::fsdp";
  let genSpecializedAttr = 0;
}
def FSDP_StateKindAttr : EnumAttr<FSDP_Dialect, FSDP_StateKind, "state_kind">;

def FSDP_HostPart : I32EnumAttr<"HostPart",
    "which states of a flat parameter are in the host's memory", [
    I32EnumAttrCase<"none", 0>,
    I32EnumAttrCase<"parameters", 1>,
    I32EnumAttrCase<"optimizer", 2>,
    I32EnumAttrCase<"all", 3>
  ]> {
  let cppNamespace = "::mlir::fsdp";
  let genSpecializedAttr = 0;
}
def FSDP_HostPartAttr : EnumAttr<FSDP_Dialect, FSDP_HostPart, "host_part">;

def FSDP_ProgramKind : I32EnumAttr<"ProgramKind", "what a program does", [
    I32EnumAttrCase<"train", 0>,
    I32EnumAttrCase<"eval", 1>,
    I32EnumAttrCase<"accumulate", 2>,
    I32EnumAttrCase<"train_accumulated", 3>,
    I32EnumAttrCase<"accumulate_first", 4>
  ]> {
  let cppNamespace = "::mlir::fsdp";
  let genSpecializedAttr = 0;
}
def FSDP_ProgramKindAttr
    : EnumAttr<FSDP_Dialect, FSDP_ProgramKind, "program_kind">;

def FSDP_Order : I32EnumAttr<"Order", "how a program was ordered", [
    I32EnumAttrCase<"scheduled", 0>,
    I32EnumAttrCase<"fsdp", 1>,
    I32EnumAttrCase<"in_order", 2>
  ]> {
  let cppNamespace = "::mlir::fsdp";
  let genSpecializedAttr = 0;
}

// Words of discardable attributes, which stand there as strings.
class FSDP_Words<string name, string summary, list<I32EnumAttrCase> words>
    : I32EnumAttr<name, summary, words> {
  let cppNamespace = "::mlir::fsdp";
  let genSpecializedAttr = 0;
}

def FSDP_Hold : FSDP_Words<"Hold",
    "what keeps a transfer from starting earlier (fsdp.held_by)", [
    I32EnumAttrCase<"Memory", 0, "memory">,
    I32EnumAttrCase<"Limit", 1, "limit">
  ]>;

def FSDP_OptimizerRole : FSDP_Words<"OptimizerRole",
    "what the optimizer knows a value as (role in fsdp.optimizer)", [
    I32EnumAttrCase<"Param", 0, "param">,
    I32EnumAttrCase<"Grad", 1, "grad">,
    I32EnumAttrCase<"State", 2, "state">,
    I32EnumAttrCase<"Scalar", 3, "scalar">
  ]>;

def FSDP_MeshAxisAttr : FSDP_Attr<"MeshAxis", "axis"> {
  let summary = "a named mesh axis and its number of ranks";
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$size);
  let assemblyFormat = "`<` $name `=` $size `>`";
}

def FSDP_MemberAttr : FSDP_Attr<"Member", "member"> {
  let summary = "a parameter inside a flat parameter";
  let description = [{
    `offset` counts elements from the start of the unsharded flat parameter;
    the parameter lies there row-major. `tied` lists further names of the same
    storage, `init` how the values are made when no file gives them (the
    exporter's record, see docs/input-contract.md). `group` names the optimizer's
    group whose scalars its update reads.

    Constraints:
    - member_attr_c1: the type has a static shape and float elements.
    - member_attr_c2: `offset` and the end of the parameter are numbers from 0
      to 2^63 - 1.
    - member_attr_c3: `tied` holds strings.

    ```mlir
    #fsdp.member<"wte.weight", tensor<1024x128xf32> at 0 tied ["lm_head.weight"]>
    ```
  }];
  let parameters = (ins
    "::mlir::StringAttr":$fqn,
    "::mlir::RankedTensorType":$type,
    "int64_t":$offset,
    OptionalParameter<"::mlir::ArrayAttr">:$tied,
    OptionalParameter<"::mlir::Attribute">:$init,
    OptionalParameter<"::mlir::StringAttr">:$group
  );
  let assemblyFormat = [{
    `<` $fqn `,` $type `at` $offset (`tied` $tied^)? (`init` $init^)?
    (`group` $group^)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Elements of the parameter.
    int64_t getNumElements() const { return getType().getNumElements(); }
    /// One past its last element in the flat parameter.
    int64_t getEnd() const { return getOffset() + getNumElements(); }
  }];
}

def FSDP_ArenaAttr : FSDP_Attr<"Arena", "arena"> {
  let summary = "what a program's arena takes";
  let description = [{
    Bytes. The device's arena is five segments, one after the other: `state`,
    which all programs of the module share; `inputs`, the batch and the numbers
    that the caller gives; `communicated`, the lowest bytes that hold all that
    collectives send and receive, except states and inputs; `transient`, what
    lies above; `workspace`, what the launches may write while they run, one
    after another, and where no value lies. `host` is the size of the arena in
    the host's memory. `border` bytes after each buffer belong to nobody
    (--guard). `peak` splits what is in use at the fullest by purpose:
    parameters, optimizer, gathered, gradients, activations, other, workspace; a
    draft, which is not packed, has none.

    Constraints:
    - arena_c1: all sizes are at least 0.
    - arena_c2: the segments are `bytes` together.
    - arena_c3: `peak` has seven parts, which are at most `bytes` together.

    ```mlir
    #fsdp.arena<bytes = 1024, state = 512, inputs = 256, communicated = 0,
                transient = 256, peak = [512, 0, 0, 0, 256, 256, 0]>
    ```
  }];
  let parameters = (ins
    "int64_t":$bytes,
    DefaultValuedParameter<"int64_t", "0">:$state,
    DefaultValuedParameter<"int64_t", "0">:$inputs,
    DefaultValuedParameter<"int64_t", "0">:$communicated,
    DefaultValuedParameter<"int64_t", "0">:$transient,
    DefaultValuedParameter<"int64_t", "0">:$workspace,
    DefaultValuedParameter<"int64_t", "0">:$host,
    DefaultValuedParameter<"int64_t", "0">:$border,
    OptionalParameter<"::mlir::DenseI64ArrayAttr">:$peak);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Where the workspace begins, and where everything else ends.
    int64_t getWorkspaceOffset() const { return getBytes() - getWorkspace(); }
  }];
}

def FSDP_FlopsAttr : FSDP_Attr<"Flops", "flops"> {
  let summary = "the arithmetic of a program's products and attention";
  let description = [{
    Multiplications and additions of one run on one rank, by the type in which
    the device's units do them: of matrix products, convolutions and attention,
    each counted once, however often it is repeated for backward. Types without
    any are not written.

    Constraints:
    - flops_c1: each number is at least 0.

    ```mlir
    #fsdp.flops<f32 = 131072, bf16 = 25165824>
    ```
  }];
  let parameters = (ins
    DefaultValuedParameter<"int64_t", "0">:$f64,
    DefaultValuedParameter<"int64_t", "0">:$f32,
    DefaultValuedParameter<"int64_t", "0">:$bf16,
    DefaultValuedParameter<"int64_t", "0">:$f16,
    DefaultValuedParameter<"int64_t", "0">:$f8);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def FSDP_ScheduleAttr : FSDP_Attr<"Schedule", "schedule"> {
  let summary = "what a program's order costs";
  let description = [{
    Picoseconds by the cost model of the cluster `machine`: `step`, the program
    in its order, and `bound`, a time that no order of it stays below. `limit`
    names the part of the machine that the bound comes from, in the words of
    fsdp-plan. `peak_flops` is the rate, in flops a second, at which the
    machine's units do the program's `flops`; programs without any have none.

    Constraints:
    - schedule_c1: `bound` and `step` are at least 0.
    - schedule_c2: `bound` is at most `step`.
    - schedule_c3: `peak_flops` is at least 0.

    ```mlir
    #fsdp.schedule<order = scheduled, bound = 412000000, step = 413500000,
                   machine = "h100-sxm", limit = "compute",
                   peak_flops = 989400000000000>
    ```
  }];
  let parameters = (ins EnumParameter<FSDP_Order>:$order, "int64_t":$bound,
                        "int64_t":$step,
                        "::mlir::StringAttr":$machine,
                        "::mlir::StringAttr":$limit,
                        DefaultValuedParameter<"int64_t", "0">:$peak_flops);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def FSDP_StepOrderAttr : FSDP_Attr<"StepOrder", "step_order"> {
  let summary = "an order that was found for a program";
  let description = [{
    Stands on a program as `fsdp.order`; fsdp-plan-step writes it,
    fsdp-schedule-step applies it and fsdp-time-step takes it away. It numbers
    what the scheduler tells apart in the program as its plan leaves it:
    segments of the spine, floating ops (casts and updates) and transfers.

    | | |
    |---|---|
    | `line` | the compute queue: N >= 0 is segment N, -1 - N floating op N |
    | `issue` | transfers as they are issued |
    | `place` | of each transfer, how many entries of `line` come before its start |
    | `known` | of each transfer, how many come before its wait |
    | `after` | pairs: a transfer, and another that it comes after beside its data |
    | `causes` | of each transfer, why it does not start earlier: 0 nothing, 1 data, 2 its queue, 3 its link, 4 memory, 5 a limit |

    `makespan` are picoseconds by the cost model, `peak` the bytes of its
    fullest moment, `arena` those of its packed arena.

    Constraints:
    - step_order_c1: `issue`, `place`, `known` and `causes` have as many entries,
      one for each transfer; those of `after` are pairs.
    - step_order_c2: `causes` are numbers from 0 to 5; `makespan`, `peak` and
      `arena` are at least 0.

    ```mlir
    #fsdp.step_order<line = [-1, 0, 1], issue = [0, 1], place = [1, 3],
                     known = [1, 3], after = [], causes = [0, 1],
                     makespan = 412000000, peak = 4096, arena = 8192>
    ```
  }];
  let parameters = (ins
    "::mlir::DenseI32ArrayAttr":$line,
    "::mlir::DenseI32ArrayAttr":$issue,
    "::mlir::DenseI32ArrayAttr":$place,
    "::mlir::DenseI32ArrayAttr":$known,
    "::mlir::DenseI32ArrayAttr":$after,
    "::mlir::DenseI32ArrayAttr":$causes,
    "int64_t":$makespan, "int64_t":$peak, "int64_t":$arena);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def FSDP_CheckpointAttr : FSDP_Attr<"Checkpoint", "checkpoint"> {
  let summary = "the checkpointed module that a launch of forward is part of";
  let description = [{
    Backward computes again what launches of one module made for that module
    alone. `saved`: not this one's results, which are kept.

    ```mlir
    #fsdp.checkpoint<module = "transformer.h.0">
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$module,
                        DefaultValuedParameter<"bool", "false">:$saved);
  let assemblyFormat = "`<` struct(params) `>`";
}

def FSDP_BudgetAttr : FSDP_Attr<"Budget", "budget"> {
  let summary = "the memory of a rank";
  let description = [{
    Stands on a module as `fsdp.budget`. Bytes of the device: what a rank may
    use, and what of it is not for arenas, because driver and libraries take it,
    or kernels beside their operands.

    Constraints:
    - budget_c1: `memory` is at least 1, `reserved` at least 0.

    ```mlir
    #fsdp.budget<memory = 85899345920, reserved = 2147483648>
    ```
  }];
  let parameters = (ins "int64_t":$memory, "int64_t":$reserved);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bytes for an arena; 0 or less where there is room for none.
    int64_t getArenaBytes() const { return getMemory() - getReserved(); }
  }];
}

def FSDP_ReductionAttr : FSDP_Attr<"Reduction", "reduction"> {
  let summary = "how CUDA devices add up over ranks";
  let description = [{
    Stands on a module with code for CUDA devices as `fsdp.reduction`. `by` is
    who adds up: `exact`, the runtime in the tree of abi.def, or `nccl`, NCCL in
    its own order. So many consecutive ranks as `ranks_per_node` says are on a
    node, which add up first (include/fsdp-rt/reductions.h); 0: all ranks are.

    Constraints:
    - reduction_c1: `ranks_per_node` is at least 0.

    ```mlir
    #fsdp.reduction<by = exact, ranks_per_node = 8>
    ```
  }];
  let parameters = (ins EnumParameter<FSDP_Adder>:$by,
                        "int64_t":$ranks_per_node);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def FSDP_CpuKernelAttr : FSDP_Attr<"CpuKernel", "cpu_kernel"> {
  let summary = "a kernel's code for processors";
  let description = [{
    Stands on a kernel as `cpu` of `fsdp.impl`, which has an entry for each
    target that the kernel has code for. The function takes the first and the last
    work item (index), scratch memory of `scratch` bytes, and a memref per
    argument of the kernel; items [0, grid) are independent, and fewer than
    `grain` of them are not worth a thread. `traffic` counts the bytes that all
    items together must read and write at least once.

    Constraints:
    - cpu_kernel_c1: `grain` is at least 1, the other numbers at least 0.
    - cpu_kernel_c2: it stands as `cpu` of `fsdp.impl`, and nothing else does.

    ```mlir
    #fsdp.cpu_kernel<@k0_cpu, grid = 256, grain = 16, scratch = 0, traffic = 8192>
    ```
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$function, "int64_t":$grid,
                        "int64_t":$grain, "int64_t":$scratch,
                        "int64_t":$traffic);
  let assemblyFormat = [{
    `<` $function `,` `grid` `=` $grid `,` `grain` `=` $grain `,`
    `scratch` `=` $scratch `,` `traffic` `=` $traffic `>`
  }];
  let genVerifyDecl = 1;
}

def FSDP_CudaKernelAttr : FSDP_Attr<"CudaKernel", "cuda_kernel"> {
  let summary = "a launch of a function on CUDA devices";
  let description = [{
    `grid` blocks of `block` threads, both in x, run `function`, a gpu.func or
    what became of it; each block has `shared` bytes of dynamic shared memory.

    Constraints:
    - cuda_kernel_c1: `grid` is in [1, 2^31 - 1], `block` in [1, 1024], `shared`
      at least 0.

    ```mlir
    #fsdp.cuda_kernel<@cuda_kernels::@k0, grid = 8, block = 128, shared = 0>
    ```
  }];
  let parameters = (ins "::mlir::SymbolRefAttr":$function, "int64_t":$grid,
                        "int64_t":$block, "int64_t":$shared);
  let assemblyFormat = [{
    `<` $function `,` `grid` `=` $grid `,` `block` `=` $block `,`
    `shared` `=` $shared `>`
  }];
  let genVerifyDecl = 1;
}

def FSDP_CudaCodeAttr : FSDP_Attr<"CudaCode", "cuda_code"> {
  let summary = "a kernel's code for CUDA devices";
  let description = [{
    Stands on a kernel as `cuda` of `fsdp.impl`. Its functions run one after
    another; each takes the addresses of the kernel's arguments. Those of an
    attention take its tensors, its statistics and its captured values instead,
    in the order of fsdp_rt_attention (include/fsdp-rt/abi.def). `traffic` is as
    in #fsdp.cpu_kernel. They keep temporary buffers in `workspace` bytes of the
    arena, whose address is each function's last parameter unless that is 0.

    Constraints:
    - cuda_code_c1: there is at least one function; `traffic` and `workspace` are
      at least 0.
    - cuda_code_c2: it stands as `cuda` of `fsdp.impl`, and nothing else does but
      #fsdp.cuda_product.

    ```mlir
    #fsdp.cuda_code<[#fsdp.cuda_kernel<@cuda_kernels::@k0, grid = 8, block = 128, shared = 0>], traffic = 8192>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"CudaKernelAttr">:$kernels,
                        "int64_t":$traffic,
                        DefaultValuedParameter<"int64_t", "0">:$workspace);
  let assemblyFormat = [{
    `<` `[` $kernels `]` `,` `traffic` `=` $traffic
    (`,` `workspace` `=` $workspace^)? `>`
  }];
  let genVerifyDecl = 1;
}

def FSDP_CudaProductAttr : FSDP_Attr<"CudaProduct", "cuda_product"> {
  let summary = "what a library that multiplies on CUDA devices may use";
  let description = [{
    Stands as `cuda` of `fsdp.impl` on a kernel with `fsdp.matmul`, which has no
    code of its own there: cuBLASLt may use `workspace` bytes of the arena. A
    product without it has no workspace.

    Constraints:
    - cuda_product_c1: `workspace` is at least 0.
    - cuda_product_c2: it stands as `cuda` of `fsdp.impl` on a kernel with
      `fsdp.matmul`.

    ```mlir
    #fsdp.cuda_product<workspace = 33554432>
    ```
  }];
  let parameters = (ins "int64_t":$workspace);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def FSDP_MatmulAttr : FSDP_Attr<"Matmul", "matmul"> {
  let summary = "a kernel that is a product of matrices";
  let description = [{
    Stands on a kernel as `fsdp.matmul`; the fields are those of fsdp_rt_matmul
    in include/fsdp-rt/abi.def, in elements. `a` and `b` are the kernel's
    arguments that are multiplied; the product is its only result. `offsets` are
    those of A, B and C; up to four batch dimensions have an extent and three
    strides each. `bias` and `addend` are the arguments that an epilogue adds,
    the first `n` elements of one to each row, and a matrix that lies as C does;
    -1: none.

    Constraints:
    - matmul_c1: `a`, `b`, `m`, `n` and `k` are at least 0, `bias` and `addend`
      at least -1.
    - matmul_c2: there are three `offsets`, and as many entries in `strideA`,
      `strideB` and `strideC` as in `batch`, which has at most four.
    - matmul_c3: with `accumulate` there are no `bias` and no `addend`.
    - matmul_c4: A and B have one type of f64, f32, bf16 and f16; C has that,
      or f32 where it is bf16 or f16.

    ```mlir
    #fsdp.matmul<a = 0, b = 1, m = 64, n = 32, k = 16, lda = 16, ldb = 32,
                 ldc = 32, transA = false, transB = false, accumulate = false,
                 offsets = [0, 0, 0], batch = [8], strideA = [1024],
                 strideB = [0], strideC = [2048], alpha = 1.0 : f64>
    ```
  }];
  let parameters = (ins
    "int64_t":$a, "int64_t":$b, "int64_t":$m, "int64_t":$n, "int64_t":$k,
    "int64_t":$lda, "int64_t":$ldb, "int64_t":$ldc,
    "bool":$transA, "bool":$transB, "bool":$accumulate,
    "::mlir::DenseI64ArrayAttr":$offsets,
    "::mlir::DenseI64ArrayAttr":$batch,
    "::mlir::DenseI64ArrayAttr":$strideA,
    "::mlir::DenseI64ArrayAttr":$strideB,
    "::mlir::DenseI64ArrayAttr":$strideC,
    "::mlir::FloatAttr":$alpha,
    DefaultValuedParameter<"int64_t", "-1">:$bias,
    DefaultValuedParameter<"int64_t", "-1">:$addend);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def FSDP_AttentionShapeAttr : FSDP_Attr<"AttentionShape", "attention_shape"> {
  let summary = "sizes of an attention";
  let description = [{
    `batch` are its batch dimensions, heads among them, outermost first; `head`
    counts the features of queries and keys, `value` those of values.

    ```mlir
    #fsdp.attention_shape<batch = [2, 4], queries = 32, keys = 48, head = 16, value = 16>
    ```
  }];
  let parameters = (ins "::mlir::DenseI64ArrayAttr":$batch,
                        "int64_t":$queries, "int64_t":$keys, "int64_t":$head,
                        "int64_t":$value);
  let assemblyFormat = "`<` struct(params) `>`";
  let extraClassDeclaration = [{
    /// Products of the batch: heads times sequences.
    int64_t getBatchSize() const;
    /// Rows of the statistics.
    int64_t getRows() const { return getBatchSize() * getQueries(); }
  }];
}

def FSDP_StridedAttr : FSDP_Attr<"Strided", "strided"> {
  let summary = "where the elements of a tensor lie that another shape names";
  let description = [{
    Counts elements of the tensor, row-major: the first one, and the strides of
    each batch dimension, of rows and of columns.

    ```mlir
    #fsdp.strided<64, [6144, 16, 192, 1]>
    ```
  }];
  let parameters = (ins "int64_t":$offset, "::mlir::DenseI64ArrayAttr":$strides);
  let assemblyFormat = "`<` $offset `,` $strides `>`";
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<int64_t> getBatchStrides() const {
      return getStrides().asArrayRef().drop_back(2);
    }
    int64_t getRowStride() const { return getStrides().asArrayRef().drop_back().back(); }
    int64_t getColumnStride() const { return getStrides().asArrayRef().back(); }
  }];
}
def FSDP_StridedArrayAttr
    : TypedArrayAttrBase<FSDP_StridedAttr, "strided views">;

def FSDP_AxesAttr : TypedArrayAttrBase<StrAttr, "mesh axis names">;
def FSDP_MeshAxisArrayAttr
    : TypedArrayAttrBase<FSDP_MeshAxisAttr, "mesh axes, outermost first">;
def FSDP_MemberArrayAttr
    : TypedArrayAttrBase<FSDP_MemberAttr, "members of a flat parameter">;

#endif // FSDP_DIALECT_FSDP_IR_FSDPATTRS_TD
