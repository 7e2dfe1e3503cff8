// RUN: fsdp-opt %s --fsdp-verify-schedule -split-input-file -verify-diagnostics

// The arena of all steps: w at 0, what is gathered at 256, the result at 512.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
func.func @step(%w: tensor<4xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 768, state_offset = 0, state_bytes = 256, communicated_offset = 256, communicated_bytes = 256, transient_offset = 512, transient_bytes = 256}} {
  %t = fsdp.start(%w) on all_gather event 0 {
  ^bb0(%x: tensor<4xf32>):
    %0 = fsdp.all_gather %x on @mesh["shard"] {fsdp.offsets = array<i64: 256>} : tensor<4xf32> -> tensor<8xf32>
    fsdp.yield %0 : tensor<8xf32>
  } : (tensor<4xf32>) -> !fsdp.token<tensor<8xf32>>
  %g = fsdp.wait %t {fsdp.offsets = array<i64: 256>} : !fsdp.token<tensor<8xf32>> -> tensor<8xf32>
  %r = fsdp.launch @k(%g) {fsdp.offsets = array<i64: 512>} : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// Somebody moved the kernel's result over what the gather still writes.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func private @k(%x: tensor<4xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
func.func @step(%w: tensor<4xf32> {fsdp.offset = 0 : i64}) -> (tensor<8xf32>, tensor<8xf32>)
    attributes {fsdp.arena = {bytes = 768, state_offset = 0, state_bytes = 256, communicated_offset = 256, communicated_bytes = 256, transient_offset = 512, transient_bytes = 256}} {
  // expected-note @below {{the other op is here}}
  %t = fsdp.start(%w) on all_gather event 0 {
  ^bb0(%x: tensor<4xf32>):
    %0 = fsdp.all_gather %x on @mesh["shard"] {fsdp.offsets = array<i64: 256>} : tensor<4xf32> -> tensor<8xf32>
    fsdp.yield %0 : tensor<8xf32>
  } : (tensor<4xf32>) -> !fsdp.token<tensor<8xf32>>
  // expected-error @below {{expected all_gather (op 0) to be over before k (op 1) writes bytes [256, 288) that it writes, got no event between them}}
  %r = fsdp.launch @k(%w) {fsdp.offsets = array<i64: 256>} : (tensor<4xf32>) -> tensor<8xf32>
  %g = fsdp.wait %t {fsdp.offsets = array<i64: 256>} : !fsdp.token<tensor<8xf32>> -> tensor<8xf32>
  return %r, %g : tensor<8xf32>, tensor<8xf32>
}

// -----

// The wait is gone.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func @step(%w: tensor<4xf32> {fsdp.offset = 0 : i64}) -> tensor<4xf32>
    attributes {fsdp.arena = {bytes = 768, state_offset = 0, state_bytes = 256, communicated_offset = 256, communicated_bytes = 256, transient_offset = 512, transient_bytes = 256}} {
  // expected-error @below {{expected a wait for event 0 of all_gather (op 0), got none}}
  %t = fsdp.start(%w) on all_gather event 0 {
  ^bb0(%x: tensor<4xf32>):
    %0 = fsdp.all_gather %x on @mesh["shard"] {fsdp.offsets = array<i64: 256>} : tensor<4xf32> -> tensor<8xf32>
    fsdp.yield %0 : tensor<8xf32>
  } : (tensor<4xf32>) -> !fsdp.token<tensor<8xf32>>
  return %w : tensor<4xf32>
}

// -----

// The second kernel's place is the first one's, whose result is still needed.
func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
func.func @step(%w: tensor<8xf32> {fsdp.offset = 0 : i64}) -> (tensor<8xf32>, tensor<8xf32>)
    attributes {fsdp.arena = {bytes = 768, state_offset = 0, state_bytes = 256, communicated_offset = 256, communicated_bytes = 256, transient_offset = 512, transient_bytes = 256}} {
  %a = fsdp.launch @k(%w) {fsdp.offsets = array<i64: 512>} : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @below {{the other op is here}}
  // expected-error @below {{behind the last op: expected k (op 1) to read value 1 in bytes [512, 544), got value 2 of k (op 1)}}
  %b = fsdp.launch @k(%w) {fsdp.offsets = array<i64: 512>} : (tensor<8xf32>) -> tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}
