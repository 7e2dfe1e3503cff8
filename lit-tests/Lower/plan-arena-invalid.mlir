// RUN: fsdp-opt %s --fsdp-plan-arena -verify-diagnostics

func.func @step(%x: tensor<4x4xf32>) -> tensor<2x4xf32> {
  // expected-error @below {{expected a step of launches, collectives and views (run fsdp-outline-kernels first)}}
  %0 = tensor.extract_slice %x[0, 0] [2, 4] [1, 1] : tensor<4x4xf32> to tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
