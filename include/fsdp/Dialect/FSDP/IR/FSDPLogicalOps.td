//===- FSDPLogicalOps.td - Operations of level 1 -----------*- tablegen -*-===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_DIALECT_FSDP_IR_FSDPLOGICALOPS_TD
#define FSDP_DIALECT_FSDP_IR_FSDPLOGICALOPS_TD

// Included by FSDPOps.td.

//===----------------------------------------------------------------------===//
// L1: logical
//===----------------------------------------------------------------------===//

def FSDP_GatherSecondaryOp : FSDP_Op<"gather_secondary", [
    NoMemoryEffect, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "gathers this rank's secondary shard";
  let description = [{
    Of the ranks that agree in the flat parameter's secondary axes. It is what
    fsdp.unshard gathers the whole of, in forward and again in backward, and
    lives until the last of these.

    ```
    before   rank 0 | a |     rank 1 | c |     rank 2 | b |     rank 3 | d |
    after    rank 0 | a b |   rank 1 | c d |   rank 2 | a b |   rank 3 | c d |
    ```

    Constraints:
    - gather_secondary_c1: `shard` and the result name the same flat parameter,
      which exists and has secondary axes.
    - gather_secondary_c2: the shard has the flat parameter's state type, the
      result its gather type, or the state type for full precision.

    Example:
    ```mlir
    %s = fsdp.gather_secondary %shard : !fsdp.sharded<@h0, f32> -> !fsdp.secondary<@h0, bf16>
    %w = fsdp.unshard %s for forward : !fsdp.secondary<@h0, bf16> -> !fsdp.unsharded<@h0, bf16>
    ```
  }];
  let arguments = (ins FSDP_ShardedType:$shard);
  let results = (outs FSDP_SecondaryType:$result);
  let assemblyFormat = [{
    $shard attr-dict `:` type($shard) `->` type($result)
  }];
}

// What fsdp.unshard gathers.
def FSDP_PieceType
    : AnyTypeOf<[FSDP_ShardedType, FSDP_SecondaryType],
                "a shard or a secondary shard">;

def FSDP_UnshardOp : FSDP_Op<"unshard", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "gathers a flat parameter";
  let description = [{
    Makes the whole flat parameter available on every rank until it is
    resharded. The phase tells gathers of the same shard apart: those of forward
    and backward must never become one, or the parameter would stay gathered
    between their uses.

    ```
    before   rank 0 | a |      rank 1 | b |      rank 2 | c |
    after    rank 0 | a b c |  rank 1 | a b c |  rank 2 | a b c |
    ```

    Constraints:
    - unshard_c1: `shard` and the result name the same flat parameter, which
      exists.
    - unshard_c2: the shard has the flat parameter's state type, the result its
      gather type, or the state type for full precision. A secondary shard has
      the result's element type.
    - unshard_c3: it is a secondary shard where the flat parameter has secondary
      axes, and nowhere else.

    Example:
    ```mlir
    %w = fsdp.unshard %shard for forward : !fsdp.sharded<@h0, f32> -> !fsdp.unsharded<@h0, bf16>
    ```
  }];
  let arguments = (ins FSDP_PieceType:$shard, FSDP_PhaseAttr:$phase);
  let results = (outs Res<FSDP_UnshardedType, "", [MemAlloc]>:$result);
  let assemblyFormat = [{
    $shard `for` `` $phase attr-dict `:` custom<PieceType>(type($shard)) `->` type($result)
  }];
}

def FSDP_MemberOp : FSDP_Op<"member", [
    NoMemoryEffect, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a parameter inside a gathered flat parameter";
  let description = [{
    A view: no bytes move. The result has the member's shape; its element type
    is the one the traced step computes in, which may differ from the type it
    was gathered in (the cast belongs to the reader).

    Constraints:
    - member_c1: the flat parameter exists and has a member of that name.
    - member_c2: the result's type is the member's.

    Example:
    ```mlir
    %b = fsdp.member %w["h.0.bias"] : !fsdp.unsharded<@h0, bf16> -> tensor<32xf32>
    ```
  }];
  let arguments = (ins FSDP_UnshardedType:$unsharded, StrAttr:$fqn);
  let results = (outs FSDP_LocalTensor:$result);
  let assemblyFormat = [{
    $unsharded `[` $fqn `]` attr-dict `:` type($unsharded) `->` type($result)
  }];
}

def FSDP_ReshardOp : FSDP_Op<"reshard"> {
  let summary = "frees a gathered flat parameter";
  let description = [{
    Ends the life of the gathered value. Nothing that is computed from the
    parameters alone may be used afterwards (fsdp-verify-lifetimes).

    Constraints:
    - reshard_c1: the operand is the result of fsdp.unshard.
    - reshard_c2: an unshard is resharded at most once.
    - reshard_c3: it stands in the same block as its unshard.

    Example:
    ```mlir
    fsdp.reshard %w : !fsdp.unsharded<@h0, bf16>
    ```
  }];
  let arguments = (ins Arg<FSDP_UnshardedType, "", [MemFree]>:$unsharded);
  let assemblyFormat = "$unsharded attr-dict `:` type($unsharded)";
  let hasVerifier = 1;
}

def FSDP_AverageOp : FSDP_Op<"average", [NoMemoryEffect]> {
  let summary = "the mean of a count over all ranks";
  let description = [{
    Of what this rank's loss is a sum over. Where the gradients of such losses
    are averaged over the ranks too, both divided by each other are the gradient
    of the sum of all losses by the sum of all counts.

    ```
    before   rank 0 | n0 |              rank 1 | n1 |
    after    rank 0 | (n0 + n1) / 2 |   rank 1 | (n0 + n1) / 2 |
    ```

    Example:
    ```mlir
    %n = fsdp.average %count
    ```
  }];
  let arguments = (ins FSDP_CountTensor:$count);
  let results = (outs FSDP_CountTensor:$result);
  let assemblyFormat = "$count attr-dict";
}

def FSDP_ReduceGradOp : FSDP_Op<"reduce_grad", [
    NoMemoryEffect, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    AttrSizedOperandSegments]> {
  let summary = "averages a flat parameter's gradient over all ranks";
  let description = [{
    Takes the local gradient of every member, in the members' order, and gives
    this rank's piece of their mean over all ranks of the mesh.

    ```
    before   rank 0 | a0 b0 |             rank 1 | a1 b1 |
    after    rank 0 | (a0 + a1) / 2 |     rank 1 | (b0 + b1) / 2 |
    ```

    Where `over` is given, that is divided by it: the mean over all ranks of what
    their losses are sums over (fsdp.average), or a constant.

    Constraints:
    - reduce_grad_c1: the flat parameter exists and is trainable.
    - reduce_grad_c2: one gradient per member, of the member's type.
    - reduce_grad_c3: the result is sharded like the flat parameter, in its
      state type.

    Example:
    ```mlir
    %g = fsdp.reduce_grad @h0(%gw, %gb) : (tensor<32x32xf32>, tensor<32xf32>) -> !fsdp.sharded<@h0, f32>
    %s = fsdp.reduce_grad @h1(%hw) over %n : (tensor<32x32xf32>) -> !fsdp.sharded<@h1, f32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$flat_param,
                       Variadic<FSDP_LocalTensor>:$grads,
                       Optional<FSDP_CountTensor>:$over);
  let results = (outs FSDP_ShardedType:$result);
  let assemblyFormat = [{
    $flat_param `(` $grads `)` (`over` $over^)? attr-dict
    `:` functional-type($grads, $result)
  }];
}

class FSDP_AccumulatorType<string summary>
    : AnyTypeOf<[FSDP_ShardedType, FSDP_UnshardedType], summary>;

def FSDP_AccumulateGradOp : FSDP_Op<"accumulate_grad", [
    NoMemoryEffect, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    AttrSizedOperandSegments,
    AllTypesMatch<["accumulator", "result"]>]> { // accumulate_grad_c3
  let summary = "adds the gradients of a micro-batch to those of earlier ones";
  let description = [{
    Takes the local gradient of every member, in the members' order. A sharded
    accumulator gets this rank's piece of their sum over the ranks of the flat
    parameter's shard axes; a whole one gets the local gradients themselves, and
    no rank communicates. What reduce_accumulated makes of either is the same.
    `count` micro-batches were accumulated before; where it is 0, the
    accumulator's elements are not read. `of` is the mean over all ranks of what
    this micro-batch's losses are sums over: gradients that travel in f16, whose
    range those of a sum leave sooner than those of a mean, are divided by it
    before and multiplied by it after.

    ```
    sharded   rank 0 | A + a0 + a1 |   rank 1 | B + b0 + b1 |
    whole     rank 0 | A0 + a0  B0 + b0 |   rank 1 | A1 + a1  B1 + b1 |
    ```

    Constraints:
    - accumulate_grad_c1: the flat parameter exists and is trainable.
    - accumulate_grad_c2: one gradient per member, of the member's type.
    - accumulate_grad_c3: the result has the accumulator's type.
    - accumulate_grad_c4: the accumulator is one of the flat parameter.

    Example:
    ```mlir
    %g = fsdp.accumulate_grad @h0 %acc after %n(%gw, %gb) : !fsdp.sharded<@h0, f32>, tensor<f32>, tensor<32x32xf32>, tensor<32xf32>
    %s = fsdp.accumulate_grad @h1 %acc1 after %n(%hw) of %m : !fsdp.sharded<@h1, f32>, tensor<f32>, tensor<32x32xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$flat_param,
                       FSDP_AccumulatorType<"accumulator">:$accumulator,
                       FSDP_ScalarTensor:$count,
                       Variadic<FSDP_LocalTensor>:$grads,
                       Optional<FSDP_CountTensor>:$of);
  let results = (outs FSDP_AccumulatorType<"accumulator">:$result);
  let assemblyFormat = [{
    $flat_param $accumulator `after` $count `(` $grads `)` (`of` $of^)? attr-dict
    `:` type($accumulator) `,` type($count) `,` type($grads)
  }];
}

def FSDP_ReduceAccumulatedOp : FSDP_Op<"reduce_accumulated", [
    NoMemoryEffect, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "averages accumulated gradients over all ranks";
  let description = [{
    Divides what was accumulated by `weight`, before anything is rounded, and
    gives this rank's piece of the mean over all ranks of the mesh. Does what is
    left of reduce_grad: of a sharded accumulator, the sum over the replicate
    axes.

    Constraints:
    - reduce_accumulated_c1: the flat parameter exists and is trainable.
    - reduce_accumulated_c2: the result is sharded like the flat parameter, in
      its state type.
    - reduce_accumulated_c3: the accumulator is one of that flat parameter.

    Example:
    ```mlir
    %g = fsdp.reduce_accumulated %acc over %n : !fsdp.unsharded<@h0, f32>, tensor<f32> -> !fsdp.sharded<@h0, f32>
    ```
  }];
  let arguments = (ins FSDP_AccumulatorType<"accumulator">:$accumulator,
                       FSDP_ScalarTensor:$weight);
  let results = (outs FSDP_ShardedType:$result);
  let assemblyFormat = [{
    $accumulator `over` $weight attr-dict
    `:` type($accumulator) `,` type($weight) `->` type($result)
  }];
}

def FSDP_ReduceReplicasOp : FSDP_Op<"reduce_replicas", [
    NoMemoryEffect, SameOperandsAndResultType, // reduce_replicas_c3
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "averages a gradient over the replicas by a reduction hook";
  let description = [{
    Takes what this rank has of the gradient after its reduce_scatter, a mean
    over the shard axes, and gives the mean over the replicate axes, too, as the
    flat parameter's `reduction_hook` makes it. fsdp-apply-reduction-hooks
    replaces it by what the hook writes.

    ```
    before   rank 0 | a0 |              rank 1 | a1 |
    after    rank 0 | ~(a0 + a1) / 2 |  rank 1 | ~(a0 + a1) / 2 |
    ```

    Constraints:
    - reduce_replicas_c1: the flat parameter exists and has a hook.
    - reduce_replicas_c2: the gradient has as many elements as a shard of it.
    - reduce_replicas_c3: the result has the gradient's type.

    Example:
    ```mlir
    %m = fsdp.reduce_replicas @h0(%g) : tensor<1536xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$flat_param, FSDP_FlatTensor:$grad);
  let results = (outs FSDP_FlatTensor:$result);
  let assemblyFormat = "$flat_param `(` $grad `)` attr-dict `:` type($grad)";
}

def FSDP_LossScaleOp : FSDP_Op<"loss_scale", [Pure]> {
  let summary = "what the step multiplies its loss's cotangent by";
  let description = [{
    The scale that gradients carry from the loss to their reduction, so that
    those which are small stay in the range of f16. It is one number for all
    ranks, and for all micro-batches of a step. fsdp-insert-loss-scale makes it
    of the traced step's argument, fsdp-scale-loss replaces it by a constant or
    by a state, and divides the gradients by it (docs/loss-scaling.md).

    Example:
    ```mlir
    %s = fsdp.loss_scale : tensor<f32>
    ```
  }];
  let results = (outs 0DTensorOf<[F32]>:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def FSDP_GradNormOp : FSDP_Op<"grad_norm", [
    NoMemoryEffect, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    AttrSizedOperandSegments]> {
  let summary = "the 2-norm of the whole gradient";
  let description = [{
    The norm over all elements of all flat parameters, each multiplied by
    `scale`, where that is given, and counted once: pieces
    are summed over the ranks that hold different ones, never over those that
    hold copies. A flat parameter with neither shard nor replicate axes has a
    gradient of its own on each rank: the mean of their squares over all ranks
    counts, so that all ranks have one norm.

    Constraints:
    - grad_norm_c1: every flat parameter exists and appears once.
    - grad_norm_c2: there is at least one gradient.

    Example:
    ```mlir
    %n = fsdp.grad_norm %g0, %g1 : !fsdp.sharded<@h0, f32>, !fsdp.sharded<@root, f32> -> tensor<f32>
    ```
  }];
  let arguments = (ins Variadic<FSDP_ShardedType>:$grads,
                       Optional<FSDP_ScalarTensor>:$scale);
  let results = (outs FSDP_ScalarTensor:$result);
  let assemblyFormat = [{
    $grads (`scale` $scale^)? attr-dict `:` type($grads)
    (`scale` type($scale)^)? `->` type($result)
  }];
}

def FSDP_UpdateOp : FSDP_Op<"update", [
    NoMemoryEffect, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    AttrSizedOperandSegments]> {
  let summary = "applies the optimizer to one shard";
  let description = [{
    Calls the optimizer function, which is elementwise on flat tensors of any
    size, on this rank's pieces. `arguments` are the function's, in its order;
    sharded ones stand for its flat tensors. The gradient (the argument whose
    role is "grad") is multiplied by `scale` first, where that is given. Where
    `norm` is given and not finite, each result is what its argument was.

    Where the flat parameter has several runs, members of several groups of the
    optimizer, the scalars among `arguments` are those of the first run, and
    `run_scalars` holds as many again for each further one. `rank` is this
    rank's number on the mesh: with it, an element's place in the shard gives
    its place in the flat parameter, and so its run.

    Constraints:
    - update_c1: the optimizer is a function of the module.
    - update_c2: as many arguments and results as the function's; a flat tensor
      is a shard of one and the same flat parameter, anything else has the
      function's type.
    - update_c3: that flat parameter exists and is trainable.
    - update_c4: `run_scalars` has the types of the function's scalars, once for
      each run but the first; `rank` is an i64 of rank 0, and is given where
      there are several runs.

    Example:
    ```mlir
    %p1, %m1 = fsdp.update @optimizer(%p, %g, %m, %lr) scale %c
        : (!fsdp.sharded<@h0, f32>, !fsdp.sharded<@h0, f32>, !fsdp.sharded<@h0, f32>, tensor<f32>), tensor<f32>
        -> (!fsdp.sharded<@h0, f32>, !fsdp.sharded<@h0, f32>)
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$optimizer,
                       Variadic<AnyTypeOf<[FSDP_ShardedType, FSDP_LocalTensor]>>:$args,
                       Optional<FSDP_ScalarTensor>:$scale,
                       Optional<FSDP_ScalarTensor>:$norm,
                       Variadic<FSDP_LocalTensor>:$run_scalars,
                       Optional<0DTensorOf<[I64]>>:$rank);
  let results = (outs Variadic<AnyTypeOf<[FSDP_ShardedType, FSDP_LocalTensor]>>:$results);
  let assemblyFormat = [{
    $optimizer `(` $args `)` (`scale` $scale^)? (`if_finite` $norm^)?
    (`runs` `(` $run_scalars^ `:` type($run_scalars) `)`)?
    (`rank` $rank^ `:` type($rank))? attr-dict
    `:` `(` type($args) `)` (`,` type($scale)^)? (`if_finite` type($norm)^)?
    `->` `(` type($results) `)`
  }];
}

#endif // FSDP_DIALECT_FSDP_IR_FSDPLOGICALOPS_TD
