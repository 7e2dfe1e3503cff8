// RUN: fsdp-opt %s --fsdp-stack-pieces --split-input-file | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>

// A concatenation of two halves is one loop over the halves and their elements.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME: (%[[A:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<4x8xf32>)
// CHECK: %[[S:.*]] = linalg.generic {{.*}}["parallel", "parallel", "parallel"]{{.*}} ins(%[[A]], %[[B]] :
// CHECK: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f32,
// CHECK: %[[P:.*]] = linalg.index 1
// CHECK: %[[IS:.*]] = arith.cmpi eq, %[[P]], %{{.*}}
// CHECK: arith.select %[[IS]], %[[X]], %[[Y]]
// CHECK: tensor<4x2x8xf32>
// CHECK: %[[C:.*]] = tensor.collapse_shape %[[S]] {{\[\[}}0], [1, 2]] : tensor<4x2x8xf32> into tensor<4x16xf32>
// CHECK: fsdp.return %[[C]]
fsdp.program @step(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x16xf32> {
  %c = tensor.concat dim(1) %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  fsdp.return %c : tensor<4x16xf32>
}

// -----

// Pieces that are one value are a broadcast.

// CHECK-LABEL: fsdp.program @step
// CHECK: linalg.generic {{.*}} ins(%{{[^,]*}} :
// CHECK-NOT: arith.select
// CHECK: linalg.yield %in
fsdp.program @step(%a: tensor<4x8xf32>) -> tensor<4x16xf32> {
  %c = tensor.concat dim(1) %a, %a : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  fsdp.return %c : tensor<4x16xf32>
}

// -----

// Pieces of several sizes, more than four of them, and pieces of more than 1024 elements are copied as before.

// CHECK-LABEL: fsdp.program @step
// CHECK-COUNT-3: tensor.concat
fsdp.program @step(%a: tensor<4x8xf32>, %b: tensor<4x4xf32>, %c: tensor<4x2048xf32>)
    -> (tensor<4x12xf32>, tensor<4x40xf32>, tensor<4x4096xf32>) {
  %x = tensor.concat dim(1) %a, %b : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x12xf32>
  %y = tensor.concat dim(1) %a, %a, %a, %a, %a : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x40xf32>
  %z = tensor.concat dim(1) %c, %c : (tensor<4x2048xf32>, tensor<4x2048xf32>) -> tensor<4x4096xf32>
  fsdp.return %x, %y, %z : tensor<4x12xf32>, tensor<4x40xf32>, tensor<4x4096xf32>
}

// -----

// Insertions into zeros, one after the other, are one loop. An insertion into an argument stays, since it goes in
// place.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME: (%[[A:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<4x8xf32>,
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[B]] : tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f32,
// CHECK: %[[Z:.*]] = arith.constant 0.000000e+00
// CHECK: %[[FIRST:.*]] = arith.select %{{.*}}, %[[X]], %[[Z]]
// CHECK: arith.select %{{.*}}, %[[Y]], %[[FIRST]]
// CHECK: tensor.insert_slice %[[B]] into %{{.*}}[0, 8] [4, 8] [1, 1]
fsdp.program @step(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %w: tensor<4x24xf32>)
    -> (tensor<4x24xf32>, tensor<4x24xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x24xf32>) -> tensor<4x24xf32>
  %x = tensor.insert_slice %a into %f[0, 16] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<4x24xf32>
  %y = tensor.insert_slice %b into %x[0, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<4x24xf32>
  %z = tensor.insert_slice %b into %w[0, 8] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<4x24xf32>
  fsdp.return %y, %z : tensor<4x24xf32>, tensor<4x24xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>

// Both halves of a product's biased result meet in one loop: each is computed of a half of the product and of the
// bias. The index that the body reads counts from the half's first element.

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME: (%[[X:.*]]: tensor<4x16xf32>, %[[B:.*]]: tensor<16xf32>)
// CHECK-DAG: %[[X1:.*]] = tensor.extract_slice %[[X]][0, 8] [4, 8] [1, 1]
// CHECK-DAG: %[[B1:.*]] = tensor.extract_slice %[[B]][8] [8] [1]
// CHECK: linalg.generic {{.*}} ins(%[[X1]], %[[B1]] : tensor<4x8xf32>, tensor<8xf32>)
// CHECK: %[[I:.*]] = linalg.index 1
// CHECK: %[[EIGHT:.*]] = arith.constant 8 : index
// CHECK: arith.addi %[[I]], %[[EIGHT]]
// CHECK: arith.mulf
fsdp.program @step(%x: tensor<4x16xf32>, %b: tensor<16xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x16xf32>
  %s = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : tensor<4x16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %i = linalg.index 1 : index
    %n = arith.index_cast %i : index to i64
    %c = arith.sitofp %n : i64 to f32
    %r = arith.addf %v, %u : f32
    %q = arith.addf %r, %c : f32
    linalg.yield %q : f32
  } -> tensor<4x16xf32>
  %l = tensor.extract_slice %s[0, 0] [4, 8] [1, 1] : tensor<4x16xf32> to tensor<4x8xf32>
  %h = tensor.extract_slice %s[0, 8] [4, 8] [1, 1] : tensor<4x16xf32> to tensor<4x8xf32>
  %e2 = tensor.empty() : tensor<4x8xf32>
  %m = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%l, %h : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e2 : tensor<4x8xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %r = arith.mulf %v, %u : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  fsdp.return %m : tensor<4x8xf32>
}

// -----

// More than four insertions go in place: each would be a pass over the whole tensor.

// CHECK-LABEL: fsdp.program @step
// CHECK-COUNT-5: tensor.insert_slice
// CHECK-NOT: arith.select
fsdp.program @step(%a: tensor<4x8xf32>) -> tensor<4x40xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x40xf32>) -> tensor<4x40xf32>
  %0 = tensor.insert_slice %a into %f[0, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<4x40xf32>
  %1 = tensor.insert_slice %a into %0[0, 8] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<4x40xf32>
  %2 = tensor.insert_slice %a into %1[0, 16] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<4x40xf32>
  %3 = tensor.insert_slice %a into %2[0, 24] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<4x40xf32>
  %4 = tensor.insert_slice %a into %3[0, 32] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<4x40xf32>
  fsdp.return %4 : tensor<4x40xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>

// Two ops in a row are computed in parts.

// CHECK-LABEL: fsdp.program @step
// CHECK-NOT: linalg.generic {{.*}}tensor<4x16xf32>
// CHECK-COUNT-2: math.tanh
// CHECK-NOT: math.tanh
// CHECK: arith.mulf
fsdp.program @step(%x: tensor<4x16xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x16xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = math.tanh %v : f32
    linalg.yield %r : f32
  } -> tensor<4x16xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = math.exp %v : f32
    linalg.yield %r : f32
  } -> tensor<4x16xf32>
  %l = tensor.extract_slice %t[0, 0] [4, 8] [1, 1] : tensor<4x16xf32> to tensor<4x8xf32>
  %h = tensor.extract_slice %t[0, 8] [4, 8] [1, 1] : tensor<4x16xf32> to tensor<4x8xf32>
  %e2 = tensor.empty() : tensor<4x8xf32>
  %m = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%l, %h : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e2 : tensor<4x8xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %r = arith.mulf %v, %u : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  fsdp.return %m : tensor<4x8xf32>
}

// -----

// A rounding that a product does as it stores its result is no loop's: slices are read of what it rounds, not of the sum.

#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// CHECK-LABEL: fsdp.program @step
// CHECK: %[[P:.*]] = linalg.batch_matmul
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[P]] : tensor<4x5x12xf32>)
// CHECK: tensor.extract_slice %[[R]][0, 0, 0] [4, 5, 6] [1, 1, 1] : tensor<4x5x12xbf16>
// CHECK: tensor.extract_slice %[[R]][0, 0, 6] [4, 5, 6] [1, 1, 1] : tensor<4x5x12xbf16>
fsdp.program @step(%a: tensor<4x5x7xbf16>, %b: tensor<4x7x12xbf16>) -> tensor<4x5x6xbf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x5x12xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x5x12xf32>) -> tensor<4x5x12xf32>
  %p = linalg.batch_matmul ins(%a, %b : tensor<4x5x7xbf16>, tensor<4x7x12xbf16>) outs(%f : tensor<4x5x12xf32>) -> tensor<4x5x12xf32>
  %e1 = tensor.empty() : tensor<4x5x12xbf16>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<4x5x12xf32>) outs(%e1 : tensor<4x5x12xbf16>) {
  ^bb0(%v: f32, %o: bf16):
    %n = arith.truncf %v : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<4x5x12xbf16>
  %gate = tensor.extract_slice %r[0, 0, 0] [4, 5, 6] [1, 1, 1] : tensor<4x5x12xbf16> to tensor<4x5x6xbf16>
  %up = tensor.extract_slice %r[0, 0, 6] [4, 5, 6] [1, 1, 1] : tensor<4x5x12xbf16> to tensor<4x5x6xbf16>
  %e2 = tensor.empty() : tensor<4x5x6xbf16>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%gate, %up : tensor<4x5x6xbf16>, tensor<4x5x6xbf16>) outs(%e2 : tensor<4x5x6xbf16>) {
  ^bb0(%v: bf16, %w: bf16, %o: bf16):
    %m = arith.mulf %v, %w : bf16
    linalg.yield %m : bf16
  } -> tensor<4x5x6xbf16>
  fsdp.return %s : tensor<4x5x6xbf16>
}
