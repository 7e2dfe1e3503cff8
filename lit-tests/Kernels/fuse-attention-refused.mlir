// RUN: fsdp-opt %s -split-input-file --fsdp-fuse-attention --remarks-filter=fsdp-fuse-attention --remark-policy=all -o %t 2>&1 | FileCheck %s
// RUN: FileCheck %s --check-prefix=IR --input-file=%t

// IR-NOT: fsdp.attention

// A softmax between two products that stays as it is, and why.

// The probabilities are a result.
// CHECK: Reason="scores or probabilities are read by something else, fsdp.return"
#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#row1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
#k = affine_map<(d0, d1, d2) -> (d2)>

fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>) -> (tensor<2x3x6xf32>, tensor<2x3x4xf32>) {
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
  fsdp.return %v20, %v17 : tensor<2x3x6xf32>, tensor<2x3x4xf32>
}

// -----

// Scores of two products.
// CHECK: Reason="scores are made of more than one product"
#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#row1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
#k = affine_map<(d0, d1, d2) -> (d2)>

fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %w: tensor<2x5x4xf32>) -> (tensor<2x3x6xf32>) {
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
  %v7 = linalg.fill ins(%zero : f32) outs(%v6 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v8 = linalg.batch_matmul ins(%q, %w : tensor<2x3x5xf32>, tensor<2x5x4xf32>) outs(%v7 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v9 = tensor.empty() : tensor<2x3x4xf32>
  %v10 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5, %v8 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v9 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v11 = tensor.empty() : tensor<2x3xf32>
  %v12 = linalg.fill ins(%low : f32) outs(%v11 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v13 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v10 : tensor<2x3x4xf32>) outs(%v12 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v14 = tensor.empty() : tensor<2x3x4xf32>
  %v15 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v10, %v13 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v14 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v16 = tensor.empty() : tensor<2x3x4xf32>
  %v17 = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v15 : tensor<2x3x4xf32>) outs(%v16 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v18 = tensor.empty() : tensor<2x3xf32>
  %v19 = linalg.fill ins(%zero : f32) outs(%v18 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v20 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v17 : tensor<2x3x4xf32>) outs(%v19 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v21 = tensor.empty() : tensor<2x3x4xf32>
  %v22 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %v20 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v21 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v23 = tensor.empty() : tensor<2x3x6xf32>
  %v24 = linalg.fill ins(%zero : f32) outs(%v23 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v25 = linalg.batch_matmul ins(%v22, %v : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v24 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  fsdp.return %v25 : tensor<2x3x6xf32>
}

// -----

// Values times a constant.
// CHECK: Reason="values are multiplied by a constant"
#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#row1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
#k = affine_map<(d0, d1, d2) -> (d2)>

fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>) -> (tensor<2x3x6xf32>) {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %two = arith.constant 2.0 : f32
  %v1 = tensor.empty() : tensor<2x4x6xf32>
  %v2 = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x4x6xf32>) outs(%v1 : tensor<2x4x6xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.mulf %a0, %two : f32
    linalg.yield %r : f32
  } -> tensor<2x4x6xf32>
  %v3 = tensor.empty() : tensor<2x5x4xf32>
  %v4 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k : tensor<2x4x5xf32>) outs(%v3 : tensor<2x5x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x5x4xf32>
  %v5 = tensor.empty() : tensor<2x3x4xf32>
  %v6 = linalg.fill ins(%zero : f32) outs(%v5 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v7 = linalg.batch_matmul ins(%q, %v4 : tensor<2x3x5xf32>, tensor<2x5x4xf32>) outs(%v6 : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
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
  %v22 = linalg.batch_matmul ins(%v19, %v2 : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v21 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  fsdp.return %v22 : tensor<2x3x6xf32>
}

// -----

// Not the gradient of a softmax.
// CHECK: Reason="the gradient of the softmax is not p * (dp - sum p * dp)"
#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#row1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
#k = affine_map<(d0, d1, d2) -> (d2)>

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
  %v35 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v25 : tensor<2x3x4xf32>) outs(%v34 : tensor<2x3xf32>) {
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

// The gradient of the queries comes from other keys.
// CHECK: Reason="the backward pass reads other queries, keys or values"
#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#row1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
#k = affine_map<(d0, d1, d2) -> (d2)>

fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %dout: tensor<2x3x6xf32>, %other: tensor<2x4x5xf32>) -> (tensor<2x3x6xf32>, tensor<2x3x5xf32>) {
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
  %v26 = tensor.empty() : tensor<2x3x4xf32>
  %v27 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v25, %v17 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v26 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v28 = tensor.empty() : tensor<2x3xf32>
  %v29 = linalg.fill ins(%zero : f32) outs(%v28 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v30 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v27 : tensor<2x3x4xf32>) outs(%v29 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v31 = tensor.empty() : tensor<2x3x4xf32>
  %v32 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %v30 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v31 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v33 = tensor.empty() : tensor<2x3x4xf32>
  %v34 = linalg.generic {indexing_maps = [#p3, #p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v27, %v32 : tensor<2x3x4xf32>, tensor<2x3x4xf32>) outs(%v33 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v35 = tensor.empty() : tensor<2x3x5xf32>
  %v36 = linalg.fill ins(%zero : f32) outs(%v35 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %v37 = linalg.batch_matmul ins(%v34, %other : tensor<2x3x4xf32>, tensor<2x4x5xf32>) outs(%v36 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  fsdp.return %v20, %v37 : tensor<2x3x6xf32>, tensor<2x3x5xf32>
}

// -----

// Scores times their sum: no function of one score.
// CHECK: Reason="a row's reduction is part of the score function"
#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#row1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
#k = affine_map<(d0, d1, d2) -> (d2)>

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
  %v7 = linalg.fill ins(%zero : f32) outs(%v6 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v8 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v5 : tensor<2x3x4xf32>) outs(%v7 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v9 = tensor.empty() : tensor<2x3x4xf32>
  %v10 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5, %v8 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v9 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v11 = tensor.empty() : tensor<2x3xf32>
  %v12 = linalg.fill ins(%low : f32) outs(%v11 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v13 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v10 : tensor<2x3x4xf32>) outs(%v12 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v14 = tensor.empty() : tensor<2x3x4xf32>
  %v15 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v10, %v13 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v14 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v16 = tensor.empty() : tensor<2x3x4xf32>
  %v17 = linalg.generic {indexing_maps = [#p3, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v15 : tensor<2x3x4xf32>) outs(%v16 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v18 = tensor.empty() : tensor<2x3xf32>
  %v19 = linalg.fill ins(%zero : f32) outs(%v18 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %v20 = linalg.generic {indexing_maps = [#p3, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v17 : tensor<2x3x4xf32>) outs(%v19 : tensor<2x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  %v21 = tensor.empty() : tensor<2x3x4xf32>
  %v22 = linalg.generic {indexing_maps = [#p3, #row, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17, %v20 : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%v21 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x4xf32>
  %v23 = tensor.empty() : tensor<2x3x6xf32>
  %v24 = linalg.fill ins(%zero : f32) outs(%v23 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v25 = linalg.batch_matmul ins(%v22, %v : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v24 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  fsdp.return %v25 : tensor<2x3x6xf32>
}

// -----

// Queries and keys are frozen.
// CHECK: Reason="only the values have a gradient"
#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#row1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
#k = affine_map<(d0, d1, d2) -> (d2)>

fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %dout: tensor<2x3x6xf32>) -> (tensor<2x3x6xf32>, tensor<2x4x6xf32>) {
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
  %v21 = tensor.empty() : tensor<2x4x3xf32>
  %v22 = linalg.generic {indexing_maps = [#t, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v17 : tensor<2x3x4xf32>) outs(%v21 : tensor<2x4x3xf32>) {
  ^bb0(%a0: f32, %o: f32):
    linalg.yield %a0 : f32
  } -> tensor<2x4x3xf32>
  %v23 = tensor.empty() : tensor<2x4x6xf32>
  %v24 = linalg.fill ins(%zero : f32) outs(%v23 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %v25 = linalg.batch_matmul ins(%v22, %dout : tensor<2x4x3xf32>, tensor<2x3x6xf32>) outs(%v24 : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  fsdp.return %v20, %v25 : tensor<2x3x6xf32>, tensor<2x4x6xf32>
}

// -----

// One softmax, two values.
// CHECK: Reason="the probabilities are read by another product"
#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#row1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>
#k = affine_map<(d0, d1, d2) -> (d2)>

fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %w: tensor<2x4x6xf32>) -> (tensor<2x3x6xf32>, tensor<2x3x6xf32>) {
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
  %v21 = tensor.empty() : tensor<2x3x6xf32>
  %v22 = linalg.fill ins(%zero : f32) outs(%v21 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %v23 = linalg.batch_matmul ins(%v17, %w : tensor<2x3x4xf32>, tensor<2x4x6xf32>) outs(%v22 : tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  fsdp.return %v20, %v23 : tensor<2x3x6xf32>, tensor<2x3x6xf32>
}
