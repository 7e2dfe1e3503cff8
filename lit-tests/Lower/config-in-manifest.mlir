// RUN: fsdp-compile %s --optimizer sgd --emit llvm -o - 2>/dev/null | FileCheck %s

// What decides what the model computes stands in the manifest, as an object.
// CHECK: \22config\22:{\22model_type\22:\22llama\22,\22rms_norm_eps\22:1.0000000000000001e-05}

module attributes {fsdp.modules = [{fqn = "", class = "Llama", config = "{\22model_type\22: \22llama\22, \22rms_norm_eps\22: 1e-5}"}]} {
  func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}})
      -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
}
