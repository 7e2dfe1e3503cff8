// A step whose loss, gradient and buffer come from the parameters alone (a
// regularizer, a running copy): they may leave the step although the unit is
// resharded before it ends.
//
// RUN: fsdp-opt %s --fsdp-partition=optimizer=sgd | FileCheck %s
// RUN: fsdp-opt %s --fsdp-partition='optimizer=sgd wrap=none strategy=no_shard clip-norm' | FileCheck %s --check-prefix=NOSHARD

// CHECK:     %[[W:.*]] = fsdp.all_gather
// CHECK:     %[[V:.*]] = fsdp.view %[[W]][0] : tensor<64xf32> -> tensor<4xf32>
// CHECK-DAG: linalg.dot ins(%[[V]], %[[V]]
// CHECK-DAG: fsdp.pack %[[V]] at 0
// CHECK:     return %{{.*}}, %[[V]], %{{.*}} :
// NOSHARD-NOT: fsdp.all_gather
// NOSHARD:     return
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}}, %b: tensor<4xf32> {fsdp.buffer = {fqn = "copy"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}, tensor<4xf32> {fsdp.buffer_update = {fqn = "copy"}}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %loss = linalg.dot ins(%w, %w : tensor<4xf32>, tensor<4xf32>) outs(%init : tensor<f32>) -> tensor<f32>
  return %loss, %w, %w : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}
