// RUN: fsdp-opt %s --fsdp-form-kernels --fsdp-outline-kernels --fsdp-match-matmuls --split-input-file | FileCheck %s

// A product of narrow operands that is summed in f32 and rounded is one call of
// a BLAS, its transposed operand a stride. Where the sum itself is read, the
// call stores it in f32. Where the operands are wide, the product stays what
// the trace says.

#id = affine_map<(d0, d1) -> (d0, d1)>
#t = affine_map<(d0, d1) -> (d1, d0)>

// CHECK-LABEL: fsdp.program @step
// CHECK: %[[A:.*]] = fsdp.launch @[[ROUNDED:.*]](%{{.*}}, %{{.*}}) : (tensor<5x7xbf16>, tensor<6x7xbf16>) -> tensor<5x6xbf16>
// CHECK: %[[B:.*]] = fsdp.launch @[[SUM:.*]](%{{.*}}, %{{.*}}) : (tensor<5x7xbf16>, tensor<7x6xbf16>) -> tensor<5x6xf32>
// CHECK: fsdp.launch @[[WIDE:.*]](%{{.*}}, %{{.*}}) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
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
// CHECK-DAG: func.func private @[[ROUNDED]]({{.*}}fsdp.matmul = #fsdp.matmul<
// CHECK-DAG: func.func private @[[SUM]]({{.*}}fsdp.matmul = #fsdp.matmul<
// CHECK-DAG: func.func private @[[WIDE]]({{.*}}fsdp.matmul = #fsdp.matmul<

// -----

// The same of batches: an expert has a matrix of its own, all have the same
// tokens, which are no copies then, and a sum goes on in f32.

#id3 = affine_map<(b, i, j) -> (b, i, j)>
#tokens = affine_map<(b, i, j) -> (i, j)>
#turned = affine_map<(b, i, j) -> (b, j, i)>

// CHECK-LABEL: fsdp.program @experts
// CHECK-SAME: (%[[X:.*]]: tensor<5x7xbf16>, %[[W:.*]]: tensor<4x6x7xbf16>, %[[INIT:.*]]: tensor<4x5x6xf32>)
// CHECK: %[[P:.*]] = fsdp.launch @[[PRODUCT:.*]](%[[X]], %[[W]]) : (tensor<5x7xbf16>, tensor<4x6x7xbf16>) -> tensor<4x5x6xf32>
// CHECK: fsdp.launch @[[ADDED:.*]](%[[X]], %[[W]], %[[INIT]]) : (tensor<5x7xbf16>, tensor<4x6x7xbf16>, tensor<4x5x6xf32>) -> tensor<4x5x6xf32>
fsdp.program @experts(%x: tensor<5x7xbf16>, %w: tensor<4x6x7xbf16>, %init: tensor<4x5x6xf32>) -> (tensor<4x5x6xf32>, tensor<4x5x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<4x5x7xbf16>
  %all = linalg.generic {indexing_maps = [#tokens, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<5x7xbf16>) outs(%e0 : tensor<4x5x7xbf16>) {
  ^bb0(%v: bf16, %o: bf16):
    linalg.yield %v : bf16
  } -> tensor<4x5x7xbf16>
  %e1 = tensor.empty() : tensor<4x7x6xbf16>
  %t = linalg.generic {indexing_maps = [#turned, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<4x6x7xbf16>) outs(%e1 : tensor<4x7x6xbf16>) {
  ^bb0(%v: bf16, %o: bf16):
    linalg.yield %v : bf16
  } -> tensor<4x7x6xbf16>
  %e2 = tensor.empty() : tensor<4x5x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e2 : tensor<4x5x6xf32>) -> tensor<4x5x6xf32>
  %p = linalg.batch_matmul ins(%all, %t : tensor<4x5x7xbf16>, tensor<4x7x6xbf16>) outs(%f : tensor<4x5x6xf32>) -> tensor<4x5x6xf32>
  %q = linalg.batch_matmul ins(%all, %t : tensor<4x5x7xbf16>, tensor<4x7x6xbf16>) outs(%init : tensor<4x5x6xf32>) -> tensor<4x5x6xf32>
  fsdp.return %p, %q : tensor<4x5x6xf32>, tensor<4x5x6xf32>
}
// CHECK-DAG: func.func private @[[PRODUCT]]({{.*}}fsdp.matmul = #fsdp.matmul<{{.*}}m = 5, n = 6, k = 7{{.*}}transB = true, accumulate = false,{{.*}}batch = [1, 1, 1, 4], strideA = [0, 0, 0, 0], strideB = [0, 0, 0, 42], strideC = [0, 0, 0, 30]
// CHECK-DAG: func.func private @[[ADDED]]({{.*}}fsdp.matmul = #fsdp.matmul<{{.*}}accumulate = true

// -----

// Sums of products that widen their factors themselves; of one that is wide
// no library has a product.

#a = affine_map<(b, i, j, k) -> (b, i, k)>
#b = affine_map<(b, i, j, k) -> (b, k, j)>
#c = affine_map<(b, i, j, k) -> (b, i, j)>

// CHECK-LABEL: fsdp.program @widened
// CHECK: fsdp.launch @[[PRODUCT:.*]](%{{.*}}, %{{.*}}) : (tensor<4x5x7xf16>, tensor<4x7x6xf16>) -> tensor<4x5x6xf32>
// CHECK: fsdp.launch @[[MIXED:.*]](%{{.*}}, %{{.*}}) : (tensor<4x5x7xf16>, tensor<4x7x6xf32>) -> tensor<4x5x6xf32>
fsdp.program @widened(%x: tensor<4x5x7xf16>, %y: tensor<4x7x6xf16>, %z: tensor<4x7x6xf32>) -> (tensor<4x5x6xf32>, tensor<4x5x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x5x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x5x6xf32>) -> tensor<4x5x6xf32>
  %p = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %y : tensor<4x5x7xf16>, tensor<4x7x6xf16>) outs(%f : tensor<4x5x6xf32>) {
  ^bb0(%v: f16, %w: f16, %o: f32):
    %v1 = arith.extf %v : f16 to f32
    %w1 = arith.extf %w : f16 to f32
    %m = arith.mulf %v1, %w1 : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x5x6xf32>
  %q = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %z : tensor<4x5x7xf16>, tensor<4x7x6xf32>) outs(%f : tensor<4x5x6xf32>) {
  ^bb0(%v: f16, %w: f32, %o: f32):
    %v1 = arith.extf %v : f16 to f32
    %m = arith.mulf %v1, %w : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x5x6xf32>
  fsdp.return %p, %q : tensor<4x5x6xf32>, tensor<4x5x6xf32>
}
// CHECK-NOT: fsdp.matmul =
// CHECK: func.func private @[[PRODUCT]]({{.*}}fsdp.matmul = #fsdp.matmul<
