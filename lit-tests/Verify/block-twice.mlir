// Upstream's parser frees a block that is defined twice twice: the error is said, and nothing else.
//
// RUN: not fsdp-opt %s 2>&1 | FileCheck %s
// RUN: not fsdp-compile %s -o %t 2>&1 | FileCheck %s
// CHECK: error: redefinition of block '^bb0'
// CHECK-NOT: internal error
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %1 = arith.addf %a, %b : f32
  ^bb0(%c: f32, %d: f32):
    linalg.yield %1 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
