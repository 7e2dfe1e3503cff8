// RUN: fsdp-opt %s --fsdp-verify-schedule -split-input-file -verify-diagnostics

// Who may write over what it reads is what kernels do, whatever launches say.

#id = affine_map<(d0) -> (d0)>
// expected-note @below {{the kernel is here}}
func.func private @reversed(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %empty = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%empty : tensor<8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %c7 = arith.constant 7 : index
    %j = arith.subi %c7, %i : index
    %e = tensor.extract %x[%j] : tensor<8xf32>
    linalg.yield %e : f32
  } -> tensor<8xf32>
  %d = bufferization.materialize_in_destination %r in %out : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %d : tensor<8xf32>
}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> (tensor<8xf32> {fsdp.loss})
    attributes {arena = #fsdp.arena<bytes = 256, inputs = 256>} {
  // expected-error @below {{expected result 0 to be apart from the input that it is tied to, which its kernel still needs when it writes there}}
  %r = fsdp.launch @reversed(%x) tied [0] {fsdp.offsets = array<i64: 0>} : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %r : tensor<8xf32>
}

// -----

// expected-note @below {{the kernel is here}}
func.func private @adds(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %r = scf.for %i = %c0 to %c8 step %c1 iter_args(%sum = %out) -> tensor<8xf32> {
    %a = tensor.extract %x[%i] : tensor<8xf32>
    %b = tensor.extract %sum[%c0] : tensor<8xf32>
    %c = arith.addf %a, %b : f32
    %next = tensor.insert %c into %sum[%c0] : tensor<8xf32>
    scf.yield %next : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}
fsdp.program @step(%x: tensor<8xf32> {fsdp.offset = 0 : i64}) -> (tensor<8xf32> {fsdp.loss})
    attributes {arena = #fsdp.arena<bytes = 512, inputs = 256, transient = 256>} {
  // expected-error @below {{expected result 0 to be tied to what it starts as, since its kernel goes on with what lies there}}
  %r = fsdp.launch @adds(%x) {fsdp.offsets = array<i64: 256>} : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %r : tensor<8xf32>
}
