// RUN: fsdp-opt %s -fsdp-verify-lifetimes -split-input-file -verify-diagnostics

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<2x4xf32> at 0>] {trainable, unit = "h.0"}
// lifetimes_c1
fsdp.program @a_transpose_outlives_its_unit(%shard: !fsdp.sharded<@h0, f32>, %x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, f32>
  %w = fsdp.member %0["w"] : <@h0, f32> -> tensor<2x4xf32>
  %e = tensor.empty() : tensor<4x2xf32>
  // expected-note @below {{the value is computed here}}
  %t = linalg.transpose ins(%w : tensor<2x4xf32>) outs(%e : tensor<4x2xf32>) permutation = [1, 0]
  // expected-note @below {{they are resharded here}}
  fsdp.reshard %0 : <@h0, f32>
  // expected-error @below {{expected to read nothing that is computed from the parameters of @h0 alone, behind their reshard}}
  %y = arith.addf %t, %x : tensor<4x2xf32>
  fsdp.return %y : tensor<4x2xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<2x4xf32> at 0>] {trainable, unit = "h.0"}
fsdp.program @a_region_reads_behind_the_reshard(%shard: !fsdp.sharded<@h0, f32>, %init: tensor<f32>) -> tensor<f32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %0 = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, f32>
  // expected-note @below {{the value is computed here}}
  %w = fsdp.member %0["w"] : <@h0, f32> -> tensor<2x4xf32>
  // expected-note @below {{they are resharded here}}
  fsdp.reshard %0 : <@h0, f32>
  // expected-error @below {{expected to read nothing that is computed from the parameters of @h0 alone, behind their reshard}}
  %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%x = %init) -> (tensor<f32>) {
    %e = tensor.extract %w[%i, %i] : tensor<2x4xf32>
    %y = tensor.from_elements %e : tensor<f32>
    scf.yield %y : tensor<f32>
  }
  fsdp.return %r : tensor<f32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<2x4xf32> at 0>] {trainable, unit = "h.0"}
// One gather for all modules that read a unit (pytorch/pytorch#90201).
// lifetimes_c2
fsdp.program @gathered_twice_at_once(%shard: !fsdp.sharded<@h0, f32>) {
  // expected-note @below {{it was gathered here}}
  %0 = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, f32>
  // expected-error @below {{expected @h0 to be resharded before it is gathered again}}
  %1 = fsdp.unshard %shard for backward : <@h0, f32> -> <@h0, f32>
  fsdp.reshard %0 : <@h0, f32>
  fsdp.reshard %1 : <@h0, f32>
  fsdp.return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{the flat parameter is here}}
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<2x4xf32> at 0>] {trainable, keep, unit = "h.0"}
// lifetimes_c3
fsdp.program @kept_and_gathered_again(%shard: !fsdp.sharded<@h0, f32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  // expected-note @below {{the first is here}}
  %0 = fsdp.unshard %shard for forward : <@h0, f32> -> <@h0, f32>
  %w = fsdp.member %0["w"] : <@h0, f32> -> tensor<2x4xf32>
  fsdp.reshard %0 : <@h0, f32>
  // expected-error @below {{expected one unshard of @h0, which is kept gathered (keep), got another}}
  %1 = fsdp.unshard %shard for backward : <@h0, f32> -> <@h0, f32>
  %v = fsdp.member %1["w"] : <@h0, f32> -> tensor<2x4xf32>
  fsdp.reshard %1 : <@h0, f32>
  fsdp.return %w, %v : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"outer" = 2>, #fsdp.axis<"inner" = 2>]
fsdp.flat_param @h0 on @mesh shard ["inner", "outer"] secondary ["inner"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// lifetimes_c4
fsdp.program @secondary_twice(%shard: !fsdp.sharded<@h0, f32>) {
  // expected-note @below {{the first is here}}
  %s = fsdp.gather_secondary %shard : <@h0, f32> -> <@h0, f32>
  %0 = fsdp.unshard %s for forward : !fsdp.secondary<@h0, f32> -> !fsdp.unsharded<@h0, f32>
  fsdp.reshard %0 : <@h0, f32>
  // expected-error @below {{expected one secondary shard of @h0, which forward and backward gather the whole of, got another}}
  %t = fsdp.gather_secondary %shard : <@h0, f32> -> <@h0, f32>
  %1 = fsdp.unshard %t for backward : !fsdp.secondary<@h0, f32> -> !fsdp.unsharded<@h0, f32>
  fsdp.reshard %1 : <@h0, f32>
  fsdp.return
}
