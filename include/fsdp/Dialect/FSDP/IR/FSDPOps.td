//===- FSDPOps.td - Operations of the fsdp dialect ---------*- tablegen -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Labels such as mesh_c1 name the constraints of docs/spec.md. What a type, an
// attribute or a trait already expresses carries its label there, behind //.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DIALECT_FSDP_IR_FSDPOPS_TD
#define FSDP_DIALECT_FSDP_IR_FSDPOPS_TD

include "fsdp/Dialect/FSDP/IR/FSDPAttrs.td"
include "fsdp/Dialect/FSDP/IR/FSDPBase.td"
include "fsdp/Dialect/FSDP/IR/FSDPInterfaces.td"
include "fsdp/Dialect/FSDP/IR/FSDPTypes.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"

class FSDP_Op<string mnemonic, list<Trait> traits = []>
    : Op<FSDP_Dialect, mnemonic, traits>;

// Result types that a level speaks of.
// - scalar_tensor_c1: rank 0, a float element.
def FSDP_ScalarTensor : 0DTensorOf<[AnyFloat]>; // scalar_tensor_c1
// - count_tensor_c1: how many a loss is a sum over, in f64, which holds whole
// numbers up to 2^53.
def FSDP_CountTensor // count_tensor_c1
    : Type<0DTensorOf<[F64]>.predicate, "a count of type tensor<f64>",
           "::mlir::RankedTensorType">,
      BuildableType<
          "::mlir::RankedTensorType::get({}, $_builder.getF64Type())">;
// - local_tensor_c1: static shape, float or signless integer elements.
def FSDP_LocalTensor
    : StaticShapeTensorOf<[AnyFloat, AnySignlessInteger]>; // local_tensor_c1
// What can be added up: no booleans.
def FSDP_NumberTensor : StaticShapeTensorOf<[AnyFloat, I8, I16, I32, I64]>;
// - flat_tensor_c1: a local tensor of one dimension.
def FSDP_FlatTensor // flat_tensor_c1
    : Type<And<[FSDP_LocalTensor.predicate,
                CPred<"::llvm::cast<::mlir::RankedTensorType>($_self).getRank() == 1">]>,
           "flat tensor (one static dimension)", "::mlir::RankedTensorType">;

def FSDP_DivisorAttr
    : DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">;

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

def FSDP_MeshOp : FSDP_Op<"mesh", [
    Symbol, HasParent<"::mlir::ModuleOp">]> { // mesh_c3
  let summary = "the ranks of a program, as a grid with named axes";
  let description = [{
    Axes stand outermost first: with `replicate = R, shard = S` a rank is
    `replicate index * S + shard index`.

    ```
    replicate 0   | 0 | 1 | 2 | 3 |      --> shard
    replicate 1   | 4 | 5 | 6 | 7 |
    ```

    Constraints:
    - mesh_c1: every axis has a name of its own, which is not empty.
    - mesh_c2: every axis has at least one rank, and all axes together at most
      2^31 - 1 ranks.
    - mesh_c3: the op stands at the top of a module.

    Example:
    ```mlir
    fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 4>]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FSDP_MeshAxisArrayAttr:$axes);
  let assemblyFormat = "$sym_name $axes attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Ranks along `axis`; nullopt where the mesh has no such axis.
    std::optional<int64_t> getAxisSize(::llvm::StringRef axis);
    /// Ranks that differ only in `axes`, all of which must exist.
    int64_t getGroupSize(::mlir::ArrayAttr axes);
    /// Ranks of the whole mesh.
    int64_t getWorldSize();
    /// `axes`, all of which must exist, in the mesh's order.
    ::mlir::ArrayAttr sortAxes(::mlir::ArrayAttr axes);
  }];
}

def FSDP_FlatParamOp : FSDP_Op<"flat_param", [
    Symbol, HasParent<"::mlir::ModuleOp">, // flat_param_c7
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "parameters that are sharded, gathered and reduced together";
  let description = [{
    The layout of one flat parameter of a unit: members in traversal order, laid
    out row-major in one line of `numel` elements. What no member covers is
    padding: zero, and never observable. The line is cut into equal pieces for
    the ranks of `shard`; ranks that differ in `replicate` axes hold the same.

    ```
    whole    | ln.weight | ln.bias | ... attn.weight ... | padding |
    shards   | rank 0          | rank 1          | rank 2          |
    ```

    The pieces lie in the order of `shard`'s axes, the first of which is the
    outermost. Where some of them are `secondary`, those come first: the pieces
    of ranks that agree in them are neighbours, and together a secondary shard.
    Forward gathers it, and backward the whole of secondary shards, among the
    ranks that differ in these axes alone (ZeRO++'s hpZ). With
    `shard ["inner", "outer"] secondary ["inner"]` on a mesh of outer = 2,
    inner = 2:

    ```
    whole        | a         | b         | c         | d         |
    shards       | rank 0    | rank 2    | rank 1    | rank 3    |
    secondary    | ranks 0 and 2         | ranks 1 and 3         |
    ```

    The state is kept in `element_type`, gathered in `param_type` and its
    gradient reduced in `reduce_type`. Where `keep` is set, the gather of the
    forward pass serves the backward pass too; where `persistent` is set, that of
    a step's first micro-batch serves the others too, and the gathered flat
    parameter is a state (kind gathered). `offload` says which of its states are
    in the host's memory, whatever the step's others are. A unit whose parameters
    are frozen has no `trainable`.
    `reduction_hook` names what makes the mean over
    the replicas, NAME or NAME:KEY=VALUE,.. (docs/reduction-hooks.md); without it
    an all_reduce does.

    Constraints:
    - flat_param_c1: `mesh` is a mesh of the module.
    - flat_param_c2: every axis of `shard` and `replicate` is an axis of the
      mesh, in the mesh's order, but for `secondary` ones, which come first, in
      the mesh's order; and in one of the two at most once.
    - flat_param_c3: members have one element type, stand in increasing order
      and do not overlap.
    - flat_param_c4: no two members carry the same name, tied names included.
    - flat_param_c5: `numel` reaches past the last member and is a multiple of
      the number of ranks of `shard`.
    - flat_param_c6: there is at least one member.
    - flat_param_c7: the op stands at the top of a module.
    - flat_param_c8: `element_type`, `param_type` and `reduce_type` are floats.
    - flat_param_c9: no other flat parameter of the module has a member of the
      same name, tied names included.
    - flat_param_c10: where `persistent` is set, `keep` is, too, and there are
      shard axes.
    - flat_param_c11: `reduction_hook` stands on a trainable flat parameter with
      more than one replica.
    - flat_param_c12: `secondary` axes are some of `shard`, not all, and there
      is no `keep` beside them.

    Example:
    ```mlir
    fsdp.flat_param @h0 on @mesh shard ["shard"] replicate ["replicate"]
        state f32 gather bf16 reduce f32 numel 1536 [
          <"h.0.weight", tensor<32x32xf32> at 0>,
          <"h.0.bias", tensor<32xf32> at 1024>
        ] {trainable, unit = "h.0"}
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    FlatSymbolRefAttr:$mesh,
    FSDP_AxesAttr:$shard_axes,
    OptionalAttr<FSDP_AxesAttr>:$secondary_axes,
    FSDP_AxesAttr:$replicate_axes,
    TypeAttrOf<AnyFloat>:$element_type, // flat_param_c8
    TypeAttrOf<AnyFloat>:$param_type,   // flat_param_c8
    TypeAttrOf<AnyFloat>:$reduce_type,  // flat_param_c8
    ConfinedAttr<I64Attr, [IntPositive]>:$numel,
    FSDP_MemberArrayAttr:$members,
    StrAttr:$unit,
    UnitAttr:$trainable,
    UnitAttr:$keep,
    UnitAttr:$persistent,
    OptionalAttr<FSDP_HostPartAttr>:$offload,
    OptionalAttr<StrAttr>:$reduction_hook
  );
  let assemblyFormat = [{
    $sym_name `on` $mesh `shard` $shard_axes (`secondary` $secondary_axes^)?
    `replicate` $replicate_axes `state` $element_type `gather` $param_type `reduce` $reduce_type
    `numel` $numel custom<Members>($members) attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The member of that name (not a tied one); null where there is none.
    MemberAttr lookupMember(::llvm::StringRef fqn);
    /// Members, typed.
    auto getMemberRange() { return getMembers().getAsRange<MemberAttr>(); }
    /// Whether each rank has values of its own, neither pieces nor copies of one
    /// whole: ignored parameters.
    bool isRankOwn() {
      return getShardAxes().empty() && getReplicateAxes().empty();
    }
    /// Whether each reduction of a gradient divides by its own ranks. The mean
    /// is divided once, in the last, where nobody reads what is between: not
    /// before a hook. In f16 a sum that waits for that may overflow.
    bool dividesEachReduction() {
      return getReductionHookAttr() || getReduceType().isF16();
    }
    /// Elements that one rank holds: numel / ranks of the shard axes.
    int64_t getShardNumel(MeshOp mesh);
    /// Elements of a secondary shard, which the flat parameter must have.
    int64_t getSecondaryNumel(MeshOp mesh);
    /// The shard axes that are not secondary: all, where there is no such one.
    ::mlir::ArrayAttr getPrimaryAxes();
    /// Members one after another that are of one group of the optimizer; null:
    /// of none. `begin` is where the first of them begins, 0 for the first run:
    /// padding belongs to the run before it.
    struct Run {
      ::mlir::StringAttr group;
      int64_t begin;
    };
    ::llvm::SmallVector<Run> getRuns();
    ShardedType getShardedType(::mlir::Type elementType);
    SecondaryType getSecondaryType(::mlir::Type elementType);
    UnshardedType getUnshardedType(::mlir::Type elementType);
  }];
}

include "fsdp/Dialect/FSDP/IR/FSDPLogicalOps.td"

//===----------------------------------------------------------------------===//
// L2: collectives on local tensors
//===----------------------------------------------------------------------===//

// A value until it has a place in the arena (fsdp.offsets): then where it stands
// decides what its place holds meanwhile, so it has an effect on IssueOrder and
// no upstream pass merges, moves or drops it.
defvar placedEffects = [{
  void $cppClass::getEffects(
      ::llvm::SmallVectorImpl<::mlir::MemoryEffects::EffectInstance> &effects) {
    ::mlir::fsdp::addEffectsIfPlaced(*this, effects);
  }
}];
class FSDP_PlacedOp<string mnemonic, list<Trait> traits = []>
    : FSDP_Op<mnemonic, traits # [
        DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let extraClassDefinition = placedEffects;
}

// A row of include/fsdp-rt/transfers.def: `kind` is its Name.
class FSDP_TransferOp<string mnemonic, string kind, list<Trait> traits = []>
    : FSDP_PlacedOp<mnemonic, traits # [
        DeclareOpInterfaceMethods<FSDP_TransferOpInterface>]> {
  let extraClassDefinition = placedEffects # [{
    ::mlir::fsdp::TransferKind $cppClass::getKind() {
      return ::mlir::fsdp::TransferKind::}] # kind # [{;
    }
  }];
}

class FSDP_CollectiveOp<string mnemonic, string kind, list<Trait> traits = []>
    : FSDP_TransferOp<mnemonic, kind, traits # [
        DeclareOpInterfaceMethods<SymbolUserOpInterface>,
        DeclareOpInterfaceMethods<FSDP_CollectiveOpInterface>]> {
  let hasCanonicalizer = 1;
}

def FSDP_AllGatherOp : FSDP_CollectiveOp<"all_gather", "AllGather"> {
  let summary = "concatenates the tensors of all ranks of a group";
  let description = [{
    Along the first dimension, in the order of ranks. `phase` keeps
    two gathers of one shard apart, as on fsdp.unshard.

    ```
    before   rank 0 | a |      rank 1 | b |      rank 2 | c |
    after    rank 0 | a b c |  rank 1 | a b c |  rank 2 | a b c |
    ```

    Constraints:
    - all_gather_c1: `mesh` is a mesh of the module.
    - all_gather_c2: `axes` are axes of the mesh, in its order, none twice.
    - all_gather_c3: the result's first dimension is the input's times the
      group's ranks; the other dimensions and the element type are equal.

    Example:
    ```mlir
    %w = fsdp.all_gather %shard on @mesh["shard"] for forward : tensor<384xf32> -> tensor<1536xf32>
    ```
  }];
  let arguments = (ins FSDP_LocalTensor:$input, FlatSymbolRefAttr:$mesh,
                       FSDP_AxesAttr:$axes, OptionalAttr<FSDP_PhaseAttr>:$phase);
  let results = (outs FSDP_LocalTensor:$result);
  let assemblyFormat = [{
    $input `on` $mesh `` $axes (`for` `` $phase^)? attr-dict
    `:` type($input) `->` type($result)
  }];
}

def FSDP_ReduceScatterOp : FSDP_CollectiveOp<"reduce_scatter", "ReduceScatter"> {
  let summary = "sums over a group; each rank keeps its part";
  let description = [{
    The sum is divided by `divisor` at the end: the mean over N ranks has
    divisor N, wherever in a chain of reductions it stands.

    ```
    before   rank 0 | a0 b0 |      rank 1 | a1 b1 |
    after    rank 0 | a0 + a1 |    rank 1 | b0 + b1 |
    ```

    Constraints:
    - reduce_scatter_c1: `mesh` is a mesh of the module.
    - reduce_scatter_c2: `axes` are axes of the mesh, in its order, none twice.
    - reduce_scatter_c3: the input's first dimension is the result's times the
      group's ranks; the other dimensions and the element type are equal.
    - reduce_scatter_c4: the divisor is positive.
    - reduce_scatter_c5: elements are numbers, not booleans.

    Example:
    ```mlir
    %g = fsdp.reduce_scatter %grads on @mesh["shard"] divisor 4 : tensor<1536xf32> -> tensor<384xf32>
    ```
  }];
  let arguments = (ins FSDP_NumberTensor:$input, // reduce_scatter_c5
                       FlatSymbolRefAttr:$mesh, FSDP_AxesAttr:$axes,
                       FSDP_DivisorAttr:$divisor); // reduce_scatter_c4
  let results = (outs FSDP_LocalTensor:$result);
  let assemblyFormat = [{
    $input `on` $mesh `` $axes (`divisor` $divisor^)? attr-dict
    `:` type($input) `->` type($result)
  }];
}

def FSDP_AllReduceOp : FSDP_CollectiveOp<"all_reduce", "AllReduce", [
    SameOperandsAndResultType]> { // all_reduce_c3
  let summary = "sums over a group; every rank keeps the whole";
  let description = [{
    The sum is divided by `divisor` at the end.

    ```
    before   rank 0 | a0 |         rank 1 | a1 |
    after    rank 0 | a0 + a1 |    rank 1 | a0 + a1 |
    ```

    Constraints:
    - all_reduce_c1: `mesh` is a mesh of the module.
    - all_reduce_c2: `axes` are axes of the mesh, in its order, none twice.
    - all_reduce_c3: input and result have the same type.
    - all_reduce_c4: the divisor is positive.
    - all_reduce_c5: elements are numbers, not booleans.

    Example:
    ```mlir
    %m = fsdp.all_reduce %loss on @mesh["replicate", "shard"] divisor 8 : tensor<f32>
    ```
  }];
  let arguments = (ins FSDP_NumberTensor:$input, // all_reduce_c5
                       FlatSymbolRefAttr:$mesh, FSDP_AxesAttr:$axes,
                       FSDP_DivisorAttr:$divisor); // all_reduce_c4
  let results = (outs FSDP_LocalTensor:$result);
  let assemblyFormat = [{
    $input `on` $mesh `` $axes (`divisor` $divisor^)? attr-dict `:` type($input)
  }];
}

def FSDP_AllToAllOp : FSDP_CollectiveOp<"all_to_all", "AllToAll", [
    SameOperandsAndResultType]> { // all_to_all_c3
  let summary = "each rank sends every other one a part of its own";
  let description = [{
    The input is cut along the first dimension into one part for each rank of
    the group: part i goes to rank i. The result holds the parts that this rank
    was sent, in the order of ranks. Nothing is added up: where the parts are
    terms of a sum, a kernel adds them, as a reduce_scatter would have done, in
    a type and an order of its own.

    `divisor` says what that kernel divides the sum of its group's terms by, for
    whoever checks that sums over batches end as means; no byte depends on it.

    ```
    before   rank 0 | a0 b0 c0 |   rank 1 | a1 b1 c1 |   rank 2 | a2 b2 c2 |
    after    rank 0 | a0 a1 a2 |   rank 1 | b0 b1 b2 |   rank 2 | c0 c1 c2 |
    ```

    Constraints:
    - all_to_all_c1: `mesh` is a mesh of the module.
    - all_to_all_c2: `axes` are axes of the mesh, in its order, none twice.
    - all_to_all_c3: input and result have the same type.
    - all_to_all_c4: the first dimension is a multiple of the group's ranks.
    - all_to_all_c5: the divisor is positive.

    Example:
    ```mlir
    %parts = fsdp.all_to_all %grads on @mesh["shard"] divisor 4 : tensor<1536xbf16>
    ```
  }];
  let arguments = (ins FSDP_LocalTensor:$input,
                       FlatSymbolRefAttr:$mesh, FSDP_AxesAttr:$axes,
                       FSDP_DivisorAttr:$divisor); // all_to_all_c5
  let results = (outs FSDP_LocalTensor:$result);
  let assemblyFormat = [{
    $input `on` $mesh `` $axes (`divisor` $divisor^)? attr-dict `:` type($input)
  }];
}

//===----------------------------------------------------------------------===//
// L2: copies between the device and the host
//===----------------------------------------------------------------------===//

def FSDP_OffloadOp : FSDP_TransferOp<"offload", "Offload"> {
  let summary = "copies a tensor to the host's memory";
  let description = [{
    The device's memory is free behind it and the tensor's other readers;
    fsdp.reload brings it back.

    ```
    device   | x |           device   |   |
    host     |   |   --->    host     | x |
    ```

    Constraints:
    - offload_c1: the result is the input's type in the host's memory.

    Example:
    ```mlir
    %h = fsdp.offload %x : tensor<64x64xf32> -> !fsdp.host<tensor<64x64xf32>>
    ```
  }];
  let arguments = (ins FSDP_LocalTensor:$input);
  let results = (outs FSDP_HostType:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` qualified(type($result))";
  let hasVerifier = 1;
}

def FSDP_ReloadOp : FSDP_TransferOp<"reload", "Reload"> {
  let summary = "copies a tensor from the host's memory";
  let description = [{
    The same bits in new memory of the device.

    Constraints:
    - reload_c1: the result is of the type that the input holds.

    Example:
    ```mlir
    %y = fsdp.reload %h : !fsdp.host<tensor<64x64xf32>> -> tensor<64x64xf32>
    ```
  }];
  let arguments = (ins FSDP_HostType:$input);
  let results = (outs FSDP_LocalTensor:$result);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input)) `->` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// L2: parts of tensors, kernels and checks
//===----------------------------------------------------------------------===//

def FSDP_ViewOp : FSDP_Op<"view", [Pure]> {
  let summary = "a contiguous part of a flat tensor, with a shape";
  let description = [{
    Elements `[offset, offset + elements of the result)` of the source,
    row-major. No bytes move: a later level gives it an address inside the
    source.

    Constraints:
    - view_c1: source and result have the same element type.
    - view_c2: the part lies inside the source.

    Example:
    ```mlir
    %b = fsdp.view %w[1024] : tensor<1536xf32> -> tensor<32xf32>
    ```
  }];
  let arguments = (ins FSDP_FlatTensor:$source,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$offset);
  let results = (outs FSDP_LocalTensor:$result);
  let assemblyFormat = "$source `[` $offset `]` attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def FSDP_PackOp : FSDP_PlacedOp<"pack"> {
  let summary = "lays tensors out in one flat tensor";
  let description = [{
    Each part is laid out row-major at its offset; the rest of the result is
    zero. A later level places the parts there from the start where it can.

    Constraints:
    - pack_c1: at least one part, one offset per part, and all parts of the
      result's element type.
    - pack_c2: parts stand in increasing order, do not overlap, and lie inside
      the result.

    Example:
    ```mlir
    %g = fsdp.pack %gw at 0, %gb at 1024 : tensor<32x32xf32>, tensor<32xf32> -> tensor<1536xf32>
    ```
  }];
  let arguments = (ins Variadic<FSDP_LocalTensor>:$parts,
                       DenseI64ArrayAttr:$offsets);
  let results = (outs FSDP_FlatTensor:$result);
  let assemblyFormat = [{
    custom<PackParts>($parts, $offsets) attr-dict `:` type($parts) `->` type($result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def FSDP_CheckOp : FSDP_Op<"check"> {
  let summary = "fails the step unless a condition holds";
  let description = [{
    What the exporter asserted of run-time values (an index in range), moved out
    of the loops. Everything that relies on it stands behind it.

    Constraints:
    - check_c1: the condition is one boolean, a tensor of rank 0.

    Example:
    ```mlir
    fsdp.check %ok, "index of wte must be smaller than 1024" : tensor<i1>
    ```
  }];
  let arguments = (ins 0DTensorOf<[I1]>:$condition, // check_c1
                       StrAttr:$message);
  let assemblyFormat = "$condition `,` $message attr-dict `:` type($condition)";
}

def FSDP_LaunchOp : FSDP_PlacedOp<"launch", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel";
  let description = [{
    A kernel is a private function in destination-passing style: `(inputs...,
    destinations...) -> results...`, one destination per result. The launch
    gives the inputs; where the results lie is decided later, except that
    result i is written over the input `tied[i]` where that is not -1 (the
    optimizer's in-place update). Equal kernels are one function.

    Constraints:
    - launch_c1: the kernel is a function of the module.
    - launch_c2: the kernel's arguments are the inputs' types followed by the
      results' types; its results are the results' types.
    - launch_c3: `tied` has an entry per result: -1, or an input of the result's
      type that no other result is tied to.

    Example:
    ```mlir
    %y = fsdp.launch @k0(%x, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %p1, %m1 = fsdp.launch @adamw(%p, %g, %m) tied [0, 2]
        : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<FSDP_LocalTensor>:$inputs,
                       OptionalAttr<DenseI64ArrayAttr>:$tied);
  let results = (outs Variadic<FSDP_LocalTensor>:$results);
  let assemblyFormat = [{
    $kernel `(` $inputs `)` (`tied` $tied^)? attr-dict
    `:` functional-type($inputs, $results)
  }];
  let extraClassDeclaration = [{
    /// The input that result `i` is written over; -1 where it has its own place.
    int64_t getTiedInput(unsigned i);
    void setTiedInput(unsigned i, int64_t input);
  }];
}

include "fsdp/Dialect/FSDP/IR/FSDPAttentionOps.td"
include "fsdp/Dialect/FSDP/IR/FSDPRandomOps.td"
include "fsdp/Dialect/FSDP/IR/FSDPScheduleOps.td"
include "fsdp/Dialect/FSDP/IR/FSDPProgramOps.td"

#endif // FSDP_DIALECT_FSDP_IR_FSDPOPS_TD
