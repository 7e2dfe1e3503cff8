// RUN: fsdp-opt %s --allow-unregistered-dialect --fsdp-partition='mesh=shard=2 optimizer=sgd' | FileCheck %s

// A loss that reads no input is computed from parameters alone. It may be
// returned: nothing is read behind the reshard to do so.

// CHECK-LABEL: fsdp.program @train
// CHECK:         %[[ALL:.*]] = fsdp.all_gather
// CHECK:         linalg.generic
// CHECK:         fsdp.all_reduce
// CHECK:         return
#id = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>
func.func @forward_backward(%w: tensor<4xf32> {fsdp.param = {fqn = "w"}},
                            %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.grad = {fqn = "w"}}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %loss = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]}
      ins(%w : tensor<4xf32>) outs(%f : tensor<f32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.mulf %in, %in : f32
    %1 = arith.addf %0, %out : f32
    linalg.yield %1 : f32
  } -> tensor<f32>
  %g = "test.grad"(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %loss, %g : tensor<f32>, tensor<4xf32>
}
