// RUN: fsdp-opt %s --fsdp-partition='mesh=shard=2 optimizer=sgd' --fsdp-kernels --fsdp-plan-arena | FileCheck %s

// A constant that a matrix product reads, as a recurrence's first state is, and
// one behind a transpose, are written by kernels: BLAS reads memory only.

// CHECK-LABEL: fsdp.program @train
// CHECK-NOT:     arith.constant
// CHECK-NOT:     linalg.
// CHECK:         %[[START:.*]] = fsdp.launch @k{{.*}}_elementwise() {{.*}}-> tensor<3x4xf32>
// CHECK:         fsdp.launch @k{{.*}}_matmul(%[[START]], %{{.*}}) {{.*}}-> tensor<3x4xf32>
// CHECK:         %[[TURNED:.*]] = fsdp.launch @k{{.*}}_elementwise() {{.*}}-> tensor<4x3xf32>
// CHECK:         fsdp.launch @k{{.*}}_matmul(%[[TURNED]], %{{.*}}) {{.*}}-> tensor<4x4xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#swapped = affine_map<(d0, d1) -> (d1, d0)>
#none = affine_map<(d0, d1) -> ()>
func.func @forward_backward(%w: tensor<4x4xf32> {fsdp.param = {fqn = "w"}},
                            %x: tensor<3x4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4x4xf32> {fsdp.grad = {fqn = "w"}}) {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %table = arith.constant dense<[[1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0], [6.0, 5.0, 4.0, 3.0]]> : tensor<3x4xf32>
  %e0 = tensor.empty() : tensor<3x4xf32>
  %start = linalg.fill ins(%half : f32) outs(%e0 : tensor<3x4xf32>) -> tensor<3x4xf32>
  %sums = linalg.fill ins(%zero : f32) outs(%e0 : tensor<3x4xf32>) -> tensor<3x4xf32>
  %y = linalg.matmul ins(%start, %w : tensor<3x4xf32>, tensor<4x4xf32>) outs(%sums : tensor<3x4xf32>) -> tensor<3x4xf32>
  %e1 = tensor.empty() : tensor<f32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<f32>) -> tensor<f32>
  %loss = linalg.generic {indexing_maps = [#id, #id, #none], iterator_types = ["reduction", "reduction"]}
      ins(%y, %x : tensor<3x4xf32>, tensor<3x4xf32>) outs(%f1 : tensor<f32>) {
  ^bb0(%in: f32, %in_x: f32, %out: f32):
    %0 = arith.mulf %in, %in_x : f32
    %1 = arith.addf %0, %out : f32
    linalg.yield %1 : f32
  } -> tensor<f32>
  %e2 = tensor.empty() : tensor<4x3xf32>
  %turned = linalg.generic {indexing_maps = [#swapped, #id], iterator_types = ["parallel", "parallel"]}
      ins(%table : tensor<3x4xf32>) outs(%e2 : tensor<4x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x3xf32>
  %e3 = tensor.empty() : tensor<4x4xf32>
  %f3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %grad = linalg.matmul ins(%turned, %x : tensor<4x3xf32>, tensor<3x4xf32>) outs(%f3 : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %loss, %grad : tensor<f32>, tensor<4x4xf32>
}
