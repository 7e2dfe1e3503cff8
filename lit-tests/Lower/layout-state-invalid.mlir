// RUN: fsdp-opt %s --fsdp-layout-state --split-input-file --verify-diagnostics

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"w", tensor<8xf32> at 0>
] {trainable, unit = ""}
// The flat parameter does not count its bytes before L2.
// expected-error @below {{expected a local tensor of at most 9007199254740992 bytes, got '!fsdp.sharded<@h0, f32>'}}
fsdp.state @p parameter of @h0 : !fsdp.sharded<@h0, f32>

// -----

// Its bytes, 2^64, are none to an int64_t.
// expected-error @below {{expected a local tensor of at most 9007199254740992 bytes, got 'tensor<4611686018427387904xf32>'}}
fsdp.state @p buffer "p" : tensor<4611686018427387904xf32>

// -----

// layout_state_c1
// expected-note @below {{the first one is here}}
fsdp.state @a buffer "p" : tensor<4xf32>
// expected-error @below {{expected one state of kind buffer named "p", got a second}}
fsdp.state @b buffer "p" : tensor<8xf32>

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"w", tensor<8xf32> at 0>
] {trainable, unit = ""}
// expected-note @below {{the first one is here}}
fsdp.state @a parameter of @h0 : tensor<4xf32>
// Another kind, and a name besides, is another state.
fsdp.state @sum accumulator of @h0 : tensor<4xf32>
fsdp.state @m optimizer "m" of @h0 : tensor<4xf32>
fsdp.state @shared optimizer "m" : tensor<4xf32>
fsdp.state @buffer buffer "m" : tensor<4xf32>
// expected-error @below {{expected one state of kind parameter of @h0, got a second}}
fsdp.state @b parameter of @h0 : tensor<4xf32>

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"w", tensor<8xf32> at 0>
] {trainable, unit = ""}
// expected-note @below {{the first one is here}}
fsdp.state @a optimizer "m" of @h0 : tensor<4xf32>
// expected-error @below {{expected one state of kind optimizer named "m" of @h0, got a second}}
fsdp.state @b optimizer "m" of @h0 : tensor<4xf32>

// -----

// layout_state_c2
fsdp.state @a buffer "p" : tensor<4xf32>
// expected-error @below {{expected a program that reads or writes it, got none}}
fsdp.state @b buffer "q" : tensor<4xf32>
fsdp.program eval @evaluate(%a: tensor<4xf32> {fsdp.state = @a}) -> (tensor<4xf32> {fsdp.output = {name = "y"}}) {
  fsdp.return %a : tensor<4xf32>
}
