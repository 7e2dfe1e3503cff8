// RUN: fsdp-opt %s -split-input-file --fsdp-fuse-attention | FileCheck %s

// Attention is found by what it computes, forward and backward.

#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#row1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
#k = affine_map<(d0, d1, d2) -> (d2)>

// The plain form.
// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: tensor<2x3x5xf32>, %[[K:[a-z0-9]+]]: tensor<2x4x5xf32>, %[[V:[a-z0-9]+]]: tensor<2x4x6xf32>)
// CHECK-NEXT:    %[[OUT:.*]], %{{.*}} = fsdp.attention <batch = [2], queries = 3, keys = 4, head = 5, value = 6>
// CHECK-SAME:      q(%[[Q]] <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%[[K]] <0, [20, 5, 1]> : tensor<2x4x5xf32>)
// CHECK-SAME:      v(%[[V]] <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured() [] scale 1.000000e+00 {
// CHECK-NEXT:    ^bb0(%[[S:.*]]: f32, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index):
// CHECK-NEXT:      fsdp.yield %[[S]] : f32
// CHECK-NEXT:    } out(<0, [18, 6, 1]>) : tensor<2x3x6xf32>, tensor<12xf32>
// CHECK-NEXT:    return %[[OUT]]
fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>) -> (tensor<2x3x6xf32>) {
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
  %v18 = tensor.empty() : tensor<2x3x6xf32>
  %v19 = linalg.fill ins(%zero : f32) outs(%v18 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v20 = linalg.batch_matmul ins(%v17, %v : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v19 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  fsdp.return %v20 : tensor<2x3x6xf32>
}

// -----

#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#row1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
#k = affine_map<(d0, d1, d2) -> (d2)>

// Gradients of all three.
// CHECK-LABEL: fsdp.program @step
// CHECK:         %[[OUT:.*]], %[[STATS:.*]] = fsdp.attention <
// CHECK:         %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = fsdp.attention_backward <batch = [2], queries = 3, keys = 4, head = 5, value = 6>
// CHECK-SAME:      out(%[[OUT]] <0, [18, 6, 1]> : tensor<2x3x6xf32>) dout(%{{.*}} <0, [18, 6, 1]> : tensor<2x3x6xf32>) stats(%[[STATS]] : tensor<12xf32>)
// CHECK:         } gradient {
// CHECK-NEXT:    ^bb0(%[[DS:[a-z0-9]+]]: f32, %{{.*}}: f32,
// CHECK-NEXT:      fsdp.yield %[[DS]] : f32
// CHECK-NEXT:    } dq(<0, [15, 5, 1]> : tensor<2x3x5xf32>) dk(<0, [20, 5, 1]> : tensor<2x4x5xf32>) dv(<0, [24, 6, 1]> : tensor<2x4x6xf32>)
// CHECK-NOT:     linalg
// CHECK:         return %[[OUT]], %[[DQ]], %[[DK]], %[[DV]]
fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %dout: tensor<2x3x6xf32>) -> (tensor<2x3x6xf32>, tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>) {
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
  %v18 = tensor.empty() : tensor<2x3x6xf32>
  %v19 = linalg.fill ins(%zero : f32) outs(%v18 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v20 = linalg.batch_matmul ins(%v17, %v : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v19 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v21 = tensor.empty() : tensor<2x6x4xf32>
  %v22 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x4x6xf32>) outs(%v21 : tensor<2x6x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x6x4xf32>
  %v23 = tensor.empty() : tensor<2x3x4xf32>
  %v24 = linalg.fill ins(%zero : f32) outs(%v23 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v25 = linalg.batch_matmul ins(%dout, %v22 : tensor<2x3x6xf32>, tensor<2x6x4xf32>) outs(%v24 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v26 = tensor.empty() : tensor<2x4x3xf32>
  %v27 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17 : tensor<2x3x4xf32>) outs(%v26 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v28 = tensor.empty() : tensor<2x4x6xf32>
  %v29 = linalg.fill ins(%zero : f32) outs(%v28 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %v30 = linalg.batch_matmul ins(%v27, %dout : tensor<2x4x3xf32>, tensor<2x3x6xf32>) outs(%v29 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %v31 = tensor.empty() : tensor<2x3x4xf32>
  %v32 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v25, %v17 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v31 : tensor<2x3x4xf32>) {
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
#row1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
#k = affine_map<(d0, d1, d2) -> (d2)>

// The gradient as p * (dp - sum).
// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.attention_backward
// CHECK-NOT:     linalg
fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %dout: tensor<2x3x6xf32>) -> (tensor<2x3x6xf32>, tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>) {
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
  %v18 = tensor.empty() : tensor<2x3x6xf32>
  %v19 = linalg.fill ins(%zero : f32) outs(%v18 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v20 = linalg.batch_matmul ins(%v17, %v : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v19 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v21 = tensor.empty() : tensor<2x6x4xf32>
  %v22 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x4x6xf32>) outs(%v21 : tensor<2x6x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x6x4xf32>
  %v23 = tensor.empty() : tensor<2x3x4xf32>
  %v24 = linalg.fill ins(%zero : f32) outs(%v23 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v25 = linalg.batch_matmul ins(%dout, %v22 : tensor<2x3x6xf32>, tensor<2x6x4xf32>) outs(%v24 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v26 = tensor.empty() : tensor<2x4x3xf32>
  %v27 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17 : tensor<2x3x4xf32>) outs(%v26 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v28 = tensor.empty() : tensor<2x4x6xf32>
  %v29 = linalg.fill ins(%zero : f32) outs(%v28 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %v30 = linalg.batch_matmul ins(%v27, %dout : tensor<2x4x3xf32>, tensor<2x3x6xf32>) outs(%v29 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %v31 = tensor.empty() : tensor<2x3x4xf32>
  %v32 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %v25 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v31 : tensor<2x3x4xf32>) {
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
  %v37 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v25, %v35 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v36 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v38 = tensor.empty() : tensor<2x3x4xf32>
  %v39 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %v37 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v38 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
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
#row1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
#k = affine_map<(d0, d1, d2) -> (d2)>

// The gradient as fma(-p, sum, p * dp).
// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.attention_backward
// CHECK-NOT:     linalg
fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %dout: tensor<2x3x6xf32>) -> (tensor<2x3x6xf32>, tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>) {
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
  %v18 = tensor.empty() : tensor<2x3x6xf32>
  %v19 = linalg.fill ins(%zero : f32) outs(%v18 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v20 = linalg.batch_matmul ins(%v17, %v : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v19 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v21 = tensor.empty() : tensor<2x6x4xf32>
  %v22 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x4x6xf32>) outs(%v21 : tensor<2x6x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x6x4xf32>
  %v23 = tensor.empty() : tensor<2x3x4xf32>
  %v24 = linalg.fill ins(%zero : f32) outs(%v23 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v25 = linalg.batch_matmul ins(%dout, %v22 : tensor<2x3x6xf32>, tensor<2x6x4xf32>) outs(%v24 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v26 = tensor.empty() : tensor<2x4x3xf32>
  %v27 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17 : tensor<2x3x4xf32>) outs(%v26 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v28 = tensor.empty() : tensor<2x4x6xf32>
  %v29 = linalg.fill ins(%zero : f32) outs(%v28 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %v30 = linalg.batch_matmul ins(%v27, %dout : tensor<2x4x3xf32>, tensor<2x3x6xf32>) outs(%v29 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %v31 = tensor.empty() : tensor<2x3x4xf32>
  %v32 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %v25 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v31 : tensor<2x3x4xf32>) {
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
  %v37 = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17 : tensor<2x3x4xf32>) outs(%v36 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.negf %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v38 = tensor.empty() : tensor<2x3x4xf32>
  %v39 = linalg.generic {indexing_maps = [#p3, #row, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v37, %v35, %v32 : tensor<2x3x4xf32>, tensor<2x3xf32>, tensor<2x3x4xf32>) outs(%v38 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %o: f32):
    %r = math.fma %a0, %a1, %a2 : f32
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
#row1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
#k = affine_map<(d0, d1, d2) -> (d2)>

// A score function whose gradient needs the score again.
// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.attention_backward
// CHECK:         } gradient {
// CHECK-NEXT:    ^bb0(%[[DS:[a-z0-9]+]]: f32, %[[S:[a-z0-9]+]]: f32,
// CHECK-DAG:       %[[T:.*]] = math.tanh %[[S]] : f32
// CHECK-DAG:       %[[SQ:.*]] = arith.mulf %[[T]], %[[T]] : f32
// CHECK-DAG:       %[[P:.*]] = arith.mulf %[[DS]], %[[SQ]] : f32
// CHECK:           %[[R:.*]] = arith.subf %[[DS]], %[[P]] : f32
// CHECK-NEXT:      fsdp.yield %[[R]] : f32
fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %dout: tensor<2x3x6xf32>) -> (tensor<2x3x6xf32>, tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>) {
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
  %v6 = tensor.empty() : tensor<2x3x4xf32>
  %v7 = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5 : tensor<2x3x4xf32>) outs(%v6 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.tanh %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v8 = tensor.empty() : tensor<2x3xf32>
  %v9 = linalg.fill ins(%low : f32) outs(%v8 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v10 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v7 : tensor<2x3x4xf32>) outs(%v9 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v11 = tensor.empty() : tensor<2x3x4xf32>
  %v12 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v7, %v10 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v11 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v13 = tensor.empty() : tensor<2x3x4xf32>
  %v14 = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v12 : tensor<2x3x4xf32>) outs(%v13 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v15 = tensor.empty() : tensor<2x3xf32>
  %v16 = linalg.fill ins(%zero : f32) outs(%v15 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v17 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v14 : tensor<2x3x4xf32>) outs(%v16 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v18 = tensor.empty() : tensor<2x3x4xf32>
  %v19 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v14, %v17 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v18 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v20 = tensor.empty() : tensor<2x3x6xf32>
  %v21 = linalg.fill ins(%zero : f32) outs(%v20 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v22 = linalg.batch_matmul ins(%v19, %v : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v21 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v23 = tensor.empty() : tensor<2x6x4xf32>
  %v24 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x4x6xf32>) outs(%v23 : tensor<2x6x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x6x4xf32>
  %v25 = tensor.empty() : tensor<2x3x4xf32>
  %v26 = linalg.fill ins(%zero : f32) outs(%v25 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v27 = linalg.batch_matmul ins(%dout, %v24 : tensor<2x3x6xf32>, tensor<2x6x4xf32>) outs(%v26 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v28 = tensor.empty() : tensor<2x4x3xf32>
  %v29 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v19 : tensor<2x3x4xf32>) outs(%v28 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v30 = tensor.empty() : tensor<2x4x6xf32>
  %v31 = linalg.fill ins(%zero : f32) outs(%v30 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %v32 = linalg.batch_matmul ins(%v29, %dout : tensor<2x4x3xf32>, tensor<2x3x6xf32>) outs(%v31 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %v33 = tensor.empty() : tensor<2x3x4xf32>
  %v34 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v27, %v19 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v33 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v35 = tensor.empty() : tensor<2x3xf32>
  %v36 = linalg.fill ins(%zero : f32) outs(%v35 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v37 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v34 : tensor<2x3x4xf32>) outs(%v36 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v38 = tensor.empty() : tensor<2x3x4xf32>
  %v39 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v19, %v37 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v38 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v40 = tensor.empty() : tensor<2x3x4xf32>
  %v41 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v34, %v39 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v40 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v42 = tensor.empty() : tensor<2x3x4xf32>
  %v43 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v7, %v7 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v42 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v44 = tensor.empty() : tensor<2x3x4xf32>
  %v45 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v41, %v43 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v44 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v46 = tensor.empty() : tensor<2x3x4xf32>
  %v47 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v41, %v45 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v46 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v48 = tensor.empty() : tensor<2x3x5xf32>
  %v49 = linalg.fill ins(%zero : f32) outs(%v48 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %v50 = linalg.batch_matmul ins(%v47, %k : tensor<2x3x4xf32>, tensor<2x4x5xf32>) outs(%v49 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %v51 = tensor.empty() : tensor<2x4x3xf32>
  %v52 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v47 : tensor<2x3x4xf32>) outs(%v51 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v53 = tensor.empty() : tensor<2x4x5xf32>
  %v54 = linalg.fill ins(%zero : f32) outs(%v53 : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %v55 = linalg.batch_matmul ins(%v52, %q : tensor<2x4x3xf32>, tensor<2x3x5xf32>) outs(%v54 : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  fsdp.return %v22, %v50, %v55, %v32 : tensor<2x3x6xf32>, tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>
}

// -----

#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#row1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
#k = affine_map<(d0, d1, d2) -> (d2)>

// A bias of queries and keys, and a mask of keys, are captured.
// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.attention <
// CHECK-SAME:      captured(%[[A:[a-z0-9]+]], %[[B:[a-z0-9]+]] : {{.*}}) [{{.*}}] scale
// CHECK-NOT:       causal
// CHECK:           arith.addf
// CHECK:           arith.select
fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %bias: tensor<3x4xf32>, %mask: tensor<4xi1>) -> (tensor<2x3x6xf32>) {
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
  %v6 = tensor.empty() : tensor<2x3x4xf32>
  %v7 = linalg.generic {indexing_maps = [#p3, #qk, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5, %bias : tensor<2x3x4xf32>, tensor<3x4xf32>) outs(%v6 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v8 = tensor.empty() : tensor<2x3x4xf32>
  %v9 = linalg.generic {indexing_maps = [#k, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%mask, %v7 : tensor<4xi1>, tensor<2x3x4xf32>) outs(%v8 : tensor<2x3x4xf32>) {
  ^bb0(%a0: i1, %a1: f32, %o: f32):
    %r = arith.select %a0, %a1, %low : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v10 = tensor.empty() : tensor<2x3xf32>
  %v11 = linalg.fill ins(%low : f32) outs(%v10 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v12 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v9 : tensor<2x3x4xf32>) outs(%v11 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v13 = tensor.empty() : tensor<2x3x4xf32>
  %v14 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v9, %v12 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v13 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v15 = tensor.empty() : tensor<2x3x4xf32>
  %v16 = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v14 : tensor<2x3x4xf32>) outs(%v15 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v17 = tensor.empty() : tensor<2x3xf32>
  %v18 = linalg.fill ins(%zero : f32) outs(%v17 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v19 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v16 : tensor<2x3x4xf32>) outs(%v18 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v20 = tensor.empty() : tensor<2x3x4xf32>
  %v21 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v16, %v19 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v20 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v22 = tensor.empty() : tensor<2x3x6xf32>
  %v23 = linalg.fill ins(%zero : f32) outs(%v22 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v24 = linalg.batch_matmul ins(%v21, %v : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v23 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  fsdp.return %v24 : tensor<2x3x6xf32>
}

// -----

#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#row1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
#k = affine_map<(d0, d1, d2) -> (d2)>

// Keys behind the query are masked by index.
// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.attention <{{.*}} scale 1.000000e+00 causal {
// CHECK-NEXT:    ^bb0(%{{.*}}: f32, %{{.*}}: index, %[[I:[a-z0-9]+]]: index, %[[J:[a-z0-9]+]]: index):
// CHECK:           arith.cmpi ule, %[[J]], %[[I]] : index
fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>) -> (tensor<2x3x6xf32>) {
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
  %v6 = tensor.empty() : tensor<2x3x4xf32>
  %v7 = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5 : tensor<2x3x4xf32>) outs(%v6 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %r = arith.select %c, %a0, %low : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v8 = tensor.empty() : tensor<2x3xf32>
  %v9 = linalg.fill ins(%low : f32) outs(%v8 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v10 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v7 : tensor<2x3x4xf32>) outs(%v9 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v11 = tensor.empty() : tensor<2x3x4xf32>
  %v12 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v7, %v10 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v11 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v13 = tensor.empty() : tensor<2x3x4xf32>
  %v14 = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v12 : tensor<2x3x4xf32>) outs(%v13 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v15 = tensor.empty() : tensor<2x3xf32>
  %v16 = linalg.fill ins(%zero : f32) outs(%v15 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v17 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v14 : tensor<2x3x4xf32>) outs(%v16 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v18 = tensor.empty() : tensor<2x3x4xf32>
  %v19 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v14, %v17 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v18 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v20 = tensor.empty() : tensor<2x3x6xf32>
  %v21 = linalg.fill ins(%zero : f32) outs(%v20 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v22 = linalg.batch_matmul ins(%v19, %v : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v21 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  fsdp.return %v22 : tensor<2x3x6xf32>
}
