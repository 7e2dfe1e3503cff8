// RUN: fsdp-opt %s --fsdp-choose-reduction | FileCheck %s --check-prefix=HERE
// RUN: fsdp-opt %s --fsdp-choose-reduction=reduction=nccl | FileCheck %s --check-prefix=NCCL
// RUN: fsdp-opt %s --fsdp-choose-reduction="cluster=%clusters/h100-sxm.json" | FileCheck %s --check-prefix=NODES
//
// Nodes of 8 cut the halves of 24 ranks: elements go to every rank of other nodes.
//
// RUN: sed 's/= 16>/= 24>/; s/<768x/<512x/g; s/divisor 16/divisor 24/' %s | fsdp-opt --fsdp-choose-reduction="cluster=%clusters/h100-sxm.json" | FileCheck %s --check-prefix=RINGS
// RUN: sed 's/= 16>/= 24>/; s/<768x/<512x/g; s/divisor 16/divisor 24/' %s | fsdp-opt --fsdp-choose-reduction="cluster=%clusters/h100-sxm.json reduction=exact" | FileCheck %s --check-prefix=NODES
//
// NCCL rounds narrow floats at each hop: only those that were asked for.
//
// RUN: sed 's/= 16>/= 24>/; s/<768x/<512x/g; s/divisor 16/divisor 24/; s/f32/bf16/g' %s | fsdp-opt --fsdp-choose-reduction="cluster=%clusters/h100-sxm.json" | FileCheck %s --check-prefix=NODES
// RUN: sed 's/= 16>/= 24>/; s/<768x/<512x/g; s/divisor 16/divisor 24/; s/f32/bf16/g; s/^module/module attributes {fsdp.reduce_dtype = bf16}/' %s | fsdp-opt --fsdp-choose-reduction="cluster=%clusters/h100-sxm.json" | FileCheck %s --check-prefix=RINGS
// RUN: sed 's/f32/bf16/g' %s | not fsdp-opt --fsdp-choose-reduction=reduction=nccl 2>&1 | FileCheck %s --check-prefix=NARROW
//
// No code for CUDA devices; a cluster that is none, or too small.
//
// RUN: sed 's/attributes {fsdp.impl = .*}}//' %s | fsdp-opt --fsdp-choose-reduction | FileCheck %s --check-prefix=NONE
// RUN: sed 's/attributes {fsdp.impl = .*}}//' %s | not fsdp-opt --fsdp-choose-reduction=reduction=nccl 2>&1 | FileCheck %s --check-prefix=CODE
// RUN: not fsdp-opt %s --fsdp-choose-reduction="cluster=%t.missing" 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: not fsdp-opt %s --fsdp-choose-reduction="cluster=%clusters/cpu-2core.json" 2>&1 | FileCheck %s --check-prefix=RANKS
//
// HERE: fsdp.reduction = #fsdp.reduction<by = exact, ranks_per_node = 0>
// NCCL: fsdp.reduction = #fsdp.reduction<by = nccl, ranks_per_node = 0>
// NODES: fsdp.reduction = #fsdp.reduction<by = exact, ranks_per_node = 8>
// RINGS: fsdp.reduction = #fsdp.reduction<by = nccl, ranks_per_node = 8>
// NARROW: expected sums over ranks of f32, f64 or integers beside --reduction nccl, which rounds each partial sum
// NONE-NOT: fsdp.reduction =
// CODE: expected code for CUDA devices (--target cuda) beside --reduction nccl, got none
// FILE: missing
// RANKS: expected a mesh of at most {{.*}} ranks on cluster 'cpu-2core'
module {
fsdp.mesh @mesh [#fsdp.axis<"shard" = 16>]
func.func private @f(%x: tensor<12288x768xf32>, %o: tensor<12288x768xf32>) -> tensor<12288x768xf32> attributes {fsdp.impl = {cuda = #fsdp.cuda_code<[<@cuda_kernels::@f, grid = 1, block = 32, shared = 0>], traffic = 512>}} {
  return %o : tensor<12288x768xf32>
}
fsdp.program @step(%x: tensor<12288x768xf32>) -> tensor<768x768xf32> {
  %0 = fsdp.launch @f(%x) : (tensor<12288x768xf32>) -> tensor<12288x768xf32>
  %1 = fsdp.reduce_scatter %0 on @mesh["shard"] divisor 16 : tensor<12288x768xf32> -> tensor<768x768xf32>
  fsdp.return %1 : tensor<768x768xf32>
}
}
