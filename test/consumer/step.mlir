// Two layers and a loss in a dialect of its own: one rank's forward and
// backward pass. The weights' transposes are made in forward and, as a trace
// after CSE has it, used again in backward.
module attributes {fsdp.modules = [{class = "Net", fqn = ""},
                                   {class = "Layer", fqn = "layers.0"},
                                   {class = "Layer", fqn = "layers.1"}]} {
  func.func @forward_backward(
      %w0: tensor<16x8xf32> {fsdp.param = {fqn = "layers.0.weight", requires_grad = true, tied = [], init = {kind = "normal", mean = 0.0 : f64, std = 0.1 : f64}}},
      %w1: tensor<4x16xf32> {fsdp.param = {fqn = "layers.1.weight", requires_grad = true, tied = [], init = {kind = "normal", mean = 0.0 : f64, std = 0.1 : f64}}},
      %x: tensor<32x8xf32> {fsdp.input = {name = "x"}},
      %y: tensor<32x4xf32> {fsdp.input = {name = "y"}})
      -> (tensor<f32> {fsdp.loss},
          tensor<16x8xf32> {fsdp.grad = {fqn = "layers.0.weight"}},
          tensor<4x16xf32> {fsdp.grad = {fqn = "layers.1.weight"}}) {
    %w0t = toy.transpose %w0 : (tensor<16x8xf32>) -> tensor<8x16xf32>
    %z0 = toy.matmul %x, %w0t : (tensor<32x8xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
    %h = toy.relu %z0 : (tensor<32x16xf32>) -> tensor<32x16xf32>
    %w1t = toy.transpose %w1 : (tensor<4x16xf32>) -> tensor<16x4xf32>
    %z1 = toy.matmul %h, %w1t : (tensor<32x16xf32>, tensor<16x4xf32>) -> tensor<32x4xf32>
    %loss, %dz1 = toy.squared_error %z1, %y : (tensor<32x4xf32>, tensor<32x4xf32>) -> (tensor<f32>, tensor<32x4xf32>)
    %dz1t = toy.transpose %dz1 : (tensor<32x4xf32>) -> tensor<4x32xf32>
    %dw1 = toy.matmul %dz1t, %h : (tensor<4x32xf32>, tensor<32x16xf32>) -> tensor<4x16xf32>
    %w1b = toy.transpose %w1t : (tensor<16x4xf32>) -> tensor<4x16xf32>
    %dh = toy.matmul %dz1, %w1b : (tensor<32x4xf32>, tensor<4x16xf32>) -> tensor<32x16xf32>
    %dz0 = toy.relu_grad %z0, %dh : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %dz0t = toy.transpose %dz0 : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %dw0 = toy.matmul %dz0t, %x : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
    return %loss, %dw0, %dw1 : tensor<f32>, tensor<16x8xf32>, tensor<4x16xf32>
  }
}
