// A kernel without a body is left to whoever has it.

// RUN: fsdp-opt %s -o %t
// RUN: fsdp-opt %s --fsdp-tie-inits --fsdp-tie-updates --fsdp-count-flops --fsdp-match-matmuls | diff %t -
// RUN: fsdp-opt %s --fsdp-emit-attention --fsdp-vectorize-kernels --fsdp-deduplicate-kernels | diff %t -

func.func private @k(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
fsdp.state @b buffer "b" : tensor<4xf32>
fsdp.program @step(%x: tensor<4xf32> {fsdp.state = @b}) -> (tensor<4xf32> {fsdp.state = @b}) {
  %0 = fsdp.launch @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return %0 : tensor<4xf32>
}
