// RUN: fsdp-opt %s --fsdp-fuse-epilogues --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-fuse-epilogues --fsdp-form-kernels --fsdp-recompute-cheap-values --fsdp-outline-kernels --fsdp-match-matmuls --split-input-file | FileCheck %s --check-prefix=CODE

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>
#id3 = affine_map<(b, i, j) -> (b, i, j)>

// A product of tanh(x), with a bias, added to x, is one call. What makes x is cheap, but a product does not repeat it.

// CHECK-LABEL: fsdp.program @residual
// CHECK:         linalg.matmul
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<8x6xf32>, tensor<6xf32>) {{.*}} attrs = {fsdp.epilogue}
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<2x4x6xf32>, tensor<2x4x6xf32>) {{.*}} attrs = {fsdp.epilogue}
// CHECK-NOT:     fsdp.epilogue

// CODE-LABEL: fsdp.program @residual
// CODE:         %[[X:.*]]:2 = fsdp.launch @k0_elementwise(
// CODE:         %[[Y:.*]] = fsdp.launch @k1_matmul(%[[X]]#1, %{{.*}}, %{{.*}}, %[[X]]#0) : (tensor<2x4x6xf32>, tensor<6x6xf32>, tensor<6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
// CODE:         fsdp.launch @k2_elementwise(%[[Y]])
// CODE:       func.func private @k1_matmul({{.*}}attributes {fsdp.matmul = #fsdp.matmul<a = 0, b = 1, m = 8, n = 6, k = 6, {{.*}} accumulate = false, {{.*}}, bias = 2, addend = 3>}
fsdp.program @residual(%in: tensor<2x4x6xf32>, %w: tensor<6x6xf32>, %b: tensor<6xf32>) -> tensor<2x4x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e3 = tensor.empty() : tensor<2x4x6xf32>
  %e = tensor.empty() : tensor<8x6xf32>
  %x = linalg.generic {indexing_maps = [#id3, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%in : tensor<2x4x6xf32>) outs(%e3 : tensor<2x4x6xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.negf %v : f32
    linalg.yield %r : f32
  } -> tensor<2x4x6xf32>
  %xs = linalg.generic {indexing_maps = [#id3, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x4x6xf32>) outs(%e3 : tensor<2x4x6xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = math.tanh %v : f32
    linalg.yield %r : f32
  } -> tensor<2x4x6xf32>
  %h = tensor.collapse_shape %xs [[0, 1], [2]] : tensor<2x4x6xf32> into tensor<8x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x6xf32>) -> tensor<8x6xf32>
  %p = linalg.matmul ins(%h, %w : tensor<8x6xf32>, tensor<6x6xf32>) outs(%f : tensor<8x6xf32>) -> tensor<8x6xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %b : tensor<8x6xf32>, tensor<6xf32>) outs(%e : tensor<8x6xf32>) {
  ^bb0(%v: f32, %c: f32, %o: f32):
    %r = arith.addf %c, %v : f32
    linalg.yield %r : f32
  } -> tensor<8x6xf32>
  %y3 = tensor.expand_shape %y [[0, 1], [2]] output_shape [2, 4, 6] : tensor<8x6xf32> into tensor<2x4x6xf32>
  %s = linalg.generic {indexing_maps = [#id3, #id3, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %y3 : tensor<2x4x6xf32>, tensor<2x4x6xf32>) outs(%e3 : tensor<2x4x6xf32>) {
  ^bb0(%v: f32, %c: f32, %o: f32):
    %r = arith.addf %v, %c : f32
    linalg.yield %r : f32
  } -> tensor<2x4x6xf32>
  %t = linalg.generic {indexing_maps = [#id3, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x4x6xf32>) outs(%e3 : tensor<2x4x6xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = math.tanh %v : f32
    linalg.yield %r : f32
  } -> tensor<2x4x6xf32>
  fsdp.return %t : tensor<2x4x6xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>
#column = affine_map<(i, j) -> (i)>

// What stays an op of its own: a constant that is added, which is in no memory; a bias or an addend that the loop which
// adds it would compute; another product; a vector along the rows; and anything that is added to a product that others
// read as well.

// CHECK-LABEL: fsdp.program @stay
// CHECK-NOT:     fsdp.epilogue
// CHECK:         fsdp.return
fsdp.program @stay(%x: tensor<8x6xf32>, %w: tensor<6x6xf32>, %b: tensor<6xf32>, %r8: tensor<8xf32>)
    -> (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<6xf32>
  %e = tensor.empty() : tensor<8x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x6xf32>) -> tensor<8x6xf32>
  %p0 = linalg.matmul ins(%x, %w : tensor<8x6xf32>, tensor<6x6xf32>) outs(%f : tensor<8x6xf32>) -> tensor<8x6xf32>
  %s0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%p0, %c : tensor<8x6xf32>, tensor<6xf32>) outs(%e : tensor<8x6xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %r = arith.addf %v, %u : f32
    linalg.yield %r : f32
  } -> tensor<8x6xf32>
  %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x6xf32>) outs(%e : tensor<8x6xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.negf %v : f32
    linalg.yield %r : f32
  } -> tensor<8x6xf32>
  %p1 = linalg.matmul ins(%x, %w : tensor<8x6xf32>, tensor<6x6xf32>) outs(%f : tensor<8x6xf32>) -> tensor<8x6xf32>
  %s1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%p1, %n : tensor<8x6xf32>, tensor<8x6xf32>) outs(%e : tensor<8x6xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %r = arith.addf %v, %u : f32
    linalg.yield %r : f32
  } -> tensor<8x6xf32>
  %p2 = linalg.matmul ins(%x, %w : tensor<8x6xf32>, tensor<6x6xf32>) outs(%f : tensor<8x6xf32>) -> tensor<8x6xf32>
  %p3 = linalg.matmul ins(%n, %w : tensor<8x6xf32>, tensor<6x6xf32>) outs(%f : tensor<8x6xf32>) -> tensor<8x6xf32>
  %s2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%p2, %p3 : tensor<8x6xf32>, tensor<8x6xf32>) outs(%e : tensor<8x6xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %r = arith.addf %v, %u : f32
    linalg.yield %r : f32
  } -> tensor<8x6xf32>
  %p4 = linalg.matmul ins(%x, %w : tensor<8x6xf32>, tensor<6x6xf32>) outs(%f : tensor<8x6xf32>) -> tensor<8x6xf32>
  %s4 = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%p4, %r8 : tensor<8x6xf32>, tensor<8xf32>) outs(%e : tensor<8x6xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %r = arith.addf %v, %u : f32
    linalg.yield %r : f32
  } -> tensor<8x6xf32>
  %p5 = linalg.matmul ins(%x, %w : tensor<8x6xf32>, tensor<6x6xf32>) outs(%f : tensor<8x6xf32>) -> tensor<8x6xf32>
  %s5 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%p5, %b : tensor<8x6xf32>, tensor<6xf32>) outs(%e : tensor<8x6xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %r = arith.addf %v, %u : f32
    linalg.yield %r : f32
  } -> tensor<8x6xf32>
  %eb = tensor.empty() : tensor<6xf32>
  %nb = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%b : tensor<6xf32>) outs(%eb : tensor<6xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.negf %v : f32
    linalg.yield %r : f32
  } -> tensor<6xf32>
  %p6 = linalg.matmul ins(%x, %w : tensor<8x6xf32>, tensor<6x6xf32>) outs(%f : tensor<8x6xf32>) -> tensor<8x6xf32>
  %s6 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%p6, %nb : tensor<8x6xf32>, tensor<6xf32>) outs(%e : tensor<8x6xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %r = arith.addf %v, %u : f32
    linalg.yield %r : f32
  } -> tensor<8x6xf32>
  fsdp.return %s0, %s1, %s2, %s4, %s5, %p5, %s6 : tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>
#turned = affine_map<(i, j) -> (j, i)>

// What is written transposed has its columns in rows, and no bias runs along them: the product writes its sum as it is.

// CODE-LABEL: fsdp.program @transposed
// CODE:         %[[Y:.*]] = fsdp.launch @k0_matmul(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<8x6xf32>, tensor<6x5xf32>, tensor<5xf32>) -> tensor<8x5xf32>
// CODE:         fsdp.launch @k1_elementwise(%[[Y]])
fsdp.program @transposed(%x: tensor<8x6xf32>, %w: tensor<6x5xf32>, %b: tensor<5xf32>) -> tensor<5x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x5xf32>) -> tensor<8x5xf32>
  %p = linalg.matmul ins(%x, %w : tensor<8x6xf32>, tensor<6x5xf32>) outs(%f : tensor<8x5xf32>) -> tensor<8x5xf32>
  %s = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %b : tensor<8x5xf32>, tensor<5xf32>) outs(%e : tensor<8x5xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %r = arith.addf %v, %u : f32
    linalg.yield %r : f32
  } -> tensor<8x5xf32>
  %et = tensor.empty() : tensor<5x8xf32>
  %t = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<8x5xf32>) outs(%et : tensor<5x8xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<5x8xf32>
  fsdp.return %t : tensor<5x8xf32>
}
