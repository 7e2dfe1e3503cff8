// RUN: fsdp-opt %s --fsdp-bufferize-kernels --split-input-file -verify-diagnostics

// Ops that upstream cannot bufferize are named where they stand.

func.func private @gather(%x: tensor<4xf32>, %at: tensor<3x1xi64>, %out: tensor<3x1xf32>) -> tensor<3x1xf32> {
  // expected-error @below {{expected an op on tensors that can be lowered to linalg or bufferized, got 'tensor.gather'}}
  %g = tensor.gather %x[%at] gather_dims([0]) : (tensor<4xf32>, tensor<3x1xi64>) -> tensor<3x1xf32>
  %s = bufferization.materialize_in_destination %g in %out : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  return %s : tensor<3x1xf32>
}

// -----

func.func @inside_of_a_loop(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %r = scf.for %i = %zero to %n step %one iter_args(%y = %x) -> tensor<4xf32> {
    // expected-error @below {{expected an op on tensors that can be lowered to linalg or bufferized, got 'math.exp'}}
    %e = math.exp %y : tensor<4xf32>
    scf.yield %e : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
