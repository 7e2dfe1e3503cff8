// RUN: fsdp-opt %s --fsdp-arena | FileCheck %s

// What is copied to the host may be a state of no flat parameter.
// CHECK-LABEL: fsdp.program @train
// CHECK-SAME:    host = 256
fsdp.state @b buffer "b" : tensor<4xf32>
fsdp.program @train(%b: tensor<4xf32> {fsdp.state = @b}) -> tensor<4xf32> {
  %h = fsdp.offload %b : tensor<4xf32> -> !fsdp.host<tensor<4xf32>>
  %y = fsdp.reload %h : !fsdp.host<tensor<4xf32>> -> tensor<4xf32>
  fsdp.return %y : tensor<4xf32>
}
