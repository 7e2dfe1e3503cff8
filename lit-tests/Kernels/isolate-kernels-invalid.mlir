// RUN: fsdp-opt %s --verify-diagnostics --fsdp-isolate-kernels

// Kernels without code go into a module of their own, for which the name has to be free.

fsdp.program @step(%x: tensor<4xf32>) {
  %0 = fsdp.launch @fallback(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return
}
// expected-error @below {{expected no @fallback, where kernels without code of their own go, got one}}
func.func private @fallback(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  %s = bufferization.materialize_in_destination %x in %out : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}
