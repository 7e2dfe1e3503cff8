// RUN: fsdp-opt %s -split-input-file --fsdp-fuse-attention --remarks-filter=fsdp-fuse-attention --remark-policy=all -o %t 2>%t.remarks
// RUN: FileCheck %s --input-file=%t
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.remarks

// Factors of the probabilities behind the softmax.

#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#scalar = affine_map<(d0, d1, d2) -> ()>

// Drawn by place: the numbers are drawn in the kernels, and nothing as large as the scores is in memory. Backward multiplies in
// another order than forward.
// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %[[SEED:[a-z0-9]+]]: tensor<i32>)
// CHECK-NOT:     linalg
// CHECK:         fsdp.attention <
// CHECK-SAME:      captured(%[[SEED]] : tensor<i32>) [#fsdp.strided<0, [0, 0, 0]>]
// CHECK-NEXT:    ^bb0(%[[S:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: i32):
// CHECK-NEXT:      fsdp.yield %[[S]] : f32
// CHECK-NEXT:    } factor {
// CHECK-NEXT:    ^bb0(%[[B:[a-z0-9]+]]: index, %[[I:[a-z0-9]+]]: index, %[[J:[a-z0-9]+]]: index, %[[K:[a-z0-9]+]]: i32):
// CHECK:           %[[WORD:.*]] = fsdp.random_word %{{.*}} of %{{.*}} by %[[K]],
// CHECK:           arith.uitofp %[[WORD]]
// CHECK:           arith.mulf
// CHECK-NEXT:      fsdp.yield
// CHECK:         fsdp.attention_backward
// CHECK:         } gradient {
// CHECK-NEXT:    ^bb0(%[[DS:[a-z0-9]+]]: f32,
// CHECK-NEXT:      fsdp.yield %[[DS]] : f32
// CHECK-NEXT:    } factor {
// CHECK:           fsdp.random_word
// CHECK:         } dq(
// CHECK-NOT:     linalg
// CHECK:         return
fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %dout: tensor<2x3x6xf32>, %seed: tensor<i32>) -> (tensor<2x3x6xf32>, tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %v1 = tensor.empty() : tensor<2x5x4xf32>
  %v2 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k : tensor<2x4x5xf32>) outs(%v1 : tensor<2x5x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x5x4xf32>
  %v3 = tensor.empty() : tensor<2x3x4xf32>
  %v4 = linalg.fill ins(%zero : f32) outs(%v3 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v5 = linalg.batch_matmul ins(%q, %v2 : tensor<2x3x5xf32>, tensor<2x5x4xf32>) outs(%v4 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v6 = tensor.empty() : tensor<2x3xf32>
  %v7 = linalg.fill ins(%low : f32) outs(%v6 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v8 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v5 : tensor<2x3x4xf32>) outs(%v7 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v9 = tensor.empty() : tensor<2x3x4xf32>
  %v10 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5, %v8 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v9 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v11 = tensor.empty() : tensor<2x3x4xf32>
  %v12 = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v10 : tensor<2x3x4xf32>) outs(%v11 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v13 = tensor.empty() : tensor<2x3xf32>
  %v14 = linalg.fill ins(%zero : f32) outs(%v13 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v15 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v12 : tensor<2x3x4xf32>) outs(%v14 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v16 = tensor.empty() : tensor<2x3x4xf32>
  %v17 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v12, %v15 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v16 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %u_e = tensor.empty() : tensor<2x3x4xf32>
  %u = linalg.generic {indexing_maps = [#scalar, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%seed : tensor<i32>) outs(%u_e : tensor<2x3x4xf32>) {
  ^bb0(%s: i32, %o: f32):
    %c0 = arith.constant 0 : i32
    %c3 = arith.constant 3 : i32
    %c4 = arith.constant 4 : i32
    %b = linalg.index 0 : index
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %b32 = arith.index_cast %b : index to i32
    %i32 = arith.index_cast %i : index to i32
    %j32 = arith.index_cast %j : index to i32
    %bi = arith.muli %b32, %c3 : i32
    %row = arith.addi %bi, %i32 : i32
    %at = arith.muli %row, %c4 : i32
    %word = fsdp.random_word %j32 of %at, %c0, %c0, %c0 by %s, %c0 : i32
    %number = arith.uitofp %word : i32 to f32
    linalg.yield %number : f32
  } -> tensor<2x3x4xf32>
  %w1_e = tensor.empty() : tensor<2x3x4xf32>
  %w1 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %u : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%w1_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %keep = arith.constant 2.0e9 : f32
    %isKept = arith.cmpf olt, %a1, %keep : f32
    %f = arith.uitofp %isKept : i1 to f32
    %r = arith.mulf %a0, %f : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %w_e = tensor.empty() : tensor<2x3x4xf32>
  %w = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w1 : tensor<2x3x4xf32>) outs(%w_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %two = arith.constant 2.0 : f32
    %r = arith.mulf %a0, %two : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v18 = tensor.empty() : tensor<2x3x6xf32>
  %v19 = linalg.fill ins(%zero : f32) outs(%v18 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v20 = linalg.batch_matmul ins(%w, %v : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v19 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v21 = tensor.empty() : tensor<2x6x4xf32>
  %v22 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x4x6xf32>) outs(%v21 : tensor<2x6x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x6x4xf32>
  %v23 = tensor.empty() : tensor<2x3x4xf32>
  %v24 = linalg.fill ins(%zero : f32) outs(%v23 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v25 = linalg.batch_matmul ins(%dout, %v22 : tensor<2x3x6xf32>, tensor<2x6x4xf32>) outs(%v24 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v26 = tensor.empty() : tensor<2x4x3xf32>
  %v27 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<2x3x4xf32>) outs(%v26 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v28 = tensor.empty() : tensor<2x4x6xf32>
  %v29 = linalg.fill ins(%zero : f32) outs(%v28 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %v30 = linalg.batch_matmul ins(%v27, %dout : tensor<2x4x3xf32>, tensor<2x3x6xf32>) outs(%v29 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %f_e = tensor.empty() : tensor<2x3x4xf32>
  %f = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%u : tensor<2x3x4xf32>) outs(%f_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %keep = arith.constant 2.0e9 : f32
    %isKept = arith.cmpf olt, %a0, %keep : f32
    %f = arith.uitofp %isKept : i1 to f32
    %two = arith.constant 2.0 : f32
    %r = arith.mulf %f, %two : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %dp_e = tensor.empty() : tensor<2x3x4xf32>
  %dp = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v25, %f : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%dp_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v31 = tensor.empty() : tensor<2x3x4xf32>
  %v32 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%dp, %v17 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v31 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v33 = tensor.empty() : tensor<2x3xf32>
  %v34 = linalg.fill ins(%zero : f32) outs(%v33 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v35 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v32 : tensor<2x3x4xf32>) outs(%v34 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v36 = tensor.empty() : tensor<2x3x4xf32>
  %v37 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %v35 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v36 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v38 = tensor.empty() : tensor<2x3x4xf32>
  %v39 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v32, %v37 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v38 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v40 = tensor.empty() : tensor<2x3x5xf32>
  %v41 = linalg.fill ins(%zero : f32) outs(%v40 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %v42 = linalg.batch_matmul ins(%v39, %k : tensor<2x3x4xf32>, tensor<2x4x5xf32>) outs(%v41 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %v43 = tensor.empty() : tensor<2x4x3xf32>
  %v44 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v39 : tensor<2x3x4xf32>) outs(%v43 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v45 = tensor.empty() : tensor<2x4x5xf32>
  %v46 = linalg.fill ins(%zero : f32) outs(%v45 : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %v47 = linalg.batch_matmul ins(%v44, %q : tensor<2x4x3xf32>, tensor<2x3x5xf32>) outs(%v46 : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  fsdp.return %v20, %v42, %v47, %v30 : tensor<2x3x6xf32>, tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>
}

// -----

#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>

// An operand: read where it lies.
// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %[[MASK:[a-z0-9]+]]: tensor<2x3x4xi1>)
// CHECK:         fsdp.attention <
// CHECK-SAME:      captured(%[[MASK]] : tensor<2x3x4xi1>) [#fsdp.strided<0, [12, 4, 1]>]
// CHECK:         } factor {
// CHECK-NEXT:    ^bb0(%{{.*}}: index, %{{.*}}: index, %{{.*}}: index, %[[KEPT:[a-z0-9]+]]: i1):
// CHECK-NEXT:      %[[F:.*]] = arith.uitofp %[[KEPT]] : i1 to f32
// CHECK-NEXT:      fsdp.yield %[[F]] : f32
// CHECK:         fsdp.attention_backward
// CHECK-NOT:     linalg
// CHECK:         return
fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %dout: tensor<2x3x6xf32>, %mask: tensor<2x3x4xi1>) -> (tensor<2x3x6xf32>, tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %v1 = tensor.empty() : tensor<2x5x4xf32>
  %v2 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k : tensor<2x4x5xf32>) outs(%v1 : tensor<2x5x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x5x4xf32>
  %v3 = tensor.empty() : tensor<2x3x4xf32>
  %v4 = linalg.fill ins(%zero : f32) outs(%v3 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v5 = linalg.batch_matmul ins(%q, %v2 : tensor<2x3x5xf32>, tensor<2x5x4xf32>) outs(%v4 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v6 = tensor.empty() : tensor<2x3xf32>
  %v7 = linalg.fill ins(%low : f32) outs(%v6 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v8 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v5 : tensor<2x3x4xf32>) outs(%v7 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v9 = tensor.empty() : tensor<2x3x4xf32>
  %v10 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5, %v8 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v9 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v11 = tensor.empty() : tensor<2x3x4xf32>
  %v12 = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v10 : tensor<2x3x4xf32>) outs(%v11 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v13 = tensor.empty() : tensor<2x3xf32>
  %v14 = linalg.fill ins(%zero : f32) outs(%v13 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v15 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v12 : tensor<2x3x4xf32>) outs(%v14 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v16 = tensor.empty() : tensor<2x3x4xf32>
  %v17 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v12, %v15 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v16 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %w_e = tensor.empty() : tensor<2x3x4xf32>
  %w = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %mask : tensor<2x3x4xf32>, tensor<2x3x4xi1>) outs(%w_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: i1, %o: f32):
    %f = arith.uitofp %a1 : i1 to f32
    %r = arith.mulf %f, %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v18 = tensor.empty() : tensor<2x3x6xf32>
  %v19 = linalg.fill ins(%zero : f32) outs(%v18 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v20 = linalg.batch_matmul ins(%w, %v : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v19 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v21 = tensor.empty() : tensor<2x6x4xf32>
  %v22 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x4x6xf32>) outs(%v21 : tensor<2x6x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x6x4xf32>
  %v23 = tensor.empty() : tensor<2x3x4xf32>
  %v24 = linalg.fill ins(%zero : f32) outs(%v23 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v25 = linalg.batch_matmul ins(%dout, %v22 : tensor<2x3x6xf32>, tensor<2x6x4xf32>) outs(%v24 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v26 = tensor.empty() : tensor<2x4x3xf32>
  %v27 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<2x3x4xf32>) outs(%v26 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v28 = tensor.empty() : tensor<2x4x6xf32>
  %v29 = linalg.fill ins(%zero : f32) outs(%v28 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %v30 = linalg.batch_matmul ins(%v27, %dout : tensor<2x4x3xf32>, tensor<2x3x6xf32>) outs(%v29 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %dp_e = tensor.empty() : tensor<2x3x4xf32>
  %dp = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v25, %mask : tensor<2x3x4xf32>, tensor<2x3x4xi1>) outs(%dp_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: i1, %o: f32):
    %f = arith.uitofp %a1 : i1 to f32
    %r = arith.mulf %f, %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v31 = tensor.empty() : tensor<2x3x4xf32>
  %v32 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%dp, %v17 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v31 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v33 = tensor.empty() : tensor<2x3xf32>
  %v34 = linalg.fill ins(%zero : f32) outs(%v33 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v35 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v32 : tensor<2x3x4xf32>) outs(%v34 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v36 = tensor.empty() : tensor<2x3x4xf32>
  %v37 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %v35 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v36 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v38 = tensor.empty() : tensor<2x3x4xf32>
  %v39 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v32, %v37 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v38 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v40 = tensor.empty() : tensor<2x3x5xf32>
  %v41 = linalg.fill ins(%zero : f32) outs(%v40 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %v42 = linalg.batch_matmul ins(%v39, %k : tensor<2x3x4xf32>, tensor<2x4x5xf32>) outs(%v41 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %v43 = tensor.empty() : tensor<2x4x3xf32>
  %v44 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v39 : tensor<2x3x4xf32>) outs(%v43 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v45 = tensor.empty() : tensor<2x4x5xf32>
  %v46 = linalg.fill ins(%zero : f32) outs(%v45 : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %v47 = linalg.batch_matmul ins(%v44, %q : tensor<2x4x3xf32>, tensor<2x3x5xf32>) outs(%v46 : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  fsdp.return %v20, %v42, %v47, %v30 : tensor<2x3x6xf32>, tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>
}

// -----

#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>

// Backward has another factor than forward.
// WHY: Reason="the gradient of the softmax is not p * (dp - sum p * dp)"
// CHECK-LABEL: fsdp.program @step
// CHECK-NOT:     fsdp.attention
fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %dout: tensor<2x3x6xf32>, %mask: tensor<2x3x4xi1>) -> (tensor<2x3x6xf32>, tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %v1 = tensor.empty() : tensor<2x5x4xf32>
  %v2 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k : tensor<2x4x5xf32>) outs(%v1 : tensor<2x5x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x5x4xf32>
  %v3 = tensor.empty() : tensor<2x3x4xf32>
  %v4 = linalg.fill ins(%zero : f32) outs(%v3 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v5 = linalg.batch_matmul ins(%q, %v2 : tensor<2x3x5xf32>, tensor<2x5x4xf32>) outs(%v4 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v6 = tensor.empty() : tensor<2x3xf32>
  %v7 = linalg.fill ins(%low : f32) outs(%v6 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v8 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v5 : tensor<2x3x4xf32>) outs(%v7 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v9 = tensor.empty() : tensor<2x3x4xf32>
  %v10 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5, %v8 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v9 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v11 = tensor.empty() : tensor<2x3x4xf32>
  %v12 = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v10 : tensor<2x3x4xf32>) outs(%v11 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v13 = tensor.empty() : tensor<2x3xf32>
  %v14 = linalg.fill ins(%zero : f32) outs(%v13 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v15 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v12 : tensor<2x3x4xf32>) outs(%v14 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v16 = tensor.empty() : tensor<2x3x4xf32>
  %v17 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v12, %v15 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v16 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %w_e = tensor.empty() : tensor<2x3x4xf32>
  %w = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %mask : tensor<2x3x4xf32>, tensor<2x3x4xi1>) outs(%w_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: i1, %o: f32):
    %f = arith.uitofp %a1 : i1 to f32
    %r = arith.mulf %f, %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v18 = tensor.empty() : tensor<2x3x6xf32>
  %v19 = linalg.fill ins(%zero : f32) outs(%v18 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v20 = linalg.batch_matmul ins(%w, %v : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v19 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v21 = tensor.empty() : tensor<2x6x4xf32>
  %v22 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x4x6xf32>) outs(%v21 : tensor<2x6x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x6x4xf32>
  %v23 = tensor.empty() : tensor<2x3x4xf32>
  %v24 = linalg.fill ins(%zero : f32) outs(%v23 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v25 = linalg.batch_matmul ins(%dout, %v22 : tensor<2x3x6xf32>, tensor<2x6x4xf32>) outs(%v24 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v26 = tensor.empty() : tensor<2x4x3xf32>
  %v27 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<2x3x4xf32>) outs(%v26 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v28 = tensor.empty() : tensor<2x4x6xf32>
  %v29 = linalg.fill ins(%zero : f32) outs(%v28 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %v30 = linalg.batch_matmul ins(%v27, %dout : tensor<2x4x3xf32>, tensor<2x3x6xf32>) outs(%v29 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %dp_e = tensor.empty() : tensor<2x3x4xf32>
  %dp = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v25 : tensor<2x3x4xf32>) outs(%dp_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %two = arith.constant 2.0 : f32
    %r = arith.mulf %a0, %two : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v31 = tensor.empty() : tensor<2x3x4xf32>
  %v32 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%dp, %v17 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v31 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v33 = tensor.empty() : tensor<2x3xf32>
  %v34 = linalg.fill ins(%zero : f32) outs(%v33 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v35 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v32 : tensor<2x3x4xf32>) outs(%v34 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v36 = tensor.empty() : tensor<2x3x4xf32>
  %v37 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %v35 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v36 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v38 = tensor.empty() : tensor<2x3x4xf32>
  %v39 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v32, %v37 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v38 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v40 = tensor.empty() : tensor<2x3x5xf32>
  %v41 = linalg.fill ins(%zero : f32) outs(%v40 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %v42 = linalg.batch_matmul ins(%v39, %k : tensor<2x3x4xf32>, tensor<2x4x5xf32>) outs(%v41 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %v43 = tensor.empty() : tensor<2x4x3xf32>
  %v44 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v39 : tensor<2x3x4xf32>) outs(%v43 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v45 = tensor.empty() : tensor<2x4x5xf32>
  %v46 = linalg.fill ins(%zero : f32) outs(%v45 : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %v47 = linalg.batch_matmul ins(%v44, %q : tensor<2x4x3xf32>, tensor<2x3x5xf32>) outs(%v46 : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  fsdp.return %v20, %v42, %v47, %v30 : tensor<2x3x6xf32>, tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>
}

// -----

#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#scalar = affine_map<(d0, d1, d2) -> ()>

// A factor that is computed in f64 and rounded.
// CHECK-LABEL: fsdp.program @step
// CHECK:         } factor {
// CHECK:           %[[W:.*]] = arith.truncf %{{.*}} : f64 to f32
// CHECK-NOT:       extf
// CHECK:           fsdp.yield
fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %dout: tensor<2x3x6xf32>, %seed: tensor<i32>) -> (tensor<2x3x6xf32>, tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %v1 = tensor.empty() : tensor<2x5x4xf32>
  %v2 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k : tensor<2x4x5xf32>) outs(%v1 : tensor<2x5x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x5x4xf32>
  %v3 = tensor.empty() : tensor<2x3x4xf32>
  %v4 = linalg.fill ins(%zero : f32) outs(%v3 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v5 = linalg.batch_matmul ins(%q, %v2 : tensor<2x3x5xf32>, tensor<2x5x4xf32>) outs(%v4 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v6 = tensor.empty() : tensor<2x3xf32>
  %v7 = linalg.fill ins(%low : f32) outs(%v6 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v8 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v5 : tensor<2x3x4xf32>) outs(%v7 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v9 = tensor.empty() : tensor<2x3x4xf32>
  %v10 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5, %v8 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v9 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v11 = tensor.empty() : tensor<2x3x4xf32>
  %v12 = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v10 : tensor<2x3x4xf32>) outs(%v11 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v13 = tensor.empty() : tensor<2x3xf32>
  %v14 = linalg.fill ins(%zero : f32) outs(%v13 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v15 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v12 : tensor<2x3x4xf32>) outs(%v14 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v16 = tensor.empty() : tensor<2x3x4xf32>
  %v17 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v12, %v15 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v16 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %u_e = tensor.empty() : tensor<2x3x4xf32>
  %u = linalg.generic {indexing_maps = [#scalar, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%seed : tensor<i32>) outs(%u_e : tensor<2x3x4xf32>) {
  ^bb0(%s: i32, %o: f32):
    %c0 = arith.constant 0 : i32
    %c3 = arith.constant 3 : i32
    %c4 = arith.constant 4 : i32
    %b = linalg.index 0 : index
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %b32 = arith.index_cast %b : index to i32
    %i32 = arith.index_cast %i : index to i32
    %j32 = arith.index_cast %j : index to i32
    %bi = arith.muli %b32, %c3 : i32
    %row = arith.addi %bi, %i32 : i32
    %at = arith.muli %row, %c4 : i32
    %word = fsdp.random_word %j32 of %at, %c0, %c0, %c0 by %s, %c0 : i32
    %number = arith.uitofp %word : i32 to f32
    linalg.yield %number : f32
  } -> tensor<2x3x4xf32>
  %w1_e = tensor.empty() : tensor<2x3x4xf32>
  %w1 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %u : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%w1_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %keep = arith.constant 2.0e9 : f32
    %isKept = arith.cmpf olt, %a1, %keep : f32
    %f = arith.uitofp %isKept : i1 to f32
    %r = arith.mulf %a0, %f : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %w_e = tensor.empty() : tensor<2x3x4xf32>
  %w = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w1 : tensor<2x3x4xf32>) outs(%w_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %two64 = arith.constant 1.1 : f64
    %two = arith.truncf %two64 : f64 to f32
    %r = arith.mulf %a0, %two : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v18 = tensor.empty() : tensor<2x3x6xf32>
  %v19 = linalg.fill ins(%zero : f32) outs(%v18 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v20 = linalg.batch_matmul ins(%w, %v : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v19 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v21 = tensor.empty() : tensor<2x6x4xf32>
  %v22 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x4x6xf32>) outs(%v21 : tensor<2x6x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x6x4xf32>
  %v23 = tensor.empty() : tensor<2x3x4xf32>
  %v24 = linalg.fill ins(%zero : f32) outs(%v23 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v25 = linalg.batch_matmul ins(%dout, %v22 : tensor<2x3x6xf32>, tensor<2x6x4xf32>) outs(%v24 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v26 = tensor.empty() : tensor<2x4x3xf32>
  %v27 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<2x3x4xf32>) outs(%v26 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v28 = tensor.empty() : tensor<2x4x6xf32>
  %v29 = linalg.fill ins(%zero : f32) outs(%v28 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %v30 = linalg.batch_matmul ins(%v27, %dout : tensor<2x4x3xf32>, tensor<2x3x6xf32>) outs(%v29 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %f_e = tensor.empty() : tensor<2x3x4xf32>
  %f = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%u : tensor<2x3x4xf32>) outs(%f_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %keep = arith.constant 2.0e9 : f32
    %isKept = arith.cmpf olt, %a0, %keep : f32
    %f = arith.uitofp %isKept : i1 to f32
    %two64 = arith.constant 1.1 : f64
    %two = arith.truncf %two64 : f64 to f32
    %r = arith.mulf %f, %two : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %dp_e = tensor.empty() : tensor<2x3x4xf32>
  %dp = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v25, %f : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%dp_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v31 = tensor.empty() : tensor<2x3x4xf32>
  %v32 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%dp, %v17 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v31 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v33 = tensor.empty() : tensor<2x3xf32>
  %v34 = linalg.fill ins(%zero : f32) outs(%v33 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v35 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v32 : tensor<2x3x4xf32>) outs(%v34 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v36 = tensor.empty() : tensor<2x3x4xf32>
  %v37 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %v35 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v36 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v38 = tensor.empty() : tensor<2x3x4xf32>
  %v39 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v32, %v37 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v38 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v40 = tensor.empty() : tensor<2x3x5xf32>
  %v41 = linalg.fill ins(%zero : f32) outs(%v40 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %v42 = linalg.batch_matmul ins(%v39, %k : tensor<2x3x4xf32>, tensor<2x4x5xf32>) outs(%v41 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %v43 = tensor.empty() : tensor<2x4x3xf32>
  %v44 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v39 : tensor<2x3x4xf32>) outs(%v43 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v45 = tensor.empty() : tensor<2x4x5xf32>
  %v46 = linalg.fill ins(%zero : f32) outs(%v45 : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %v47 = linalg.batch_matmul ins(%v44, %q : tensor<2x4x3xf32>, tensor<2x3x5xf32>) outs(%v46 : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  fsdp.return %v20, %v42, %v47, %v30 : tensor<2x3x6xf32>, tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>
}

// -----

#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#scalar = affine_map<(d0, d1, d2) -> ()>

// One that is rounded to f16 is so in the kernel.
// CHECK-LABEL: fsdp.program @step
// CHECK:         } factor {
// CHECK:           %[[N:.*]] = arith.truncf %{{.*}} : f32 to f16
// CHECK:           arith.extf %[[N]] : f16 to f32
// CHECK:           fsdp.yield
fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %dout: tensor<2x3x6xf32>, %seed: tensor<i32>) -> (tensor<2x3x6xf32>, tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %v1 = tensor.empty() : tensor<2x5x4xf32>
  %v2 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k : tensor<2x4x5xf32>) outs(%v1 : tensor<2x5x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x5x4xf32>
  %v3 = tensor.empty() : tensor<2x3x4xf32>
  %v4 = linalg.fill ins(%zero : f32) outs(%v3 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v5 = linalg.batch_matmul ins(%q, %v2 : tensor<2x3x5xf32>, tensor<2x5x4xf32>) outs(%v4 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v6 = tensor.empty() : tensor<2x3xf32>
  %v7 = linalg.fill ins(%low : f32) outs(%v6 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v8 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v5 : tensor<2x3x4xf32>) outs(%v7 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v9 = tensor.empty() : tensor<2x3x4xf32>
  %v10 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5, %v8 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v9 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v11 = tensor.empty() : tensor<2x3x4xf32>
  %v12 = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v10 : tensor<2x3x4xf32>) outs(%v11 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v13 = tensor.empty() : tensor<2x3xf32>
  %v14 = linalg.fill ins(%zero : f32) outs(%v13 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v15 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v12 : tensor<2x3x4xf32>) outs(%v14 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v16 = tensor.empty() : tensor<2x3x4xf32>
  %v17 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v12, %v15 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v16 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %u_e = tensor.empty() : tensor<2x3x4xf32>
  %u = linalg.generic {indexing_maps = [#scalar, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%seed : tensor<i32>) outs(%u_e : tensor<2x3x4xf32>) {
  ^bb0(%s: i32, %o: f32):
    %c0 = arith.constant 0 : i32
    %c3 = arith.constant 3 : i32
    %c4 = arith.constant 4 : i32
    %b = linalg.index 0 : index
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %b32 = arith.index_cast %b : index to i32
    %i32 = arith.index_cast %i : index to i32
    %j32 = arith.index_cast %j : index to i32
    %bi = arith.muli %b32, %c3 : i32
    %row = arith.addi %bi, %i32 : i32
    %at = arith.muli %row, %c4 : i32
    %word = fsdp.random_word %j32 of %at, %c0, %c0, %c0 by %s, %c0 : i32
    %number = arith.uitofp %word : i32 to f32
    linalg.yield %number : f32
  } -> tensor<2x3x4xf32>
  %w1_e = tensor.empty() : tensor<2x3x4xf32>
  %w1 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %u : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%w1_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %keep = arith.constant 2.0e9 : f32
    %isKept = arith.cmpf olt, %a1, %keep : f32
    %fd = arith.mulf %a1, %a1 : f32
    %fh = arith.truncf %fd : f32 to f16
    %f = arith.extf %fh : f16 to f32
    %r = arith.mulf %a0, %f : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %w_e = tensor.empty() : tensor<2x3x4xf32>
  %w = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w1 : tensor<2x3x4xf32>) outs(%w_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %two = arith.constant 2.0 : f32
    %r = arith.mulf %a0, %two : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v18 = tensor.empty() : tensor<2x3x6xf32>
  %v19 = linalg.fill ins(%zero : f32) outs(%v18 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v20 = linalg.batch_matmul ins(%w, %v : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v19 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v21 = tensor.empty() : tensor<2x6x4xf32>
  %v22 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x4x6xf32>) outs(%v21 : tensor<2x6x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x6x4xf32>
  %v23 = tensor.empty() : tensor<2x3x4xf32>
  %v24 = linalg.fill ins(%zero : f32) outs(%v23 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v25 = linalg.batch_matmul ins(%dout, %v22 : tensor<2x3x6xf32>, tensor<2x6x4xf32>) outs(%v24 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v26 = tensor.empty() : tensor<2x4x3xf32>
  %v27 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<2x3x4xf32>) outs(%v26 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v28 = tensor.empty() : tensor<2x4x6xf32>
  %v29 = linalg.fill ins(%zero : f32) outs(%v28 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %v30 = linalg.batch_matmul ins(%v27, %dout : tensor<2x4x3xf32>, tensor<2x3x6xf32>) outs(%v29 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %f_e = tensor.empty() : tensor<2x3x4xf32>
  %f = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%u : tensor<2x3x4xf32>) outs(%f_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %keep = arith.constant 2.0e9 : f32
    %isKept = arith.cmpf olt, %a0, %keep : f32
    %fd = arith.mulf %a0, %a0 : f32
    %fh = arith.truncf %fd : f32 to f16
    %f = arith.extf %fh : f16 to f32
    %two = arith.constant 2.0 : f32
    %r = arith.mulf %f, %two : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %dp_e = tensor.empty() : tensor<2x3x4xf32>
  %dp = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v25, %f : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%dp_e : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v31 = tensor.empty() : tensor<2x3x4xf32>
  %v32 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%dp, %v17 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v31 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v33 = tensor.empty() : tensor<2x3xf32>
  %v34 = linalg.fill ins(%zero : f32) outs(%v33 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v35 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v32 : tensor<2x3x4xf32>) outs(%v34 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v36 = tensor.empty() : tensor<2x3x4xf32>
  %v37 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %v35 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v36 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v38 = tensor.empty() : tensor<2x3x4xf32>
  %v39 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v32, %v37 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v38 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v40 = tensor.empty() : tensor<2x3x5xf32>
  %v41 = linalg.fill ins(%zero : f32) outs(%v40 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %v42 = linalg.batch_matmul ins(%v39, %k : tensor<2x3x4xf32>, tensor<2x4x5xf32>) outs(%v41 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %v43 = tensor.empty() : tensor<2x4x3xf32>
  %v44 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v39 : tensor<2x3x4xf32>) outs(%v43 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v45 = tensor.empty() : tensor<2x4x5xf32>
  %v46 = linalg.fill ins(%zero : f32) outs(%v45 : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %v47 = linalg.batch_matmul ins(%v44, %q : tensor<2x4x3xf32>, tensor<2x3x5xf32>) outs(%v46 : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  fsdp.return %v20, %v42, %v47, %v30 : tensor<2x3x6xf32>, tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>
}
