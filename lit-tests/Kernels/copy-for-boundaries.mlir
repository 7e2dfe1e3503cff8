// RUN: fsdp-opt %s --fsdp-partition='mesh=shard=2 optimizer=sgd' --fsdp-kernels --fsdp-plan-arena | FileCheck %s

// A gradient that is a slice of something larger, or a constant, lies nowhere:
// what packs it into the flat gradient could not read it.

// CHECK-LABEL: fsdp.program @train
// CHECK-NOT:     linalg.
// CHECK-NOT:     tensor.extract_slice
// CHECK:         %[[HALF:.*]] = fsdp.launch @{{.*}} -> tensor<4x4xf32>
// CHECK:         %[[ONES:.*]] = fsdp.launch @{{.*}} -> tensor<4xf32>
// CHECK:         fsdp.pack %[[HALF]] at 0, %[[ONES]] at 32
#id = affine_map<(d0, d1) -> (d0, d1)>
#none = affine_map<(d0, d1) -> ()>
#row = affine_map<(d0, d1) -> (d1)>
func.func @forward_backward(%w: tensor<4x4xf32> {fsdp.param = {fqn = "w"}},
                            %b: tensor<4xf32> {fsdp.param = {fqn = "b"}},
                            %x: tensor<8x4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4x4xf32> {fsdp.grad = {fqn = "w"}}, tensor<4xf32> {fsdp.grad = {fqn = "b"}}) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e0 = tensor.empty() : tensor<f32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
  %loss = linalg.generic {indexing_maps = [#id, #row, #none], iterator_types = ["reduction", "reduction"]}
      ins(%w, %b : tensor<4x4xf32>, tensor<4xf32>) outs(%f0 : tensor<f32>) {
  ^bb0(%in: f32, %in_b: f32, %out: f32):
    %0 = arith.mulf %in, %in_b : f32
    %1 = arith.addf %0, %out : f32
    linalg.yield %1 : f32
  } -> tensor<f32>
  %e1 = tensor.empty() : tensor<8x4xf32>
  %square = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x4xf32>) outs(%e1 : tensor<8x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.mulf %in, %in : f32
    linalg.yield %0 : f32
  } -> tensor<8x4xf32>
  %half = tensor.extract_slice %square[4, 0] [4, 4] [1, 1] : tensor<8x4xf32> to tensor<4x4xf32>
  %e2 = tensor.empty() : tensor<4xf32>
  %ones = linalg.fill ins(%one : f32) outs(%e2 : tensor<4xf32>) -> tensor<4xf32>
  return %loss, %half, %ones : tensor<f32>, tensor<4x4xf32>, tensor<4xf32>
}
