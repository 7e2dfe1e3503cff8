// Flat parameters with a secondary shard, in each form of the IR.
//
// RUN: fsdp-opt %s | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-op-generic | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --verify-roundtrip | FileCheck %s

// Secondary axes first, each of both lists in the mesh's order.
fsdp.mesh @mesh [#fsdp.axis<"a" = 2>, #fsdp.axis<"b" = 2>, #fsdp.axis<"c" = 2>, #fsdp.axis<"d" = 3>]
// CHECK: fsdp.flat_param @h0 on @mesh shard ["c", "d", "a", "b"] secondary ["c", "d"] replicate [] state f32 gather bf16 reduce f32 numel 24 [
fsdp.flat_param @h0 on @mesh shard ["c", "d", "a", "b"] secondary ["c", "d"] replicate []
    state f32 gather bf16 reduce f32 numel 24 [<"w", tensor<24xf32> at 0>] {trainable, unit = ""}

// CHECK-LABEL: func.func @secondary
func.func @secondary(%shard: !fsdp.sharded<@h0, f32>) {
  // CHECK: %[[S:.*]] = fsdp.gather_secondary %{{.*}} : <@h0, f32> -> <@h0, bf16>
  %s = fsdp.gather_secondary %shard : <@h0, f32> -> <@h0, bf16>
  // CHECK: %[[W:.*]] = fsdp.unshard %[[S]] for forward : !fsdp.secondary<@h0, bf16> -> <@h0, bf16>
  %w = fsdp.unshard %s for forward : !fsdp.secondary<@h0, bf16> -> <@h0, bf16>
  fsdp.reshard %w : <@h0, bf16>
  // CHECK: fsdp.unshard %[[S]] for backward : !fsdp.secondary<@h0, bf16> -> <@h0, bf16>
  %w1 = fsdp.unshard %s for backward : !fsdp.secondary<@h0, bf16> -> <@h0, bf16>
  fsdp.reshard %w1 : <@h0, bf16>
  // CHECK: fsdp.gather_secondary %{{.*}} : <@h0, f32> -> <@h0, f32>
  %full = fsdp.gather_secondary %shard : <@h0, f32> -> <@h0, f32>
  return
}
