// RUN: fsdp-opt %s --fsdp-verify-schedule -split-input-file -verify-diagnostics

// Places that no step may have, whoever wrote them.

func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 512, inputs = 256, transient = 256>} {
  // expected-error @below {{expected fsdp.offsets = array<i64> of 1 places, got none}}
  %r = fsdp.launch @k(%x) : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %r : tensor<8xf32>
}

// -----

// expected-error @below {{expected fsdp.offset of i64 on argument 0, got none}}
fsdp.program @step(%x: tensor<8xf32>) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>} {
  fsdp.return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected 32 bytes inside the arena of 256, got a place at 9223372036854775800}}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 9223372036854775800 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>} {
  fsdp.return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected a place at a multiple of 4 bytes for 'tensor<8xf32>', got 33}}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 33 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>} {
  fsdp.return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected a planned arena (run fsdp-plan-arena first)}}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32> {
  fsdp.return %x : tensor<8xf32>
}

// -----

// All programs find a state at one place.
// expected-note @below {{the state is here}}
fsdp.state @b buffer "b" : tensor<8xf32> at 256
// expected-error @below {{expected argument 0 at 256, the place of its state, got 0}}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64, fsdp.state = @b}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 512, state = 512>} {
  fsdp.return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected a place, got none (run fsdp-layout-state first)}}
fsdp.state @b buffer "b" : tensor<8xf32>
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64, fsdp.state = @b}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 256, state = 256>} {
  fsdp.return %x : tensor<8xf32>
}

// -----

fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    // expected-error @below {{to be one of: scheduled, fsdp, in_order}}
    // expected-error @below {{failed to parse}}
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>, schedule = #fsdp.schedule<order = foo, bound = 1, step = 2, machine = "m", limit = "compute">} {
  fsdp.return %x : tensor<8xf32>
}

// -----

fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    // expected-error @below {{expected bound and step of at least 0 picoseconds in a schedule, got -1 and 2}}
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>, schedule = #fsdp.schedule<order = fsdp, bound = -1, step = 2, machine = "m", limit = "compute">} {
  fsdp.return %x : tensor<8xf32>
}

// -----

fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    // expected-error @below {{expected a bound of at most the step's 2 picoseconds in a schedule, got 3}}
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>, schedule = #fsdp.schedule<order = fsdp, bound = 3, step = 2, machine = "m", limit = "compute">} {
  fsdp.return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected tensors of numbers and static shape in a planned step, got 'index'}}
fsdp.program @step(%x: index {fsdp.offset = 0 : i64})
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>} {
  fsdp.return
}

// -----

fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64})
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>} {
  // expected-error @below {{expected a launch, a transfer, a pack, a check or a view in a planned step}}
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  fsdp.return
}

// -----

// A view is where its source is, and so far behind its begin.
// expected-note @below {{that is here}}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<4xf32>
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>} {
  // expected-error @below {{expected its place at 16, where what it names lies, got 0}}
  %v = fsdp.view %x[4] {fsdp.offsets = array<i64: 0>} : tensor<8xf32> -> tensor<4xf32>
  fsdp.return %v : tensor<4xf32>
}

// -----

// A result over an operand that it is not tied to.
func.func private @mm(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
func.func private @k(%out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
fsdp.program @step() -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 256, transient = 256>} {
  %x = fsdp.launch @k() {fsdp.offsets = array<i64: 0>} : () -> tensor<8xf32>
  // expected-error @below {{expected mm (op 1) to read and write apart, got bytes [0, 32) of activations (value 0) of k (op 0) and [0, 32) of activations (value 1) of mm (op 1)}}
  %r = fsdp.launch @mm(%x) {fsdp.offsets = array<i64: 0>} : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %r : tensor<8xf32>
}

// -----

// The summary says what the places are.
// expected-error @below {{expected bytes = 256 in its arena, as the places are, got 512}}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 512, inputs = 256, transient = 256>} {
  fsdp.return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected inputs = 256 in its arena, as the places are, got 0}}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 256, transient = 256>} {
  fsdp.return %x : tensor<8xf32>
}

// -----

fsdp.state @b buffer "b" : tensor<8xf32> at 0
// expected-error @below {{expected state = 256 in its arena, as the places are, got 0}}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64, fsdp.state = @b}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>} {
  fsdp.return %x : tensor<8xf32>
}

// -----

// So is that of a state that the program does not read.
fsdp.state @b buffer "b" : tensor<8xf32> at 0
fsdp.state @idle buffer "idle" : tensor<8xf32> at 256
// expected-error @below {{expected bytes = 512 in its arena, as the places are, got 256}}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64, fsdp.state = @b}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 256, state = 256>} {
  fsdp.return %x : tensor<8xf32>
}

// -----

fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    // expected-error @below {{expected parts of an arena's peak from 0 to 256 bytes together, got array<i64: 0, 0, 0, 0, 512, 256, 0>}}
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256, peak = [0, 0, 0, 0, 512, 256, 0]>} {
  fsdp.return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected at least 256 bytes of other in the arena's peak, what states, inputs and the workspace take, got 255}}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256, peak = [0, 0, 0, 0, 0, 255, 0]>} {
  fsdp.return %x : tensor<8xf32>
}

// -----

func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
// Its result and its argument are there at once.
// expected-error @below {{expected the parts of the arena's peak to be at least 512 bytes together, got 511}}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 512, inputs = 256, transient = 256, peak = [0, 0, 0, 0, 255, 256, 0]>} {
  %y = fsdp.launch @k(%x) {fsdp.offsets = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %y : tensor<8xf32>
}

// -----

fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    // expected-error @below {{expected 7 parts of an arena's peak, got 6}}
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256, peak = [0, 0, 0, 0, 256, 0]>} {
  fsdp.return %x : tensor<8xf32>
}

// -----

fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @p on @mesh shard [] replicate ["shard"] state f32 gather f32 reduce f32 numel 32 [
  <"p", tensor<8xf32> at 0>
] {trainable, unit = ""}
fsdp.state @p.param parameter of @p : tensor<8xf32> at 0
// expected-error @below {{expected 256 bytes of parameters in the arena's peak, what states, inputs and the workspace take, got 0}}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64, fsdp.state = @p.param}) -> tensor<8xf32>
    attributes {arena = #fsdp.arena<bytes = 256, state = 256, peak = [0, 0, 0, 0, 0, 256, 0]>} {
  fsdp.return %x : tensor<8xf32>
}

// -----

// Its bytes, 2^64, are none to an int64_t.
// expected-error @below {{expected tensors of at most 9007199254740992 bytes in a planned step, got 'tensor<4611686018427387904xf32>'}}
fsdp.program @step(%x: tensor<4611686018427387904xf32> {fsdp.offset = 0 : i64}) -> tensor<4611686018427387904xf32>
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>} {
  fsdp.return %x : tensor<4611686018427387904xf32>
}
