// RUN: fsdp-opt %s --fsdp-verify-lifetimes | FileCheck %s
// RUN: fsdp-opt %s -o %t
// RUN: fsdp-opt %s --fsdp-verify-lifetimes | diff %t -

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<2x4xf32> at 0>] {trainable, unit = "h.0"}
fsdp.flat_param @h1 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"v", tensor<2x4xf32> at 0>] {trainable, unit = "h.1"}

// CHECK-LABEL: @gathered_again_after_reshard
// CHECK:         fsdp.unshard {{.*}} for forward
// CHECK:         fsdp.unshard {{.*}} for backward
fsdp.program @gathered_again_after_reshard(%shard: !fsdp.sharded<@h0, f32>, %x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, f32>
  %w = fsdp.member %0["w"] : <@h0, f32> -> tensor<2x4xf32>
  %y = arith.addf %w, %x : tensor<2x4xf32>
  fsdp.reshard %0 : <@h0, f32>
  %1 = fsdp.unshard %shard for backward : <@h0, f32> -> <@h0, f32>
  %w1 = fsdp.member %1["w"] : <@h0, f32> -> tensor<2x4xf32>
  // An activation may live on: it depends on more than parameters.
  %z = arith.mulf %w1, %y : tensor<2x4xf32>
  fsdp.reshard %1 : <@h0, f32>
  fsdp.return %z : tensor<2x4xf32>
}

// CHECK-LABEL: @two_units_at_once
fsdp.program @two_units_at_once(%a: !fsdp.sharded<@h0, f32>, %b: !fsdp.sharded<@h1, f32>) {
  %0 = fsdp.unshard %a for forward : <@h0, f32> -> <@h0, f32>
  %1 = fsdp.unshard %b for forward : <@h1, f32> -> <@h1, f32>
  fsdp.reshard %0 : <@h0, f32>
  fsdp.reshard %1 : <@h1, f32>
  fsdp.return
}

// CHECK-LABEL: @kept_to_the_end
fsdp.program @kept_to_the_end(%a: !fsdp.sharded<@h0, f32>) -> tensor<2x4xf32> {
  %0 = fsdp.unshard %a for forward : <@h0, f32> -> <@h0, f32>
  %w = fsdp.member %0["w"] : <@h0, f32> -> tensor<2x4xf32>
  fsdp.return %w : tensor<2x4xf32>
}

// CHECK-LABEL: @without_fsdp_ops
fsdp.program @without_fsdp_ops(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = arith.addf %x, %x : tensor<?xf32>
  fsdp.return %y : tensor<?xf32>
}
