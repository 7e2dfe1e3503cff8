// RUN: fsdp-opt %s --fsdp-recompute-cheap-values --split-input-file | FileCheck %s

#id = affine_map<(d0) -> (d0)>

// x + 1 is computed again where x is read anyway: kernel 1 needs only x.

// CHECK-LABEL: func.func @step
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<64xf32>
// CHECK:         linalg.generic {{.*}} ins(%[[X]] : tensor<64xf32>)
// CHECK-SAME:      fsdp.kernel = 1
// CHECK:           arith.addf
// CHECK:         %[[AGAIN:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[X]] :
// CHECK:           arith.mulf
// CHECK-NOT:     fsdp.kernel = 0
func.func @step(%x: tensor<64xf32>) -> tensor<64xf32> {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 0 : i64} {
  ^bb0(%v: f32, %o: f32):
    %r = arith.addf %v, %one : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %b = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%a, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 1 : i64} {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = arith.mulf %v, %w : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  return %b : tensor<64xf32>
}

// -----

// What is expensive is kept.

// CHECK-LABEL: func.func @step
// CHECK:         fsdp.kernel = 0
// CHECK:           math.tanh
// CHECK:         fsdp.kernel = 1
// CHECK-NOT:       math.tanh
func.func @step(%x: tensor<64xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 0 : i64} {
  ^bb0(%v: f32, %o: f32):
    %r = math.tanh %v : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%a, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) attrs = {fsdp.kernel = 1 : i64} {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %r = arith.mulf %v, %w : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  return %b : tensor<64xf32>
}
