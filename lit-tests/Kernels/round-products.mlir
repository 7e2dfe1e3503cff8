// RUN: fsdp-opt %s --fsdp-form-kernels --fsdp-outline-kernels --fsdp-match-matmuls | FileCheck %s

// A product of narrow operands that is summed in f32 and rounded is one call of
// a BLAS, its transposed operand a stride. Where the sum itself is read, or the
// operands are wide, the product stays what the trace says.

#id = affine_map<(d0, d1) -> (d0, d1)>
#t = affine_map<(d0, d1) -> (d1, d0)>

// CHECK-LABEL: fsdp.program @step
// CHECK: %[[A:.*]] = fsdp.launch @[[ROUNDED:.*]](%{{.*}}, %{{.*}}) : (tensor<5x7xbf16>, tensor<6x7xbf16>) -> tensor<5x6xbf16>
// CHECK: fsdp.launch @{{.*}} -> tensor<5x6xf32>
// CHECK: fsdp.launch @{{.*}} -> tensor<5x6xf32>
fsdp.program @step(%a: tensor<5x7xbf16>, %b: tensor<6x7xbf16>, %c: tensor<7x6xbf16>, %x: tensor<5x7xf32>, %y: tensor<7x6xf32>)
    -> (tensor<5x6xbf16>, tensor<5x6xbf16>, tensor<5x6xf32>, tensor<5x6xbf16>) {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<7x6xbf16>
  %bt = linalg.generic {indexing_maps = [#t, #id], iterator_types = ["parallel", "parallel"]} ins(%b : tensor<6x7xbf16>) outs(%e0 : tensor<7x6xbf16>) {
  ^bb0(%v: bf16, %o: bf16):
    linalg.yield %v : bf16
  } -> tensor<7x6xbf16>
  %e1 = tensor.empty() : tensor<5x6xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<5x6xf32>) -> tensor<5x6xf32>
  %p1 = linalg.matmul ins(%a, %bt : tensor<5x7xbf16>, tensor<7x6xbf16>) outs(%f1 : tensor<5x6xf32>) -> tensor<5x6xf32>
  %r1 = tensor.empty() : tensor<5x6xbf16>
  %rounded = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p1 : tensor<5x6xf32>) outs(%r1 : tensor<5x6xbf16>) {
  ^bb0(%v: f32, %o: bf16):
    %n = arith.truncf %v : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<5x6xbf16>

  // The sum is read by another op, too.
  %e2 = tensor.empty() : tensor<5x6xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<5x6xf32>) -> tensor<5x6xf32>
  %p2 = linalg.matmul ins(%a, %c : tensor<5x7xbf16>, tensor<7x6xbf16>) outs(%f2 : tensor<5x6xf32>) -> tensor<5x6xf32>
  %r2 = tensor.empty() : tensor<5x6xbf16>
  %both = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p2 : tensor<5x6xf32>) outs(%r2 : tensor<5x6xbf16>) {
  ^bb0(%v: f32, %o: bf16):
    %n = arith.truncf %v : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<5x6xbf16>

  // A wide product that is rounded is another number.
  %e3 = tensor.empty() : tensor<5x6xf32>
  %f3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<5x6xf32>) -> tensor<5x6xf32>
  %p3 = linalg.matmul ins(%x, %y : tensor<5x7xf32>, tensor<7x6xf32>) outs(%f3 : tensor<5x6xf32>) -> tensor<5x6xf32>
  %r3 = tensor.empty() : tensor<5x6xbf16>
  %wide = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p3 : tensor<5x6xf32>) outs(%r3 : tensor<5x6xbf16>) {
  ^bb0(%v: f32, %o: bf16):
    %n = arith.truncf %v : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<5x6xbf16>
  fsdp.return %rounded, %both, %p2, %wide : tensor<5x6xbf16>, tensor<5x6xbf16>, tensor<5x6xf32>, tensor<5x6xbf16>
}
// CHECK: func.func private @[[ROUNDED]]
// CHECK-SAME: fsdp.matmul = #fsdp.matmul<
