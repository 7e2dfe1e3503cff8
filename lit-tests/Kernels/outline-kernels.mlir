// RUN: fsdp-opt %s --fsdp-outline-kernels --split-input-file | FileCheck %s

#id = affine_map<(d0) -> (d0)>

// Constants and views go inside, results become destinations.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<2x4xf32>
// CHECK-NEXT:    %[[R:.*]] = fsdp.launch @k7_elementwise(%[[X]]) : (tensor<2x4xf32>) -> tensor<8xf32>
// CHECK-NEXT:    return %[[R]]
// CHECK:       func.func private @k7_elementwise(%[[IN:.*]]: tensor<2x4xf32>, %[[OUT:.*]]: tensor<8xf32>) -> tensor<8xf32> {
// CHECK:         tensor.collapse_shape %[[IN]]
// CHECK:         arith.constant 1.0
// CHECK:         %[[V:.*]] = linalg.generic
// CHECK-NOT:     fsdp.kernel
// CHECK:         %[[S:.*]] = bufferization.materialize_in_destination %[[V]] in %[[OUT]]
// CHECK:         return %[[S]]
fsdp.program @step(%x: tensor<2x4xf32>) -> tensor<8xf32> {
  %one = arith.constant 1.0 : f32
  %flat = tensor.collapse_shape %x [[0, 1]] : tensor<2x4xf32> into tensor<8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%flat : tensor<8xf32>) outs(%e : tensor<8xf32>) attrs = {fsdp.kernel = 7 : i64} {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %one : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  fsdp.return %a : tensor<8xf32>
}

// -----

// A scalar that several kernels read is computed in each.

// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.launch @k0_elementwise
// CHECK:         fsdp.launch @k1_elementwise
// CHECK-NOT:     tensor.extract
// CHECK:         return
// CHECK:       func.func private @k1_elementwise
// CHECK:         tensor.extract %{{.*}}[] : tensor<f32>
// CHECK:         arith.negf
// CHECK:       func.func private @k0_elementwise
// CHECK:         tensor.extract %{{.*}}[] : tensor<f32>
// CHECK:         arith.negf
fsdp.program @step(%s: tensor<f32>, %x: tensor<4xf32>, %y: tensor<9xf32>) -> (tensor<4xf32>, tensor<9xf32>) {
  %v = tensor.extract %s[] : tensor<f32>
  %n = arith.negf %v : f32
  %e = tensor.empty() : tensor<4xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) attrs = {fsdp.kernel = 0 : i64} {
  ^bb0(%w: f32, %o: f32):
    %r = arith.mulf %w, %n : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %e1 = tensor.empty() : tensor<9xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%y : tensor<9xf32>) outs(%e1 : tensor<9xf32>) attrs = {fsdp.kernel = 1 : i64} {
  ^bb0(%w: f32, %o: f32):
    %r = arith.mulf %w, %n : f32
    linalg.yield %r : f32
  } -> tensor<9xf32>
  fsdp.return %a, %b : tensor<4xf32>, tensor<9xf32>
}
