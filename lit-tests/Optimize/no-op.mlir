// RUN: fsdp-opt %s -o %t
// RUN: fsdp-opt %s --fsdp-keep-gathered | diff %t -
// RUN: fsdp-opt %s --fsdp-recompute-activations | diff %t -
// RUN: fsdp-opt %s --fsdp-offload-activations | diff %t -
// RUN: fsdp-opt %s --fsdp-hoist-updates | diff %t -
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp.program(fsdp-cut-saved-values))' | diff %t -
// RUN: fsdp-opt %s --fsdp-group-collectives | diff %t -

// Nothing is marked: nothing changes, the places in the arena included.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func private @f(%x: tensor<8xf32>, %o: tensor<f32>) -> tensor<f32>
fsdp.program @step(%p: tensor<4xf32> {fsdp.offset = 0 : i64}) -> (tensor<f32> {fsdp.loss}, tensor<f32>)
    attributes {arena = #fsdp.arena<bytes = 1024, inputs = 256, transient = 768>} {
  %w = fsdp.all_gather %p on @mesh["shard"] for forward {fsdp.offsets = array<i64: 256>} : tensor<4xf32> -> tensor<8xf32>
  %l = fsdp.launch @f(%w) {fsdp.offsets = array<i64: 512>} : (tensor<8xf32>) -> tensor<f32>
  %w2 = fsdp.all_gather %p on @mesh["shard"] for backward {fsdp.offsets = array<i64: 256>} : tensor<4xf32> -> tensor<8xf32>
  %g = fsdp.launch @f(%w2) {fsdp.offsets = array<i64: 768>} : (tensor<8xf32>) -> tensor<f32>
  fsdp.return %l, %g : tensor<f32>, tensor<f32>
}
