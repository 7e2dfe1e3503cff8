// RUN: fsdp-opt %s --fsdp-kernels --fsdp-cpu-kernels | FileCheck %s

// Tensors without elements are no work, and no division by their sizes.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %[[Y:[a-z0-9]+]]: tensor<2x3xf32>)
// CHECK-NEXT:    return %[[Y]]
#id = affine_map<(d0, d1) -> (d0, d1)>
fsdp.program @step(%x: tensor<0x4xf32>, %w: tensor<4x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<0x3xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<0x3xf32>) -> tensor<0x3xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<0x4xf32>, tensor<4x3xf32>) outs(%f0 : tensor<0x3xf32>) -> tensor<0x3xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<0x3xf32>) outs(%e0 : tensor<0x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %4 = math.exp %in : f32
    linalg.yield %4 : f32
  } -> tensor<0x3xf32>
  %view = tensor.expand_shape %1 [[0, 1], [2]] output_shape [1, 0, 3] : tensor<0x3xf32> into tensor<1x0x3xf32>
  %back = tensor.collapse_shape %view [[0, 1], [2]] : tensor<1x0x3xf32> into tensor<0x3xf32>
  %2 = tensor.concat dim(0) %back, %y : (tensor<0x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  fsdp.return %2 : tensor<2x3xf32>
}
