// RUN: fsdp-opt %s --fsdp-inline-lookups --split-input-file | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0, 0)>
#one = affine_map<(d0) -> (d0)>

// The label's log-probability is computed of one logit of the row, which is looked up in the shape that the logits
// are in memory, and of the row's sum, which becomes an operand.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME: (%[[X:.*]]: tensor<6x64xbf16>, %[[S:.*]]: tensor<6x1xf32>, %[[L:.*]]: tensor<6xi64>)
// CHECK-NOT: tensor<6x64xf32>
// CHECK-DAG: %[[SUMS:.*]] = tensor.collapse_shape %[[S]] {{\[\[}}0, 1]] : tensor<6x1xf32> into tensor<6xf32>
// CHECK-DAG: %[[WHOLE:.*]] = tensor.expand_shape %[[X]]
// CHECK: linalg.generic {{.*}} ins(%[[L]], %[[SUMS]] : tensor<6xi64>, tensor<6xf32>)
// CHECK: ^bb0(%[[LABEL:.*]]: i64, %[[SUM:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: %[[C:.*]] = arith.index_cast %[[LABEL]]
// CHECK: %[[LOGIT:.*]] = tensor.extract %[[WHOLE]][%{{.*}}, %{{.*}}, %[[C]]]
// CHECK: %[[WIDE:.*]] = arith.extf %[[LOGIT]]
// CHECK: arith.subf %[[WIDE]], %[[SUM]]
fsdp.program @step(%x: tensor<6x64xbf16>, %s: tensor<6x1xf32>, %l: tensor<6xi64>) -> tensor<6xf32> {
  %x3 = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 3, 64] : tensor<6x64xbf16> into tensor<2x3x64xbf16>
  %e3 = tensor.empty() : tensor<2x3x64xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x3 : tensor<2x3x64xbf16>) outs(%e3 : tensor<2x3x64xf32>) {
  ^bb0(%v: bf16, %o: f32):
    %r = arith.extf %v : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<2x3x64xf32>
  %w2 = tensor.collapse_shape %w [[0, 1], [2]] : tensor<2x3x64xf32> into tensor<6x64xf32>
  %e = tensor.empty() : tensor<6x64xf32>
  %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%w2, %s : tensor<6x64xf32>, tensor<6x1xf32>) outs(%e : tensor<6x64xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %r = arith.subf %v, %u : f32
    linalg.yield %r : f32
  } -> tensor<6x64xf32>
  %e1 = tensor.empty() : tensor<6xf32>
  %g = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%l : tensor<6xi64>) outs(%e1 : tensor<6xf32>) {
  ^bb0(%v: i64, %o: f32):
    %i = linalg.index 0 : index
    %c = arith.index_cast %v : i64 to index
    %r = tensor.extract %p[%i, %c] : tensor<6x64xf32>
    linalg.yield %r : f32
  } -> tensor<6xf32>
  fsdp.return %g : tensor<6xf32>
}

// -----

#one = affine_map<(d0) -> (d0)>

// As many elements are looked up as there are: all are computed once.

// CHECK-LABEL: fsdp.program @step
// CHECK: %[[T:.*]] = linalg.generic
// CHECK: math.exp
// CHECK: linalg.generic
// CHECK: tensor.extract %[[T]]
fsdp.program @step(%x: tensor<16xf32>, %l: tensor<16xi64>) -> tensor<16xf32> {
  %e = tensor.empty() : tensor<16xf32>
  %t = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%x : tensor<16xf32>) outs(%e : tensor<16xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = math.exp %v : f32
    linalg.yield %r : f32
  } -> tensor<16xf32>
  %g = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%l : tensor<16xi64>) outs(%e : tensor<16xf32>) {
  ^bb0(%v: i64, %o: f32):
    %c = arith.index_cast %v : i64 to index
    %r = tensor.extract %t[%c] : tensor<16xf32>
    linalg.yield %r : f32
  } -> tensor<16xf32>
  fsdp.return %g : tensor<16xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#one = affine_map<(d0) -> (d0)>

// A product's rounding is part of the product: it stays.

// CHECK-LABEL: fsdp.program @step
// CHECK: %[[M:.*]] = linalg.matmul
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[M]] :
// CHECK: tensor.extract %[[T]]
fsdp.program @step(%x: tensor<4x8xf32>, %y: tensor<8x64xf32>, %l: tensor<4xi64>) -> tensor<4xbf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x64xf32>) -> tensor<4x64xf32>
  %m = linalg.matmul ins(%x, %y : tensor<4x8xf32>, tensor<8x64xf32>) outs(%f : tensor<4x64xf32>) -> tensor<4x64xf32>
  %be = tensor.empty() : tensor<4x64xbf16>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%m : tensor<4x64xf32>) outs(%be : tensor<4x64xbf16>) {
  ^bb0(%v: f32, %o: bf16):
    %r = arith.truncf %v : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<4x64xbf16>
  %e1 = tensor.empty() : tensor<4xbf16>
  %g = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%l : tensor<4xi64>) outs(%e1 : tensor<4xbf16>) {
  ^bb0(%v: i64, %o: bf16):
    %i = linalg.index 0 : index
    %c = arith.index_cast %v : i64 to index
    %r = tensor.extract %t[%i, %c] : tensor<4x64xbf16>
    linalg.yield %r : bf16
  } -> tensor<4xbf16>
  fsdp.return %g : tensor<4xbf16>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#one = affine_map<(d0) -> (d0)>

// What the program returns is written in any case, and looked up.

// CHECK-LABEL: fsdp.program @step
// CHECK: %[[T:.*]] = linalg.generic
// CHECK: math.tanh
// CHECK: tensor.extract %[[T]]
// CHECK-NOT: math.tanh
fsdp.program @step(%x: tensor<4x64xf32>, %l: tensor<4xi64>) -> (tensor<4x64xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4x64xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x64xf32>) outs(%e : tensor<4x64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = math.tanh %v : f32
    linalg.yield %r : f32
  } -> tensor<4x64xf32>
  %e1 = tensor.empty() : tensor<4xf32>
  %g = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%l : tensor<4xi64>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%v: i64, %o: f32):
    %i = linalg.index 0 : index
    %c = arith.index_cast %v : i64 to index
    %r = tensor.extract %t[%i, %c] : tensor<4x64xf32>
    linalg.yield %r : f32
  } -> tensor<4xf32>
  fsdp.return %t, %g : tensor<4x64xf32>, tensor<4xf32>
}
