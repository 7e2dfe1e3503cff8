// RUN: fsdp-opt %s --fsdp-cpu-kernels -verify-diagnostics

// An op that upstream cannot bufferize is named with its location.

fsdp.program @step(%x: tensor<4xf32>, %at: tensor<3x1xi64>) -> tensor<3x1xf32> {
  %0 = fsdp.launch @k(%x, %at) : (tensor<4xf32>, tensor<3x1xi64>) -> tensor<3x1xf32>
  fsdp.return %0 : tensor<3x1xf32>
}
func.func private @k(%x: tensor<4xf32>, %at: tensor<3x1xi64>, %out: tensor<3x1xf32>) -> tensor<3x1xf32> {
  // expected-error @below {{expected an op on tensors that can be lowered to linalg or bufferized, got 'tensor.gather'}}
  %g = tensor.gather %x[%at] gather_dims([0]) : (tensor<4xf32>, tensor<3x1xi64>) -> tensor<3x1xf32>
  %s = bufferization.materialize_in_destination %g in %out : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  return %s : tensor<3x1xf32>
}
