// RUN: fsdp-opt %s --fsdp-plan-arena -split-input-file -verify-diagnostics
// RUN: not fsdp-opt %s --fsdp-plan-arena=guard=true -split-input-file 2>&1 | FileCheck %s --check-prefix=GUARD

fsdp.program @step(%x: tensor<4x4xf32>) -> tensor<2x4xf32> {
  // expected-error @below {{expected a step of launches, transfers and views (run fsdp-outline-kernels first)}}
  %0 = tensor.extract_slice %x[0, 0] [2, 4] [1, 1] : tensor<4x4xf32> to tensor<2x4xf32>
  fsdp.return %0 : tensor<2x4xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"w", tensor<8xf32> at 0>
] {trainable, unit = ""}
fsdp.state @m optimizer "m" of @h0 : !fsdp.host<tensor<4xf32>> at 0 init 0.0 : f64
// The old value is read after the new one: it would have to be copied.
// expected-error @below {{expected the new value of @m, which is written over the old one in the host's memory, to depend on each fsdp.reload of the old one}}
fsdp.program @step(%x: tensor<4xf32>, %m: !fsdp.host<tensor<4xf32>> {fsdp.state = @m})
    -> (tensor<4xf32>, !fsdp.host<tensor<4xf32>> {fsdp.state = @m}) {
  // expected-note @below {{the new value is here}}
  %h = fsdp.offload %x : tensor<4xf32> -> !fsdp.host<tensor<4xf32>>
  %y = fsdp.reload %m : !fsdp.host<tensor<4xf32>> -> tensor<4xf32>
  fsdp.return %y, %h : tensor<4xf32>, !fsdp.host<tensor<4xf32>>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"w", tensor<8xf32> at 0>
] {trainable, unit = ""}
fsdp.state @m optimizer "m" of @h0 : !fsdp.host<tensor<4xf32>> at 0 init 0.0 : f64
// The old value is read first, but no order of the queues is bound to that.
// expected-error @below {{expected the new value of @m, which is written over the old one in the host's memory, to depend on each fsdp.reload of the old one}}
fsdp.program @step(%x: tensor<4xf32>, %m: !fsdp.host<tensor<4xf32>> {fsdp.state = @m})
    -> (tensor<4xf32>, !fsdp.host<tensor<4xf32>> {fsdp.state = @m}) {
  %y = fsdp.reload %m : !fsdp.host<tensor<4xf32>> -> tensor<4xf32>
  // expected-note @below {{the new value is here}}
  %h = fsdp.offload %x : tensor<4xf32> -> !fsdp.host<tensor<4xf32>>
  fsdp.return %y, %h : tensor<4xf32>, !fsdp.host<tensor<4xf32>>
}

// -----

// expected-error @below {{expected tensors of at most 9007199254740992 bytes in a step, got 'tensor<4611686018427387904xf32>'}}
fsdp.program @step(%x: tensor<4611686018427387904xf32>) -> tensor<4611686018427387904xf32> {
  fsdp.return %x : tensor<4611686018427387904xf32>
}

// -----

func.func private @k(tensor<9007199254740992xi8>) -> tensor<9007199254740992xi8>
func.func private @l(tensor<9007199254740993xi8>) -> tensor<9007199254740993xi8>
fsdp.program @step() {
  %0 = fsdp.launch @k() : () -> tensor<9007199254740992xi8>
  // expected-error @below {{expected tensors of at most 9007199254740992 bytes in a step, got 'tensor<9007199254740993xi8>'}}
  %1 = fsdp.launch @l() : () -> tensor<9007199254740993xi8>
  fsdp.return
}

// -----

// One that this program does not read has a place, too.
// expected-error @below {{expected a place, got none (run fsdp-layout-state first)}}
fsdp.state @count buffer "count" : tensor<4xf32>
fsdp.program @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  fsdp.return %x : tensor<4xf32>
}

// -----

fsdp.state @a buffer "a" : tensor<65xf32> at 0
// expected-error @below {{expected its place at a multiple of 256 from 512 on, got 256}}
fsdp.state @b buffer "b" : tensor<4xf32> at 256
fsdp.program @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  fsdp.return %x : tensor<4xf32>
}

// -----

// expected-error @below {{expected its place at a multiple of 256 from 0 on, got 128}}
fsdp.state @a buffer "a" : tensor<4xf32> at 128
fsdp.program @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  fsdp.return %x : tensor<4xf32>
}

// -----

// States that lie close are refused only where borders are asked for.
// GUARD: error: 'fsdp.state' op expected its place at a multiple of 256 from 768 on, got 512 (run fsdp-layout-state=guard=true first)
// GUARD-NEXT: fsdp.state @close
fsdp.state @first buffer "first" : tensor<65xf32> at 0
fsdp.state @close buffer "close" : tensor<4xf32> at 512
fsdp.program @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  fsdp.return %x : tensor<4xf32>
}
