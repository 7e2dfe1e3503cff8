// RUN: fsdp-opt %s --fsdp-verify-schedule -split-input-file -verify-diagnostics

// The arena of all steps: w at 0, what is gathered at 256, the result at 512.

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
fsdp.program @step(%w: tensor<4xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 768, inputs = 256, communicated = 256, transient = 256>} {
  %t = fsdp.start(%w) on all_gather event 0 {
  ^bb0(%x: tensor<4xf32>):
    %0 = fsdp.all_gather %x on @mesh["shard"] {fsdp.offsets = array<i64: 256>} : tensor<4xf32> -> tensor<8xf32>
    fsdp.yield %0 : tensor<8xf32>
  } : (tensor<4xf32>) -> !fsdp.token<tensor<8xf32>>
  %g = fsdp.wait %t {fsdp.offsets = array<i64: 256>} : !fsdp.token<tensor<8xf32>> -> tensor<8xf32>
  %r = fsdp.launch @k(%g) {fsdp.offsets = array<i64: 512>} : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %r : tensor<8xf32>
}

// -----

// Somebody moved the kernel's result over what the gather still writes.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func private @k(%x: tensor<4xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
fsdp.program @step(%w: tensor<4xf32> {fsdp.offset = 0 : i64}) -> (tensor<8xf32>, tensor<8xf32>)
    attributes {arena = #fsdp.arena<bytes = 768, inputs = 256, communicated = 256, transient = 256>} {
  // expected-note @below {{the other op is here}}
  %t = fsdp.start(%w) on all_gather event 0 {
  ^bb0(%x: tensor<4xf32>):
    %0 = fsdp.all_gather %x on @mesh["shard"] {fsdp.offsets = array<i64: 256>} : tensor<4xf32> -> tensor<8xf32>
    fsdp.yield %0 : tensor<8xf32>
  } : (tensor<4xf32>) -> !fsdp.token<tensor<8xf32>>
  // expected-error @below {{expected all_gather (op 0) to be over before k (op 1) writes bytes [256, 288) of gathered (value 1) of all_gather (op 0) that it writes, got no event between them}}
  %r = fsdp.launch @k(%w) {fsdp.offsets = array<i64: 256>} : (tensor<4xf32>) -> tensor<8xf32>
  %g = fsdp.wait %t {fsdp.offsets = array<i64: 256>} : !fsdp.token<tensor<8xf32>> -> tensor<8xf32>
  fsdp.return %r, %g : tensor<8xf32>, tensor<8xf32>
}

// -----

// The wait is gone.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%w: tensor<4xf32> {fsdp.offset = 0 : i64}) -> tensor<4xf32>
    attributes {arena = #fsdp.arena<bytes = 768, inputs = 256, communicated = 256, transient = 256>} {
  // expected-error @below {{expected a wait for event 0 of all_gather (op 0), got none}}
  %t = fsdp.start(%w) on all_gather event 0 {
  ^bb0(%x: tensor<4xf32>):
    %0 = fsdp.all_gather %x on @mesh["shard"] {fsdp.offsets = array<i64: 256>} : tensor<4xf32> -> tensor<8xf32>
    fsdp.yield %0 : tensor<8xf32>
  } : (tensor<4xf32>) -> !fsdp.token<tensor<8xf32>>
  fsdp.return %w : tensor<4xf32>
}

// -----

// The second kernel's place is the first one's, whose result is still needed.
func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
fsdp.program @step(%w: tensor<8xf32> {fsdp.offset = 0 : i64}) -> (tensor<8xf32>, tensor<8xf32>)
    attributes {arena = #fsdp.arena<bytes = 768, inputs = 256, communicated = 256, transient = 256>} {
  %a = fsdp.launch @k(%w) {fsdp.offsets = array<i64: 512>} : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @below {{the other op is here}}
  // expected-error @below {{behind the last op: expected k (op 1) to read activations (value 1) of k (op 0) in bytes [512, 544), got activations (value 2) of k (op 1)}}
  %b = fsdp.launch @k(%w) {fsdp.offsets = array<i64: 512>} : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// -----

// The second value goes over the first one on the host, whose copy is still to
// be fetched; offsets of the two arenas are not compared.
func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> (tensor<8xf32>, tensor<8xf32>)
    attributes {arena = #fsdp.arena<bytes = 1024, inputs = 256, transient = 768, host = 512>} {
  %a = fsdp.launch @k(%x) {fsdp.offsets = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
  %h = fsdp.offload %a {fsdp.offsets = array<i64: 0>} : tensor<8xf32> -> !fsdp.host<tensor<8xf32>>
  %b = fsdp.launch @k(%x) {fsdp.offsets = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @below {{the other op is here}}
  %i = fsdp.offload %b {fsdp.offsets = array<i64: 0>} : tensor<8xf32> -> !fsdp.host<tensor<8xf32>>
  // expected-error @below {{expected reload (op 6) to read activations (value 2) of offload (op 1) in bytes [0, 32) of the host, got activations (value 4) of offload (op 4)}}
  %c = fsdp.reload %h {fsdp.offsets = array<i64: 512>} : !fsdp.host<tensor<8xf32>> -> tensor<8xf32>
  %d = fsdp.reload %i {fsdp.offsets = array<i64: 768>} : !fsdp.host<tensor<8xf32>> -> tensor<8xf32>
  fsdp.return %c, %d : tensor<8xf32>, tensor<8xf32>
}

// -----

// What is copied to the host is overwritten before anybody waited.
func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> (tensor<8xf32>)
    attributes {arena = #fsdp.arena<bytes = 512, inputs = 256, transient = 256, host = 256>} {
  %a = fsdp.launch @k(%x) {fsdp.offsets = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
  // expected-note @below {{the other op is here}}
  %t = fsdp.start(%a) on d2h event 0 {
  ^bb0(%s: tensor<8xf32>):
    %h = fsdp.offload %s {fsdp.offsets = array<i64: 0>} : tensor<8xf32> -> !fsdp.host<tensor<8xf32>>
    fsdp.yield %h : !fsdp.host<tensor<8xf32>>
  } : (tensor<8xf32>) -> !fsdp.token<!fsdp.host<tensor<8xf32>>>
  // expected-error @below {{expected offload (op 1) to be over before k (op 2) writes bytes [256, 288) of activations (value 1) of k (op 0) that it reads, got no event between them}}
  %b = fsdp.launch @k(%x) {fsdp.offsets = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
  %w = fsdp.wait %t {fsdp.offsets = array<i64: 0>} : !fsdp.token<!fsdp.host<tensor<8xf32>>> -> !fsdp.host<tensor<8xf32>>
  fsdp.return %b : tensor<8xf32>
}

// -----

// A transfer without a queue has an event of its own, beside those of starts.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.program @step(%p: tensor<8xf32> {fsdp.offset = 0 : i64}, %q: tensor<8xf32> {fsdp.offset = 256 : i64}) -> (tensor<8xf32>, tensor<8xf32>)
    attributes {arena = #fsdp.arena<bytes = 512, inputs = 512>} {
  %t = fsdp.start(%p) on all_reduce event 0 {
  ^bb0(%s: tensor<8xf32>):
    %r = fsdp.all_reduce %s on @mesh["shard"] divisor 2 {fsdp.offsets = array<i64: 0>} : tensor<8xf32>
    fsdp.yield %r : tensor<8xf32>
  } : (tensor<8xf32>) -> !fsdp.token<tensor<8xf32>>
  %a = fsdp.wait %t {fsdp.offsets = array<i64: 0>} : !fsdp.token<tensor<8xf32>> -> tensor<8xf32>
  %b = fsdp.all_reduce %q on @mesh["shard"] divisor 2 {fsdp.offsets = array<i64: 256>} : tensor<8xf32>
  fsdp.return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// -----

// Without ops: what a step takes is what it leaves.
fsdp.program @step(%a: tensor<64xf32> {fsdp.offset = 0 : i64}, %b: tensor<64xf32> {fsdp.offset = 256 : i64}) -> tensor<64xf32>
    attributes {arena = #fsdp.arena<bytes = 512, inputs = 512>} {
  fsdp.return %a : tensor<64xf32>
}

// -----

// And no argument goes over another one.
// expected-error @below {{behind the last op: expected the caller of the step to read other (value 0) of the caller in bytes [0, 256), got other (value 1) of the caller}}
fsdp.program @step(%a: tensor<64xf32> {fsdp.offset = 0 : i64}, %b: tensor<64xf32> {fsdp.offset = 0 : i64}) -> tensor<64xf32>
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>} {
  fsdp.return %a : tensor<64xf32>
}
