// RUN: fsdp-opt %s --fsdp-verify-schedule -split-input-file -verify-diagnostics

// Places that no step may have, whoever wrote them.

func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
func.func @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 512, state_offset = 0, state_bytes = 256, communicated_offset = 256, communicated_bytes = 0, transient_offset = 256, transient_bytes = 256}} {
  // expected-error @below {{expected fsdp.offsets = array<i64> of 1 places, got none}}
  %r = fsdp.launch @k(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// expected-error @below {{expected fsdp.offset of i64 on argument 0, got none}}
func.func @step(%x: tensor<8xf32>) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 256}} {
  return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected 32 bytes inside the arena of 256, got a place at 9223372036854775800}}
func.func @step(%x: tensor<8xf32> {fsdp.offset = 9223372036854775800 : i64}) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 256}} {
  return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected a place at a multiple of 4 bytes for 'tensor<8xf32>', got 33}}
func.func @step(%x: tensor<8xf32> {fsdp.offset = 33 : i64}) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 256}} {
  return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected fsdp.arena = {bytes = N : i64, ..} of at least 0 bytes, got {}}}
func.func @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {fsdp.arena = {}} {
  return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected fsdp.schedule = {bound = N : i64, order = "..", step = N : i64} of at least 0 picoseconds and order scheduled, fsdp or in_order, got {bound = 1 : i64, order = "foo", step = 2 : i64}}}
func.func @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 256}, fsdp.schedule = {bound = 1 : i64, order = "foo", step = 2 : i64}} {
  return %x : tensor<8xf32>
}

// -----

// expected-error @below {{of at least 0 picoseconds and order scheduled, fsdp or in_order, got {bound = -1 : i64, order = "fsdp", step = 2 : i64}}}
func.func @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 256}, fsdp.schedule = {bound = -1 : i64, order = "fsdp", step = 2 : i64}} {
  return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected a bound of at most the step's 2 picoseconds in fsdp.schedule, got 3}}
func.func @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 256}, fsdp.schedule = {bound = 3 : i64, order = "fsdp", step = 2 : i64}} {
  return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected tensors of numbers and static shape in a planned step, got 'index'}}
func.func @step(%x: index {fsdp.offset = 0 : i64})
    attributes {fsdp.arena = {bytes = 256}} {
  return
}

// -----

func.func @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64})
    attributes {fsdp.arena = {bytes = 256}} {
  // expected-error @below {{expected a launch, a transfer, a pack, a check or a view in a planned step}}
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  return
}

// -----

// A view is where its source is, and so far behind its begin.
// expected-note @below {{that is here}}
func.func @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<4xf32>
    attributes {fsdp.arena = {bytes = 256}} {
  // expected-error @below {{expected its place at 16, where what it names lies, got 0}}
  %v = fsdp.view %x[4] {fsdp.offsets = array<i64: 0>} : tensor<8xf32> -> tensor<4xf32>
  return %v : tensor<4xf32>
}

// -----

// A result over an operand that it is not tied to.
func.func private @mm(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
func.func private @k(%out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
func.func @step() -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 256, state_offset = 0, state_bytes = 0, communicated_offset = 0, communicated_bytes = 0, transient_offset = 0, transient_bytes = 256}} {
  %x = fsdp.launch @k() {fsdp.offsets = array<i64: 0>} : () -> tensor<8xf32>
  // expected-error @below {{expected mm (op 1) to read and write apart, got bytes [0, 32) of activations (value 0) of k (op 0) and [0, 32) of activations (value 1) of mm (op 1)}}
  %r = fsdp.launch @mm(%x) {fsdp.offsets = array<i64: 0>} : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// The summary says what the places are.
// expected-error @below {{expected bytes = 256 in fsdp.arena, as the places are, got 512 : i64}}
func.func @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 512 : i64}} {
  return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected state_bytes = 256 in fsdp.arena, as the places are, got 0 : i64}}
func.func @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 256 : i64, state_offset = 0 : i64, state_bytes = 0 : i64}} {
  return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected the peak's parts from 0 to 256 bytes together in fsdp.arena, got peak_activations = 512 : i64}}
func.func @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 256, state_offset = 0, state_bytes = 256, communicated_offset = 256, communicated_bytes = 0, transient_offset = 256, transient_bytes = 0, peak_parameters = 0, peak_optimizer = 0, peak_gathered = 0, peak_gradients = 0, peak_activations = 512 : i64, peak_other = 256}} {
  return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected peak_other of at least 256 in fsdp.arena, what the state takes, got 255}}
func.func @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 256, state_offset = 0, state_bytes = 256, communicated_offset = 256, communicated_bytes = 0, transient_offset = 256, transient_bytes = 0, peak_parameters = 0, peak_optimizer = 0, peak_gathered = 0, peak_gradients = 0, peak_activations = 0, peak_other = 255 : i64}} {
  return %x : tensor<8xf32>
}

// -----

func.func private @k(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  return %out : tensor<8xf32>
}
// Its result and its argument are there at once.
// expected-error @below {{expected the peak's parts of at least 512 bytes together in fsdp.arena, got 511}}
func.func @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 512, state_offset = 0, state_bytes = 256, communicated_offset = 256, communicated_bytes = 0, transient_offset = 256, transient_bytes = 256, peak_parameters = 0, peak_optimizer = 0, peak_gathered = 0, peak_gradients = 0, peak_activations = 255, peak_other = 256}} {
  %y = fsdp.launch @k(%x) {fsdp.offsets = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// expected-error @below {{expected peak_gradients beside the other parts of the peak in fsdp.arena, got none}}
func.func @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 256, state_offset = 0, state_bytes = 256, communicated_offset = 256, communicated_bytes = 0, transient_offset = 256, transient_bytes = 0, peak_parameters = 0, peak_optimizer = 0, peak_gathered = 0, peak_activations = 0, peak_other = 256}} {
  return %x : tensor<8xf32>
}

// -----

// expected-error @below {{expected peak_parameters = 256 in fsdp.arena, what the state takes, got 0}}
func.func @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64, fsdp.shard = @p}) -> tensor<8xf32>
    attributes {fsdp.arena = {bytes = 256, state_offset = 0, state_bytes = 256, communicated_offset = 256, communicated_bytes = 0, transient_offset = 256, transient_bytes = 0, peak_parameters = 0, peak_optimizer = 0, peak_gathered = 0, peak_gradients = 0, peak_activations = 0, peak_other = 256}} {
  return %x : tensor<8xf32>
}

// -----

// Its bytes, 2^64, are none to an int64_t.
// expected-error @below {{expected tensors of at most 9007199254740992 bytes in a planned step, got 'tensor<4611686018427387904xf32>'}}
func.func @step(%x: tensor<4611686018427387904xf32> {fsdp.offset = 0 : i64}) -> tensor<4611686018427387904xf32>
    attributes {fsdp.arena = {bytes = 256, state_offset = 0, state_bytes = 256, communicated_offset = 256, communicated_bytes = 0, transient_offset = 256, transient_bytes = 0}} {
  return %x : tensor<4611686018427387904xf32>
}
