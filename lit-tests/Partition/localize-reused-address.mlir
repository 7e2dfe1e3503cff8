// RUN: fsdp-opt %s --allow-unregistered-dialect --fsdp-localize-values | FileCheck %s

// Copies are made while originals are erased. A copy for the backward pass that
// came to lie where an original of the forward pass had been was counted as
// forward; backward then used what forward had computed from parameters, which
// kept their unit gathered.

// CHECK-LABEL: func.func @forward_backward
// CHECK-COUNT-4: math.exp
// CHECK:         "test.loss"
// CHECK-COUNT-4: math.exp
// CHECK:         "test.last"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @forward_backward(%p0: tensor<4x4xf32> {fsdp.param = {fqn = "p0"}},
    %p1: tensor<4x4xf32> {fsdp.param = {fqn = "p1"}},
    %p2: tensor<4x4xf32> {fsdp.param = {fqn = "p2"}},
    %p3: tensor<4x4xf32> {fsdp.param = {fqn = "p3"}},
    %x: tensor<4x4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4x4xf32> {fsdp.grad = {fqn = "p0"}}, tensor<4x4xf32> {fsdp.grad = {fqn = "p1"}}, tensor<4x4xf32> {fsdp.grad = {fqn = "p2"}}, tensor<4x4xf32> {fsdp.grad = {fqn = "p3"}}) {
  %e = tensor.empty() : tensor<4x4xf32>
  %e0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p0 : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %1 = math.exp %in : f32
    linalg.yield %1 : f32
  } -> tensor<4x4xf32>
  %a0 = tensor.expand_shape %e0 [[0, 1], [2, 3]] output_shape [1, 4, 1, 4] : tensor<4x4xf32> into tensor<1x4x1x4xf32>
  %b0 = tensor.collapse_shape %a0 [[0, 1], [2, 3]] : tensor<1x4x1x4xf32> into tensor<4x4xf32>
  %c0 = tensor.expand_shape %b0 [[0, 1], [2, 3]] output_shape [1, 4, 1, 4] : tensor<4x4xf32> into tensor<1x4x1x4xf32>
  "test.forward"(%x, %c0) : (tensor<4x4xf32>, tensor<1x4x1x4xf32>) -> ()
  %e1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p1 : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %1 = math.exp %in : f32
    linalg.yield %1 : f32
  } -> tensor<4x4xf32>
  %a1 = tensor.expand_shape %e1 [[0, 1], [2, 3]] output_shape [1, 4, 1, 4] : tensor<4x4xf32> into tensor<1x4x1x4xf32>
  %b1 = tensor.collapse_shape %a1 [[0, 1], [2, 3]] : tensor<1x4x1x4xf32> into tensor<4x4xf32>
  %c1 = tensor.expand_shape %b1 [[0, 1], [2, 3]] output_shape [1, 4, 1, 4] : tensor<4x4xf32> into tensor<1x4x1x4xf32>
  "test.forward"(%x, %c1) : (tensor<4x4xf32>, tensor<1x4x1x4xf32>) -> ()
  %e2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p2 : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %1 = math.exp %in : f32
    linalg.yield %1 : f32
  } -> tensor<4x4xf32>
  %a2 = tensor.expand_shape %e2 [[0, 1], [2, 3]] output_shape [1, 4, 1, 4] : tensor<4x4xf32> into tensor<1x4x1x4xf32>
  %b2 = tensor.collapse_shape %a2 [[0, 1], [2, 3]] : tensor<1x4x1x4xf32> into tensor<4x4xf32>
  %c2 = tensor.expand_shape %b2 [[0, 1], [2, 3]] output_shape [1, 4, 1, 4] : tensor<4x4xf32> into tensor<1x4x1x4xf32>
  "test.forward"(%x, %c2) : (tensor<4x4xf32>, tensor<1x4x1x4xf32>) -> ()
  %e3 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p3 : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %1 = math.exp %in : f32
    linalg.yield %1 : f32
  } -> tensor<4x4xf32>
  %a3 = tensor.expand_shape %e3 [[0, 1], [2, 3]] output_shape [1, 4, 1, 4] : tensor<4x4xf32> into tensor<1x4x1x4xf32>
  %b3 = tensor.collapse_shape %a3 [[0, 1], [2, 3]] : tensor<1x4x1x4xf32> into tensor<4x4xf32>
  %c3 = tensor.expand_shape %b3 [[0, 1], [2, 3]] output_shape [1, 4, 1, 4] : tensor<4x4xf32> into tensor<1x4x1x4xf32>
  "test.forward"(%x, %c3) : (tensor<4x4xf32>, tensor<1x4x1x4xf32>) -> ()
  %loss = "test.loss"(%c0, %c1, %c2, %c3) : (tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>, tensor<1x4x1x4xf32>) -> tensor<f32>
  %g0 = "test.grad"(%loss, %c0) : (tensor<f32>, tensor<1x4x1x4xf32>) -> tensor<4x4xf32>
  %g1 = "test.grad"(%loss, %c1) : (tensor<f32>, tensor<1x4x1x4xf32>) -> tensor<4x4xf32>
  %g2 = "test.grad"(%loss, %c2) : (tensor<f32>, tensor<1x4x1x4xf32>) -> tensor<4x4xf32>
  %g3 = "test.last"(%loss, %c3) : (tensor<f32>, tensor<1x4x1x4xf32>) -> tensor<4x4xf32>
  return %loss, %g0, %g1, %g2, %g3 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
