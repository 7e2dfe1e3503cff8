// RUN: fsdp-opt %s --fsdp-insert-random | FileCheck %s
// RUN: fsdp-opt %s --fsdp-insert-random | fsdp-opt --fsdp-insert-random | FileCheck %s

// Arguments that a step draws become ops; the others stay.

// CHECK-LABEL: func.func @forward_backward(
// CHECK-SAME: %[[W:.*]]: tensor<4xf32> {fsdp.param = {fqn = "w"}}, %{{.*}}: tensor<4xf32> {fsdp.input = {name = "x"}}, %{{.*}}: tensor<2x3xi32> {fsdp.buffer = {fqn = "bits"}})
// CHECK: %[[U:.*]] = fsdp.random {{ ?}}uniform site 3 : tensor<4xf32>
// CHECK: %[[B:.*]] = fsdp.random {{ ?}}bits site 65535 shared : tensor<2x3xi32>
// CHECK: linalg.mul ins(%[[W]], %[[U]]
func.func @forward_backward(
    %w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
    %u: tensor<4xf32> {fsdp.random = {name = "drop", kind = "uniform", site = 3}},
    %x: tensor<4xf32> {fsdp.input = {name = "x"}},
    %old: tensor<2x3xi32> {fsdp.buffer = {fqn = "bits"}},
    %b: tensor<2x3xi32> {fsdp.random = {name = "noise", kind = "bits", site = 65535, shared = true}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}, tensor<2x3xi32> {fsdp.buffer_update = {fqn = "bits"}}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  %e = tensor.empty() : tensor<4xf32>
  %g = linalg.mul ins(%w, %u : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %loss, %g, %b : tensor<f32>, tensor<4xf32>, tensor<2x3xi32>
}
