// RUN: fsdp-opt %s --fsdp-offload-optimizer -split-input-file -verify-diagnostics

// offload_optimizer_c1
// expected-error @below {{expected an optimizer with a state for each element of a parameter, to be in the host's memory, got none}}
module {
  fsdp.state @step optimizer "step" : tensor<f32> init 0.0 : f64
  fsdp.program @train(%s: tensor<f32> {fsdp.state = @step}) -> (tensor<f32> {fsdp.state = @step}) {
    fsdp.return %s : tensor<f32>
  }
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"w", tensor<8xf32> at 0>
] {trainable, unit = ""}
fsdp.state @h0.param parameter of @h0 : tensor<4xf32>
fsdp.state @h0.m optimizer "m" of @h0 : tensor<4xf32> init 0.0 : f64
// offload_optimizer_c2
// expected-error @below {{expected result 0 to be computed, or the value that its state had, got argument 0}}
fsdp.program @train(%w: tensor<4xf32> {fsdp.state = @h0.param}, %m: tensor<4xf32> {fsdp.state = @h0.m})
    -> (tensor<4xf32> {fsdp.state = @h0.m}) {
  fsdp.return %w : tensor<4xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"w", tensor<8xf32> at 0>
] {trainable, unit = ""}
fsdp.state @h0.m optimizer "m" of @h0 : tensor<4xf32> init 0.0 : f64
// expected-error @below {{expected result 0 to be computed, or the value that its state had, got argument 0}}
fsdp.program @show(%m: tensor<4xf32> {fsdp.state = @h0.m}) -> (tensor<4xf32> {fsdp.output = {name = "m"}}) {
  fsdp.return %m : tensor<4xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"w", tensor<8xf32> at 0>
] {trainable, unit = ""}
fsdp.state @h0.m optimizer "m" of @h0 : tensor<4xf32> init 0.0 : f64
func.func private @k(%g: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32>
// The old value may be read when the new one is there.
// offload_optimizer_c3
// expected-error @below {{expected a launch that computes the new value of @h0.m of the old one, to keep it in the host's memory}}
fsdp.program @train(%m: tensor<4xf32> {fsdp.state = @h0.m}, %g: tensor<4xf32> {fsdp.input = {name = "g"}})
    -> (tensor<4xf32> {fsdp.state = @h0.m}) {
  // expected-note @below {{the new value is here}}
  %n = fsdp.launch @k(%g) : (tensor<4xf32>) -> tensor<4xf32>
  %old = fsdp.launch @k(%m) : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return %n : tensor<4xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"w", tensor<8xf32> at 0>
] {trainable, unit = ""}
// expected-error @below {{expected a local tensor (run convert-fsdp-logical-to-collectives first), got '!fsdp.sharded<@h0, f32>'}}
fsdp.state @h0.m optimizer "m" of @h0 : !fsdp.sharded<@h0, f32> init 0.0 : f64
