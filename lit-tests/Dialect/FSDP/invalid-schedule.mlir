// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

// token_c1
// expected-error @below {{expected tensors, got 'f32'}}
func.func private @token_of_a_scalar() -> !fsdp.token<f32>

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 4>]
// start_c1
func.func @other_op(%a: tensor<8xf32>) {
  // expected-error @below {{expected only transfers in the body, got fsdp.view}}
  %t = fsdp.start(%a) on all_gather event 0 {
  ^bb0(%x: tensor<8xf32>):
    // expected-note @below {{it is here}}
    %v = fsdp.view %x[0] : tensor<8xf32> -> tensor<4xf32>
    fsdp.yield %v : tensor<4xf32>
  } : (tensor<8xf32>) -> !fsdp.token<tensor<4xf32>>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 4>]
func.func @two_groups(%a: tensor<8xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{expected transfers of one kind and one group, got fsdp.all_gather on ["replicate"] beside fsdp.all_gather on ["shard"]}}
  %t = fsdp.start(%a, %b) on all_gather event 0 {
  ^bb0(%x: tensor<8xf32>, %y: tensor<8xf32>):
    %g = fsdp.all_gather %x on @mesh["shard"] : tensor<8xf32> -> tensor<32xf32>
    // expected-note @below {{it is here}}
    %h = fsdp.all_gather %y on @mesh["replicate"] : tensor<8xf32> -> tensor<16xf32>
    fsdp.yield %g, %h : tensor<32xf32>, tensor<16xf32>
  } : (tensor<8xf32>, tensor<8xf32>) -> !fsdp.token<tensor<32xf32>, tensor<16xf32>>
  return
}

// -----

func.func @nothing() {
  // expected-error @below {{expected a transfer in the body, got none}}
  %t = fsdp.start() on all_gather event 0 {
  ^bb0:
    fsdp.yield
  } : () -> !fsdp.token<tensor<8xf32>>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 4>]
// start_c2
func.func @wrong_queue(%a: tensor<8xf32>) {
  // expected-error @below {{expected a queue of fsdp.all_gather, got reduce}}
  %t = fsdp.start(%a) on reduce event 0 {
  ^bb0(%x: tensor<8xf32>):
    %g = fsdp.all_gather %x on @mesh["shard"] : tensor<8xf32> -> tensor<32xf32>
    fsdp.yield %g : tensor<32xf32>
  } : (tensor<8xf32>) -> !fsdp.token<tensor<32xf32>>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 4>]
// start_c3
func.func @other_arguments(%a: tensor<8xf32>) {
  // expected-error @below {{expected a body with arguments of the types of inputs and tokens ('tensor<8xf32>'), got ('tensor<16xf32>')}}
  %t = fsdp.start(%a) on all_gather event 0 {
  ^bb0(%x: tensor<16xf32>):
    %g = fsdp.all_gather %x on @mesh["shard"] : tensor<16xf32> -> tensor<64xf32>
    fsdp.yield %g : tensor<64xf32>
  } : (tensor<8xf32>) -> !fsdp.token<tensor<64xf32>>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 4>]
// start_c4
func.func @yields_something_else(%a: tensor<8xf32>) {
  %t = fsdp.start(%a) on reduce event 0 {
  ^bb0(%x: tensor<8xf32>):
    %g = fsdp.all_reduce %x on @mesh["shard"] : tensor<8xf32>
    // expected-error @below {{expected the results of the 1 transfers in their order}}
    fsdp.yield %x : tensor<8xf32>
  } : (tensor<8xf32>) -> !fsdp.token<tensor<8xf32>>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 4>]
func.func @token_of_other_types(%a: tensor<8xf32>) {
  // expected-error @below {{expected a token of ('tensor<32xf32>'), got '!fsdp.token<tensor<8xf32>>'}}
  %t = fsdp.start(%a) on all_gather event 0 {
  ^bb0(%x: tensor<8xf32>):
    %g = fsdp.all_gather %x on @mesh["shard"] : tensor<8xf32> -> tensor<32xf32>
    fsdp.yield %g : tensor<32xf32>
  } : (tensor<8xf32>) -> !fsdp.token<tensor<8xf32>>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 4>]
// start_c5
func.func @negative_event(%a: tensor<8xf32>) {
  // expected-error @below {{attribute 'event' failed to satisfy constraint}}
  %t = fsdp.start(%a) on all_gather event -1 {
  ^bb0(%x: tensor<8xf32>):
    %g = fsdp.all_gather %x on @mesh["shard"] : tensor<8xf32> -> tensor<32xf32>
    fsdp.yield %g : tensor<32xf32>
  } : (tensor<8xf32>) -> !fsdp.token<tensor<32xf32>>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 4>]
// start_c7
func.func @event_of_33_bits(%a: tensor<8xf32>) {
  // expected-error @below {{attribute 'event' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative whose maximum value is 2147483647}}
  %t = fsdp.start(%a) on all_gather event 4294967296 {
  ^bb0(%x: tensor<8xf32>):
    %g = fsdp.all_gather %x on @mesh["shard"] : tensor<8xf32> -> tensor<32xf32>
    fsdp.yield %g : tensor<32xf32>
  } : (tensor<8xf32>) -> !fsdp.token<tensor<32xf32>>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 4>]
// start_c8
func.func @held_by_weather(%a: tensor<8xf32>) {
  // expected-error @below {{expected "memory" or "limit" as fsdp.held_by, got "weather"}}
  %t = fsdp.start(%a) on all_gather event 0 {
  ^bb0(%x: tensor<8xf32>):
    %g = fsdp.all_gather %x on @mesh["shard"] : tensor<8xf32> -> tensor<32xf32>
    fsdp.yield %g : tensor<32xf32>
  } {fsdp.held_by = "weather"} : (tensor<8xf32>) -> !fsdp.token<tensor<32xf32>>
  return
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 4>]
// start_c6
func.func @token_of_a_stranger(%a: tensor<8xf32>, %s: !fsdp.token<tensor<4xf32>>) {
  // expected-error @below {{expected the tokens of other starts}}
  %t = fsdp.start(%a) on all_gather event 0 after(%s : !fsdp.token<tensor<4xf32>>) {
  ^bb0(%x: tensor<8xf32>, %o: tensor<4xf32>):
    %g = fsdp.all_gather %x on @mesh["shard"] : tensor<8xf32> -> tensor<32xf32>
    fsdp.yield %g : tensor<32xf32>
  } : (tensor<8xf32>) -> !fsdp.token<tensor<32xf32>>
  return
}

// -----

// yield_c1
func.func @yield_outside(%a: tensor<8xf32>) {
  // expected-error @below {{expects parent op to be one of 'fsdp.start, fsdp.attention, fsdp.attention_backward'}}
  fsdp.yield %a : tensor<8xf32>
}

// -----

// wait_c1
fsdp.mesh @mesh [#fsdp.axis<"shard" = 4>]
func.func @wait_for_something_else(%a: tensor<8xf32>) {
  %t = fsdp.start(%a) on all_gather event 0 {
  ^bb0(%x: tensor<8xf32>):
    %g = fsdp.all_gather %x on @mesh["shard"] : tensor<8xf32> -> tensor<32xf32>
    fsdp.yield %g : tensor<32xf32>
  } : (tensor<8xf32>) -> !fsdp.token<tensor<32xf32>>
  // expected-error @below {{expected results of ('tensor<32xf32>'), got ('tensor<16xf32>')}}
  %w = fsdp.wait %t : !fsdp.token<tensor<32xf32>> -> tensor<16xf32>
  return
}

// -----

// wait_c2
func.func @wait_for_a_stranger(%t: !fsdp.token<tensor<8xf32>>) {
  // expected-error @below {{expected the token of a start}}
  %w = fsdp.wait %t : !fsdp.token<tensor<8xf32>> -> tensor<8xf32>
  return
}
