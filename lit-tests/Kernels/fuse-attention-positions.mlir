// RUN: fsdp-opt %s -split-input-file --fsdp-fuse-attention | FileCheck %s

// Masks that compare positions which are read at indices.

#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#id = affine_map<(d0) -> (d0)>
#cell = affine_map<(d0, d1) -> (d0, d1)>
#q = affine_map<(d0, d1) -> (d0)>
#k = affine_map<(d0, d1) -> (d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>

// Positions that are gathered from positions, by indices that count from the end
// where they are negative: they never are.
// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.attention <
// CHECK-SAME:      captured() [] scale 1.000000e+00 causal {
// CHECK-NEXT:    ^bb0(%{{.*}}: f32, %{{.*}}: index, %[[I:[a-z0-9]+]]: index, %[[J:[a-z0-9]+]]: index):
// CHECK-DAG:       %[[QUERY:.*]] = arith.index_cast %[[I]] : index to i64
// CHECK-DAG:       %[[KEY:.*]] = arith.index_cast %[[J]] : index to i64
// CHECK:           arith.cmpi sge, %[[QUERY]], %[[KEY]] : i64
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
  %iq0 = tensor.empty() : tensor<3xi64>
  %iq = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%iq0 : tensor<3xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %r = arith.index_cast %i : index to i64
    linalg.yield %r : i64
  } -> tensor<3xi64>
  %ik0 = tensor.empty() : tensor<4xi64>
  %ik = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%ik0 : tensor<4xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %r = arith.index_cast %i : index to i64
    linalg.yield %r : i64
  } -> tensor<4xi64>
  %tq = tensor.expand_shape %iq [[0, 1]] output_shape [1, 3] : tensor<3xi64> into tensor<1x3xi64>
  %tk = tensor.expand_shape %ik [[0, 1]] output_shape [1, 4] : tensor<4xi64> into tensor<1x4xi64>
  %pq0 = tensor.empty() : tensor<3xi64>
  %pq = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%iq : tensor<3xi64>) outs(%pq0 : tensor<3xi64>) {
  ^bb0(%a0: i64, %o: i64):
    %none = arith.constant 0 : i64
    %size = arith.constant 3 : i64
    %zero_i = arith.constant 0 : index
    %isNegative = arith.cmpi slt, %a0, %none : i64
    %wrapped = arith.addi %a0, %size : i64
    %index = arith.select %isNegative, %wrapped, %a0 : i64
    %at = arith.index_cast %index : i64 to index
    %e = tensor.extract %tq[%zero_i, %at] : tensor<1x3xi64>
    linalg.yield %e : i64
  } -> tensor<3xi64>
  %pk0 = tensor.empty() : tensor<4xi64>
  %pk = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%ik : tensor<4xi64>) outs(%pk0 : tensor<4xi64>) {
  ^bb0(%a0: i64, %o: i64):
    %none = arith.constant 0 : i64
    %size = arith.constant 4 : i64
    %zero_i = arith.constant 0 : index
    %isNegative = arith.cmpi slt, %a0, %none : i64
    %wrapped = arith.addi %a0, %size : i64
    %index = arith.select %isNegative, %wrapped, %a0 : i64
    %at = arith.index_cast %index : i64 to index
    %e = tensor.extract %tk[%zero_i, %at] : tensor<1x4xi64>
    linalg.yield %e : i64
  } -> tensor<4xi64>
  %c6 = tensor.empty() : tensor<3x4xi1>
  %c7 = linalg.generic {indexing_maps = [#q, #k, #cell], iterator_types = ["parallel", "parallel"]} ins(%pq, %pk : tensor<3xi64>, tensor<4xi64>) outs(%c6 : tensor<3x4xi1>) {
  ^bb0(%a0: i64, %a1: i64, %o: i1):
    %r = arith.cmpi sge, %a0, %a1 : i64
    linalg.yield %r : i1
  } -> tensor<3x4xi1>
  %v6 = tensor.empty() : tensor<2x3x4xf32>
  %v7 = linalg.generic {indexing_maps = [#p3, #qk, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5, %c7 : tensor<2x3x4xf32>, tensor<3x4xi1>) outs(%v6 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: i1, %o: f32):
    %r = arith.select %a1, %a0, %low : f32
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

// -----

#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#id = affine_map<(d0) -> (d0)>
#cell = affine_map<(d0, d1) -> (d0, d1)>
#q = affine_map<(d0, d1) -> (d0)>
#k = affine_map<(d0, d1) -> (d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>

// Of given positions nothing is known.
// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.attention <
// CHECK-SAME:      captured(%{{.*}} : {{.*}}) [{{.*}}] scale 1.000000e+00 {
fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %given: tensor<1x3xi64>) -> (tensor<2x3x6xf32>) {
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
  %iq0 = tensor.empty() : tensor<3xi64>
  %iq = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%iq0 : tensor<3xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %r = arith.index_cast %i : index to i64
    linalg.yield %r : i64
  } -> tensor<3xi64>
  %ik0 = tensor.empty() : tensor<4xi64>
  %ik = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%ik0 : tensor<4xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %r = arith.index_cast %i : index to i64
    linalg.yield %r : i64
  } -> tensor<4xi64>
  %tk = tensor.expand_shape %ik [[0, 1]] output_shape [1, 4] : tensor<4xi64> into tensor<1x4xi64>
  %pq0 = tensor.empty() : tensor<3xi64>
  %pq = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%iq : tensor<3xi64>) outs(%pq0 : tensor<3xi64>) {
  ^bb0(%a0: i64, %o: i64):
    %none = arith.constant 0 : i64
    %size = arith.constant 3 : i64
    %zero_i = arith.constant 0 : index
    %isNegative = arith.cmpi slt, %a0, %none : i64
    %wrapped = arith.addi %a0, %size : i64
    %index = arith.select %isNegative, %wrapped, %a0 : i64
    %at = arith.index_cast %index : i64 to index
    %e = tensor.extract %given[%zero_i, %at] : tensor<1x3xi64>
    linalg.yield %e : i64
  } -> tensor<3xi64>
  %pk0 = tensor.empty() : tensor<4xi64>
  %pk = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%ik : tensor<4xi64>) outs(%pk0 : tensor<4xi64>) {
  ^bb0(%a0: i64, %o: i64):
    %none = arith.constant 0 : i64
    %size = arith.constant 4 : i64
    %zero_i = arith.constant 0 : index
    %isNegative = arith.cmpi slt, %a0, %none : i64
    %wrapped = arith.addi %a0, %size : i64
    %index = arith.select %isNegative, %wrapped, %a0 : i64
    %at = arith.index_cast %index : i64 to index
    %e = tensor.extract %tk[%zero_i, %at] : tensor<1x4xi64>
    linalg.yield %e : i64
  } -> tensor<4xi64>
  %c6 = tensor.empty() : tensor<3x4xi1>
  %c7 = linalg.generic {indexing_maps = [#q, #k, #cell], iterator_types = ["parallel", "parallel"]} ins(%pq, %pk : tensor<3xi64>, tensor<4xi64>) outs(%c6 : tensor<3x4xi1>) {
  ^bb0(%a0: i64, %a1: i64, %o: i1):
    %r = arith.cmpi sge, %a0, %a1 : i64
    linalg.yield %r : i1
  } -> tensor<3x4xi1>
  %v6 = tensor.empty() : tensor<2x3x4xf32>
  %v7 = linalg.generic {indexing_maps = [#p3, #qk, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5, %c7 : tensor<2x3x4xf32>, tensor<3x4xi1>) outs(%v6 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: i1, %o: f32):
    %r = arith.select %a1, %a0, %low : f32
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

// -----

#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#id = affine_map<(d0) -> (d0)>
#cell = affine_map<(d0, d1) -> (d0, d1)>
#q = affine_map<(d0, d1) -> (d0)>
#k = affine_map<(d0, d1) -> (d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>

// Some indices count from the end: which elements are read, no strides say.
// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.attention <
// CHECK-SAME:      captured(%{{.*}} : {{.*}}) [{{.*}}] scale 1.000000e+00 {
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
  %iq0 = tensor.empty() : tensor<3xi64>
  %iq = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%iq0 : tensor<3xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %r = arith.index_cast %i : index to i64
    linalg.yield %r : i64
  } -> tensor<3xi64>
  %ik0 = tensor.empty() : tensor<4xi64>
  %ik = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%ik0 : tensor<4xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %r = arith.index_cast %i : index to i64
    linalg.yield %r : i64
  } -> tensor<4xi64>
  %tq = tensor.expand_shape %iq [[0, 1]] output_shape [1, 3] : tensor<3xi64> into tensor<1x3xi64>
  %tk = tensor.expand_shape %ik [[0, 1]] output_shape [1, 4] : tensor<4xi64> into tensor<1x4xi64>
  %pq0 = tensor.empty() : tensor<3xi64>
  %pq = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%iq : tensor<3xi64>) outs(%pq0 : tensor<3xi64>) {
  ^bb0(%a0: i64, %o: i64):
    %none = arith.constant 0 : i64
    %size = arith.constant 3 : i64
    %zero_i = arith.constant 0 : index
    %isNegative = arith.cmpi slt, %a0, %none : i64
    %wrapped = arith.addi %a0, %size : i64
    %index = arith.select %isNegative, %wrapped, %a0 : i64
    %at = arith.index_cast %index : i64 to index
    %e = tensor.extract %tq[%zero_i, %at] : tensor<1x3xi64>
    linalg.yield %e : i64
  } -> tensor<3xi64>
  %pk0 = tensor.empty() : tensor<4xi64>
  %pk = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%ik : tensor<4xi64>) outs(%pk0 : tensor<4xi64>) {
  ^bb0(%a0: i64, %o: i64):
    %none = arith.constant 1 : i64
    %last = arith.constant 3 : i64
    %zero_i = arith.constant 0 : index
    %isNegative = arith.cmpi slt, %a0, %none : i64
    %wrapped = arith.addi %a0, %last : i64
    %index = arith.select %isNegative, %wrapped, %a0 : i64
    %at = arith.index_cast %index : i64 to index
    %e = tensor.extract %tk[%zero_i, %at] : tensor<1x4xi64>
    linalg.yield %e : i64
  } -> tensor<4xi64>
  %c6 = tensor.empty() : tensor<3x4xi1>
  %c7 = linalg.generic {indexing_maps = [#q, #k, #cell], iterator_types = ["parallel", "parallel"]} ins(%pq, %pk : tensor<3xi64>, tensor<4xi64>) outs(%c6 : tensor<3x4xi1>) {
  ^bb0(%a0: i64, %a1: i64, %o: i1):
    %r = arith.cmpi sge, %a0, %a1 : i64
    linalg.yield %r : i1
  } -> tensor<3x4xi1>
  %v6 = tensor.empty() : tensor<2x3x4xf32>
  %v7 = linalg.generic {indexing_maps = [#p3, #qk, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5, %c7 : tensor<2x3x4xf32>, tensor<3x4xi1>) outs(%v6 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: i1, %o: f32):
    %r = arith.select %a1, %a0, %low : f32
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

// -----

#p3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0, d1)>
#t = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#id = affine_map<(d0) -> (d0)>
#cell = affine_map<(d0, d1) -> (d0, d1)>
#q = affine_map<(d0, d1) -> (d0)>
#k = affine_map<(d0, d1) -> (d1)>
#qk = affine_map<(d0, d1, d2) -> (d1, d2)>

// A part of a longer table.
// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.attention <
// CHECK-SAME:      captured(%{{.*}} : {{.*}}) [{{.*}}] scale 1.000000e+00 {
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
  %iq0 = tensor.empty() : tensor<3xi64>
  %iq = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%iq0 : tensor<3xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %r = arith.index_cast %i : index to i64
    linalg.yield %r : i64
  } -> tensor<3xi64>
  %ik0 = tensor.empty() : tensor<4xi64>
  %ik = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%ik0 : tensor<4xi64>) {
  ^bb0(%o: i64):
    %i = linalg.index 0 : index
    %r = arith.index_cast %i : index to i64
    linalg.yield %r : i64
  } -> tensor<4xi64>
  %tk = tensor.expand_shape %ik [[0, 1]] output_shape [1, 4] : tensor<4xi64> into tensor<1x4xi64>
  %pq0 = tensor.empty() : tensor<3xi64>
  %pq = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%iq : tensor<3xi64>) outs(%pq0 : tensor<3xi64>) {
  ^bb0(%a0: i64, %o: i64):
    %none = arith.constant 0 : i64
    %size = arith.constant 4 : i64
    %zero_i = arith.constant 0 : index
    %isNegative = arith.cmpi slt, %a0, %none : i64
    %wrapped = arith.addi %a0, %size : i64
    %index = arith.select %isNegative, %wrapped, %a0 : i64
    %at = arith.index_cast %index : i64 to index
    %e = tensor.extract %tk[%zero_i, %at] : tensor<1x4xi64>
    linalg.yield %e : i64
  } -> tensor<3xi64>
  %pk0 = tensor.empty() : tensor<4xi64>
  %pk = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%ik : tensor<4xi64>) outs(%pk0 : tensor<4xi64>) {
  ^bb0(%a0: i64, %o: i64):
    %none = arith.constant 0 : i64
    %size = arith.constant 4 : i64
    %zero_i = arith.constant 0 : index
    %isNegative = arith.cmpi slt, %a0, %none : i64
    %wrapped = arith.addi %a0, %size : i64
    %index = arith.select %isNegative, %wrapped, %a0 : i64
    %at = arith.index_cast %index : i64 to index
    %e = tensor.extract %tk[%zero_i, %at] : tensor<1x4xi64>
    linalg.yield %e : i64
  } -> tensor<4xi64>
  %c6 = tensor.empty() : tensor<3x4xi1>
  %c7 = linalg.generic {indexing_maps = [#q, #k, #cell], iterator_types = ["parallel", "parallel"]} ins(%pq, %pk : tensor<3xi64>, tensor<4xi64>) outs(%c6 : tensor<3x4xi1>) {
  ^bb0(%a0: i64, %a1: i64, %o: i1):
    %r = arith.cmpi sge, %a0, %a1 : i64
    linalg.yield %r : i1
  } -> tensor<3x4xi1>
  %v6 = tensor.empty() : tensor<2x3x4xf32>
  %v7 = linalg.generic {indexing_maps = [#p3, #qk, #p3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5, %c7 : tensor<2x3x4xf32>, tensor<3x4xi1>) outs(%v6 : tensor<2x3x4xf32>) {
  ^bb0(%a0: f32, %a1: i1, %o: f32):
    %r = arith.select %a1, %a0, %low : f32
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
