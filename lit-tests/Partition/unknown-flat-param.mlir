// RUN: fsdp-opt %s -convert-fsdp-logical-to-collectives -split-input-file -verify-diagnostics

// A type cannot look up the symbol it names, so the pass does.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
// expected-error @below {{expected a flat parameter named @h1 in the module, got none}}
fsdp.program @step(%passed_through: !fsdp.sharded<@h1, f32>) -> !fsdp.sharded<@h1, f32> {
  fsdp.return %passed_through : !fsdp.sharded<@h1, f32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate []
    state f32 gather f32 reduce f32 numel 8 [<"w", tensor<8xf32> at 0>] {trainable, unit = ""}
fsdp.program @step(%shard: !fsdp.sharded<@h0, f32>) -> !fsdp.sharded<@h0, f32> {
  // expected-error @below {{expected a flat parameter named @h1 in the module, got none}}
  %made = builtin.unrealized_conversion_cast %shard : !fsdp.sharded<@h0, f32> to !fsdp.unsharded<@h1, f32>
  fsdp.return %shard : !fsdp.sharded<@h0, f32>
}
