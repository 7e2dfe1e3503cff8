// RUN: fsdp-opt %s -split-input-file --fsdp-normalize-compute --fsdp-fuse-attention | FileCheck %s

// Grouped queries: two heads share their keys and values, so their gradients
// are sums over both.

// Under autocast, keys are rotated in f32, repeated and cast, values only
// repeated. The gradient of the keys is widened before it is added, that of the
// values is added as it is; the attention adds both.

// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.attention <batch = [2, 2], queries = 3, keys = 5, head = 2, value = 6>
// CHECK-SAME:      v(%{{.*}} <0, [30, 0, 6, 1]> : tensor<1x2x5x6xbf16>)
// CHECK:         %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = fsdp.attention_backward
// CHECK:         dk(<0, [10, 0, 2, 1]> : tensor<1x2x{{(1x)?}}5x2xf32>
// CHECK-SAME:    dv(<0, [30, 0, 6, 1]> : tensor<1x2x{{(1x)?}}5x6xbf16>
// CHECK-NOT:     linalg.{{batch_}}matmul
// CHECK:         return
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)>
#map2 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#map3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, 0)>
#map6 = affine_map<(d0, d1, d2, d3) -> ()>
#map7 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, 0, d3, d4)>
fsdp.program @step(%arg0: tensor<1x4x3x2xf32>, %arg1: tensor<1x2x5x2xf32>, %arg2: tensor<1x2x5x6xf32>, %arg3: tensor<1x4x3x6xf32>) -> (tensor<f32>, tensor<1x4x3x2xf32>, tensor<1x2x5x2xf32>, tensor<1x2x5x6xf32>) {
  %c0_i64 = arith.constant 0 : i64
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 0xFF800000 : f32
  %cst_1 = arith.constant 0.000000e+00 : bf16
  %cst_2 = arith.constant dense<1.000000e+00> : tensor<1x4x3x6xf32>
  %cst_3 = arith.constant 5.000000e-01 : f32
  %0 = tensor.empty() : tensor<1x4x3x2xbf16>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<1x4x3x2xf32>) outs(%0 : tensor<1x4x3x2xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %86 = arith.truncf %in : f32 to bf16
    linalg.yield %86 : bf16
  } -> tensor<1x4x3x2xbf16>
  %2 = tensor.empty() : tensor<1x2x2x5x2xf32>
  %3 = linalg.generic {indexing_maps = [#map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%arg1 : tensor<1x2x5x2xf32>) outs(%2 : tensor<1x2x2x5x2xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<1x2x2x5x2xf32>
  %collapsed = tensor.collapse_shape %3 [[0], [1, 2], [3], [4]] : tensor<1x2x2x5x2xf32> into tensor<1x4x5x2xf32>
  %4 = tensor.empty() : tensor<1x4x5x2xbf16>
  %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%collapsed : tensor<1x4x5x2xf32>) outs(%4 : tensor<1x4x5x2xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %86 = arith.truncf %in : f32 to bf16
    linalg.yield %86 : bf16
  } -> tensor<1x4x5x2xbf16>
  %6 = tensor.empty() : tensor<1x2x5x6xbf16>
  %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg2 : tensor<1x2x5x6xf32>) outs(%6 : tensor<1x2x5x6xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %86 = arith.truncf %in : f32 to bf16
    linalg.yield %86 : bf16
  } -> tensor<1x2x5x6xbf16>
  %8 = tensor.empty() : tensor<1x2x2x5x6xbf16>
  %9 = linalg.generic {indexing_maps = [#map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%7 : tensor<1x2x5x6xbf16>) outs(%8 : tensor<1x2x2x5x6xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<1x2x2x5x6xbf16>
  %10 = tensor.empty() : tensor<1x4x2x5xbf16>
  %transposed = linalg.transpose ins(%5 : tensor<1x4x5x2xbf16>) outs(%10 : tensor<1x4x2x5xbf16>) permutation = [0, 1, 3, 2] 
  %collapsed_4 = tensor.collapse_shape %1 [[0, 1], [2], [3]] : tensor<1x4x3x2xbf16> into tensor<4x3x2xbf16>
  %collapsed_5 = tensor.collapse_shape %transposed [[0, 1], [2], [3]] : tensor<1x4x2x5xbf16> into tensor<4x2x5xbf16>
  %11 = tensor.empty() : tensor<4x3x5xf32>
  %12 = linalg.fill ins(%cst : f32) outs(%11 : tensor<4x3x5xf32>) -> tensor<4x3x5xf32>
  %13 = linalg.batch_matmul ins(%collapsed_4, %collapsed_5 : tensor<4x3x2xbf16>, tensor<4x2x5xbf16>) outs(%12 : tensor<4x3x5xf32>) -> tensor<4x3x5xf32>
  %14 = tensor.empty() : tensor<4x3x5xbf16>
  %15 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%13 : tensor<4x3x5xf32>) outs(%14 : tensor<4x3x5xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %86 = arith.truncf %in : f32 to bf16
    linalg.yield %86 : bf16
  } -> tensor<4x3x5xbf16>
  %expanded = tensor.expand_shape %15 [[0, 1], [2], [3]] output_shape [1, 4, 3, 5] : tensor<4x3x5xbf16> into tensor<1x4x3x5xbf16>
  %16 = tensor.empty() : tensor<1x4x3x5xf32>
  %17 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<1x4x3x5xbf16>) outs(%16 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %86 = arith.extf %in : bf16 to f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x5xf32>
  %18 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%17 : tensor<1x4x3x5xf32>) outs(%16 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %out: f32):
    %86 = arith.mulf %in, %cst_3 : f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x5xf32>
  %19 = tensor.empty() : tensor<1x4x3xi64>
  %20 = linalg.fill ins(%c0_i64 : i64) outs(%19 : tensor<1x4x3xi64>) -> tensor<1x4x3xi64>
  %21 = tensor.empty() : tensor<1x4x3xf32>
  %22 = linalg.fill ins(%cst_0 : f32) outs(%21 : tensor<1x4x3xf32>) -> tensor<1x4x3xf32>
  %23:2 = linalg.generic {indexing_maps = [#map, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%18 : tensor<1x4x3x5xf32>) outs(%22, %20 : tensor<1x4x3xf32>, tensor<1x4x3xi64>) {
  ^bb0(%in: f32, %out: f32, %out_24: i64):
    %86 = linalg.index 3 : index
    %87 = arith.index_cast %86 : index to i64
    %88 = arith.maximumf %in, %out : f32
    %89 = arith.cmpf ogt, %in, %out : f32
    %90 = arith.select %89, %87, %out_24 : i64
    linalg.yield %88, %90 : f32, i64
  } -> (tensor<1x4x3xf32>, tensor<1x4x3xi64>)
  %expanded_6 = tensor.expand_shape %23#0 [[0], [1], [2, 3]] output_shape [1, 4, 3, 1] : tensor<1x4x3xf32> into tensor<1x4x3x1xf32>
  %24 = linalg.generic {indexing_maps = [#map, #map5, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%18, %expanded_6 : tensor<1x4x3x5xf32>, tensor<1x4x3x1xf32>) outs(%16 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %in_24: f32, %out: f32):
    %86 = arith.subf %in, %in_24 : f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x5xf32>
  %25 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%24 : tensor<1x4x3x5xf32>) outs(%16 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %out: f32):
    %86 = math.exp %in : f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x5xf32>
  %26 = tensor.empty() : tensor<1x4x3x1xf32>
  %27 = linalg.fill ins(%cst : f32) outs(%26 : tensor<1x4x3x1xf32>) -> tensor<1x4x3x1xf32>
  %28 = linalg.generic {indexing_maps = [#map, #map5], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%25 : tensor<1x4x3x5xf32>) outs(%27 : tensor<1x4x3x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %86 = arith.addf %in, %out : f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x1xf32>
  %29 = linalg.generic {indexing_maps = [#map, #map5, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%25, %28 : tensor<1x4x3x5xf32>, tensor<1x4x3x1xf32>) outs(%16 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %in_24: f32, %out: f32):
    %86 = arith.divf %in, %in_24 : f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x5xf32>
  %30 = tensor.empty() : tensor<1x4x3x5xbf16>
  %31 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%29 : tensor<1x4x3x5xf32>) outs(%30 : tensor<1x4x3x5xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %86 = arith.truncf %in : f32 to bf16
    linalg.yield %86 : bf16
  } -> tensor<1x4x3x5xbf16>
  %collapsed_7 = tensor.collapse_shape %31 [[0, 1], [2], [3]] : tensor<1x4x3x5xbf16> into tensor<4x3x5xbf16>
  %collapsed_8 = tensor.collapse_shape %9 [[0, 1, 2], [3], [4]] : tensor<1x2x2x5x6xbf16> into tensor<4x5x6xbf16>
  %32 = tensor.empty() : tensor<4x3x6xf32>
  %33 = linalg.fill ins(%cst : f32) outs(%32 : tensor<4x3x6xf32>) -> tensor<4x3x6xf32>
  %34 = linalg.batch_matmul ins(%collapsed_7, %collapsed_8 : tensor<4x3x5xbf16>, tensor<4x5x6xbf16>) outs(%33 : tensor<4x3x6xf32>) -> tensor<4x3x6xf32>
  %35 = tensor.empty() : tensor<4x3x6xbf16>
  %36 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%34 : tensor<4x3x6xf32>) outs(%35 : tensor<4x3x6xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %86 = arith.truncf %in : f32 to bf16
    linalg.yield %86 : bf16
  } -> tensor<4x3x6xbf16>
  %expanded_9 = tensor.expand_shape %36 [[0, 1], [2], [3]] output_shape [1, 4, 3, 6] : tensor<4x3x6xbf16> into tensor<1x4x3x6xbf16>
  %37 = tensor.empty() : tensor<1x4x3x6xf32>
  %38 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_9 : tensor<1x4x3x6xbf16>) outs(%37 : tensor<1x4x3x6xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %86 = arith.extf %in : bf16 to f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x6xf32>
  %39 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%38, %arg3 : tensor<1x4x3x6xf32>, tensor<1x4x3x6xf32>) outs(%37 : tensor<1x4x3x6xf32>) {
  ^bb0(%in: f32, %in_24: f32, %out: f32):
    %86 = arith.mulf %in, %in_24 : f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x6xf32>
  %40 = tensor.empty() : tensor<f32>
  %41 = linalg.fill ins(%cst : f32) outs(%40 : tensor<f32>) -> tensor<f32>
  %42 = linalg.generic {indexing_maps = [#map, #map6], iterator_types = ["reduction", "reduction", "reduction", "reduction"]} ins(%39 : tensor<1x4x3x6xf32>) outs(%41 : tensor<f32>) {
  ^bb0(%in: f32, %out: f32):
    %86 = arith.addf %in, %out : f32
    linalg.yield %86 : f32
  } -> tensor<f32>
  %43 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%cst_2, %arg3 : tensor<1x4x3x6xf32>, tensor<1x4x3x6xf32>) outs(%37 : tensor<1x4x3x6xf32>) {
  ^bb0(%in: f32, %in_24: f32, %out: f32):
    %86 = arith.mulf %in, %in_24 : f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x6xf32>
  %44 = tensor.empty() : tensor<1x4x3x6xbf16>
  %45 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%43 : tensor<1x4x3x6xf32>) outs(%44 : tensor<1x4x3x6xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %86 = arith.truncf %in : f32 to bf16
    linalg.yield %86 : bf16
  } -> tensor<1x4x3x6xbf16>
  %collapsed_10 = tensor.collapse_shape %45 [[0, 1], [2], [3]] : tensor<1x4x3x6xbf16> into tensor<4x3x6xbf16>
  %46 = tensor.empty() : tensor<4x5x3xbf16>
  %transposed_11 = linalg.transpose ins(%collapsed_7 : tensor<4x3x5xbf16>) outs(%46 : tensor<4x5x3xbf16>) permutation = [0, 2, 1] 
  %47 = tensor.empty() : tensor<4x5x6xf32>
  %48 = linalg.fill ins(%cst : f32) outs(%47 : tensor<4x5x6xf32>) -> tensor<4x5x6xf32>
  %49 = linalg.batch_matmul ins(%transposed_11, %collapsed_10 : tensor<4x5x3xbf16>, tensor<4x3x6xbf16>) outs(%48 : tensor<4x5x6xf32>) -> tensor<4x5x6xf32>
  %50 = tensor.empty() : tensor<4x5x6xbf16>
  %51 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%49 : tensor<4x5x6xf32>) outs(%50 : tensor<4x5x6xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %86 = arith.truncf %in : f32 to bf16
    linalg.yield %86 : bf16
  } -> tensor<4x5x6xbf16>
  %52 = tensor.empty() : tensor<4x6x5xbf16>
  %transposed_12 = linalg.transpose ins(%collapsed_8 : tensor<4x5x6xbf16>) outs(%52 : tensor<4x6x5xbf16>) permutation = [0, 2, 1] 
  %53 = linalg.batch_matmul ins(%collapsed_10, %transposed_12 : tensor<4x3x6xbf16>, tensor<4x6x5xbf16>) outs(%12 : tensor<4x3x5xf32>) -> tensor<4x3x5xf32>
  %54 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%53 : tensor<4x3x5xf32>) outs(%14 : tensor<4x3x5xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %86 = arith.truncf %in : f32 to bf16
    linalg.yield %86 : bf16
  } -> tensor<4x3x5xbf16>
  %expanded_13 = tensor.expand_shape %54 [[0, 1], [2], [3]] output_shape [1, 4, 3, 5] : tensor<4x3x5xbf16> into tensor<1x4x3x5xbf16>
  %55 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_13 : tensor<1x4x3x5xbf16>) outs(%16 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %86 = arith.extf %in : bf16 to f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x5xf32>
  %56 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%55, %29 : tensor<1x4x3x5xf32>, tensor<1x4x3x5xf32>) outs(%16 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %in_24: f32, %out: f32):
    %86 = arith.mulf %in, %in_24 : f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x5xf32>
  %57 = linalg.generic {indexing_maps = [#map, #map5], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%56 : tensor<1x4x3x5xf32>) outs(%27 : tensor<1x4x3x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %86 = arith.addf %in, %out : f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x1xf32>
  %58 = linalg.generic {indexing_maps = [#map, #map5, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%29, %57 : tensor<1x4x3x5xf32>, tensor<1x4x3x1xf32>) outs(%16 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %in_24: f32, %out: f32):
    %86 = arith.mulf %in, %in_24 : f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x5xf32>
  %59 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%56, %58 : tensor<1x4x3x5xf32>, tensor<1x4x3x5xf32>) outs(%16 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %in_24: f32, %out: f32):
    %86 = arith.subf %in, %in_24 : f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x5xf32>
  %60 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%59 : tensor<1x4x3x5xf32>) outs(%16 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %out: f32):
    %86 = arith.mulf %in, %cst_3 : f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x5xf32>
  %61 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%60 : tensor<1x4x3x5xf32>) outs(%30 : tensor<1x4x3x5xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %86 = arith.truncf %in : f32 to bf16
    linalg.yield %86 : bf16
  } -> tensor<1x4x3x5xbf16>
  %collapsed_14 = tensor.collapse_shape %61 [[0, 1], [2], [3]] : tensor<1x4x3x5xbf16> into tensor<4x3x5xbf16>
  %62 = tensor.empty() : tensor<4x2x3xbf16>
  %transposed_15 = linalg.transpose ins(%collapsed_4 : tensor<4x3x2xbf16>) outs(%62 : tensor<4x2x3xbf16>) permutation = [0, 2, 1] 
  %63 = tensor.empty() : tensor<4x2x5xf32>
  %64 = linalg.fill ins(%cst : f32) outs(%63 : tensor<4x2x5xf32>) -> tensor<4x2x5xf32>
  %65 = linalg.batch_matmul ins(%transposed_15, %collapsed_14 : tensor<4x2x3xbf16>, tensor<4x3x5xbf16>) outs(%64 : tensor<4x2x5xf32>) -> tensor<4x2x5xf32>
  %66 = tensor.empty() : tensor<4x2x5xbf16>
  %67 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%65 : tensor<4x2x5xf32>) outs(%66 : tensor<4x2x5xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %86 = arith.truncf %in : f32 to bf16
    linalg.yield %86 : bf16
  } -> tensor<4x2x5xbf16>
  %68 = tensor.empty() : tensor<4x5x2xbf16>
  %transposed_16 = linalg.transpose ins(%collapsed_5 : tensor<4x2x5xbf16>) outs(%68 : tensor<4x5x2xbf16>) permutation = [0, 2, 1] 
  %69 = tensor.empty() : tensor<4x3x2xf32>
  %70 = linalg.fill ins(%cst : f32) outs(%69 : tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
  %71 = linalg.batch_matmul ins(%collapsed_14, %transposed_16 : tensor<4x3x5xbf16>, tensor<4x5x2xbf16>) outs(%70 : tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
  %72 = tensor.empty() : tensor<4x3x2xbf16>
  %73 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%71 : tensor<4x3x2xf32>) outs(%72 : tensor<4x3x2xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %86 = arith.truncf %in : f32 to bf16
    linalg.yield %86 : bf16
  } -> tensor<4x3x2xbf16>
  %expanded_17 = tensor.expand_shape %67 [[0, 1], [2], [3]] output_shape [1, 4, 2, 5] : tensor<4x2x5xbf16> into tensor<1x4x2x5xbf16>
  %expanded_18 = tensor.expand_shape %73 [[0, 1], [2], [3]] output_shape [1, 4, 3, 2] : tensor<4x3x2xbf16> into tensor<1x4x3x2xbf16>
  %transposed_19 = linalg.transpose ins(%expanded_17 : tensor<1x4x2x5xbf16>) outs(%4 : tensor<1x4x5x2xbf16>) permutation = [0, 1, 3, 2] 
  %expanded_20 = tensor.expand_shape %51 [[0, 1, 2], [3], [4]] output_shape [1, 2, 2, 5, 6] : tensor<4x5x6xbf16> into tensor<1x2x2x5x6xbf16>
  %74 = tensor.empty() : tensor<1x2x1x5x6xbf16>
  %75 = linalg.fill ins(%cst_1 : bf16) outs(%74 : tensor<1x2x1x5x6xbf16>) -> tensor<1x2x1x5x6xbf16>
  %76 = linalg.generic {indexing_maps = [#map2, #map7], iterator_types = ["parallel", "parallel", "reduction", "parallel", "parallel"]} ins(%expanded_20 : tensor<1x2x2x5x6xbf16>) outs(%75 : tensor<1x2x1x5x6xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %86 = arith.addf %in, %out : bf16
    linalg.yield %86 : bf16
  } -> tensor<1x2x1x5x6xbf16>
  %collapsed_21 = tensor.collapse_shape %76 [[0], [1], [2, 3], [4]] : tensor<1x2x1x5x6xbf16> into tensor<1x2x5x6xbf16>
  %77 = tensor.empty() : tensor<1x2x5x6xf32>
  %78 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%collapsed_21 : tensor<1x2x5x6xbf16>) outs(%77 : tensor<1x2x5x6xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %86 = arith.extf %in : bf16 to f32
    linalg.yield %86 : f32
  } -> tensor<1x2x5x6xf32>
  %79 = tensor.empty() : tensor<1x4x5x2xf32>
  %80 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%transposed_19 : tensor<1x4x5x2xbf16>) outs(%79 : tensor<1x4x5x2xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %86 = arith.extf %in : bf16 to f32
    linalg.yield %86 : f32
  } -> tensor<1x4x5x2xf32>
  %expanded_22 = tensor.expand_shape %80 [[0], [1, 2], [3], [4]] output_shape [1, 2, 2, 5, 2] : tensor<1x4x5x2xf32> into tensor<1x2x2x5x2xf32>
  %81 = tensor.empty() : tensor<1x2x1x5x2xf32>
  %82 = linalg.fill ins(%cst : f32) outs(%81 : tensor<1x2x1x5x2xf32>) -> tensor<1x2x1x5x2xf32>
  %83 = linalg.generic {indexing_maps = [#map2, #map7], iterator_types = ["parallel", "parallel", "reduction", "parallel", "parallel"]} ins(%expanded_22 : tensor<1x2x2x5x2xf32>) outs(%82 : tensor<1x2x1x5x2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %86 = arith.addf %in, %out : f32
    linalg.yield %86 : f32
  } -> tensor<1x2x1x5x2xf32>
  %collapsed_23 = tensor.collapse_shape %83 [[0], [1], [2, 3], [4]] : tensor<1x2x1x5x2xf32> into tensor<1x2x5x2xf32>
  %84 = tensor.empty() : tensor<1x4x3x2xf32>
  %85 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_18 : tensor<1x4x3x2xbf16>) outs(%84 : tensor<1x4x3x2xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %86 = arith.extf %in : bf16 to f32
    linalg.yield %86 : f32
  } -> tensor<1x4x3x2xf32>
  fsdp.return %42, %85, %collapsed_23, %78 : tensor<f32>, tensor<1x4x3x2xf32>, tensor<1x2x5x2xf32>, tensor<1x2x5x6xf32>
}


// -----

// Each head has keys of its own, and shares its values: their gradient is added
// after the attention.

// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.attention <batch = [2, 2], queries = 3, keys = 5, head = 2, value = 6>
// CHECK-SAME:      k(%{{.*}} <0, [20, 10, 2, 1]> : tensor<1x4x5x2xf32>) v(%{{.*}} <0, [30, 0, 6, 1]> : tensor<1x2x5x6xf32>)
// CHECK:         %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = fsdp.attention_backward
// CHECK:         dk(<0, [20, 10, 2, 1]> : tensor<{{[^>]*}}>
// CHECK-SAME:    dv(<0, [60, 30, 6, 1]> : tensor<{{[^>]*}}>
// CHECK-NOT:     linalg.{{batch_}}matmul
// CHECK:         linalg.generic {{.*}}"reduction"{{.*}} outs({{.*}} : tensor<1x2x1x5x6xf32>)
// CHECK:         return
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)>
#map2 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, 0)>
#map5 = affine_map<(d0, d1, d2, d3) -> ()>
#map6 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, 0, d3, d4)>
fsdp.program @step(%arg0: tensor<1x4x3x2xf32>, %arg1: tensor<1x2x5x2xf32>, %arg2: tensor<1x2x5x6xf32>, %arg3: tensor<1x4x3x6xf32>) -> (tensor<f32>, tensor<1x4x3x2xf32>, tensor<1x2x5x2xf32>, tensor<1x2x5x6xf32>) {
  %c0_i64 = arith.constant 0 : i64
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 0xFF800000 : f32
  %cst_1 = arith.constant dense<1.000000e+00> : tensor<1x4x3x6xf32>
  %cst_2 = arith.constant 2.000000e+00 : f32
  %cst_3 = arith.constant 5.000000e-01 : f32
  %0 = tensor.empty() : tensor<1x2x5x2xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg1 : tensor<1x2x5x2xf32>) outs(%0 : tensor<1x2x5x2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %55 = arith.mulf %in, %cst_2 : f32
    linalg.yield %55 : f32
  } -> tensor<1x2x5x2xf32>
  %concat = tensor.concat dim(1) %arg1, %1 : (tensor<1x2x5x2xf32>, tensor<1x2x5x2xf32>) -> tensor<1x4x5x2xf32>
  %2 = tensor.empty() : tensor<1x2x2x5x6xf32>
  %3 = linalg.generic {indexing_maps = [#map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%arg2 : tensor<1x2x5x6xf32>) outs(%2 : tensor<1x2x2x5x6xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<1x2x2x5x6xf32>
  %4 = tensor.empty() : tensor<1x4x2x5xf32>
  %transposed = linalg.transpose ins(%concat : tensor<1x4x5x2xf32>) outs(%4 : tensor<1x4x2x5xf32>) permutation = [0, 1, 3, 2] 
  %collapsed = tensor.collapse_shape %arg0 [[0, 1], [2], [3]] : tensor<1x4x3x2xf32> into tensor<4x3x2xf32>
  %collapsed_4 = tensor.collapse_shape %transposed [[0, 1], [2], [3]] : tensor<1x4x2x5xf32> into tensor<4x2x5xf32>
  %5 = tensor.empty() : tensor<4x3x5xf32>
  %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<4x3x5xf32>) -> tensor<4x3x5xf32>
  %7 = linalg.batch_matmul ins(%collapsed, %collapsed_4 : tensor<4x3x2xf32>, tensor<4x2x5xf32>) outs(%6 : tensor<4x3x5xf32>) -> tensor<4x3x5xf32>
  %expanded = tensor.expand_shape %7 [[0, 1], [2], [3]] output_shape [1, 4, 3, 5] : tensor<4x3x5xf32> into tensor<1x4x3x5xf32>
  %8 = tensor.empty() : tensor<1x4x3x5xf32>
  %9 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<1x4x3x5xf32>) outs(%8 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %out: f32):
    %55 = arith.mulf %in, %cst_3 : f32
    linalg.yield %55 : f32
  } -> tensor<1x4x3x5xf32>
  %10 = tensor.empty() : tensor<1x4x3xi64>
  %11 = linalg.fill ins(%c0_i64 : i64) outs(%10 : tensor<1x4x3xi64>) -> tensor<1x4x3xi64>
  %12 = tensor.empty() : tensor<1x4x3xf32>
  %13 = linalg.fill ins(%cst_0 : f32) outs(%12 : tensor<1x4x3xf32>) -> tensor<1x4x3xf32>
  %14:2 = linalg.generic {indexing_maps = [#map, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%9 : tensor<1x4x3x5xf32>) outs(%13, %11 : tensor<1x4x3xf32>, tensor<1x4x3xi64>) {
  ^bb0(%in: f32, %out: f32, %out_22: i64):
    %55 = linalg.index 3 : index
    %56 = arith.index_cast %55 : index to i64
    %57 = arith.maximumf %in, %out : f32
    %58 = arith.cmpf ogt, %in, %out : f32
    %59 = arith.select %58, %56, %out_22 : i64
    linalg.yield %57, %59 : f32, i64
  } -> (tensor<1x4x3xf32>, tensor<1x4x3xi64>)
  %expanded_5 = tensor.expand_shape %14#0 [[0], [1], [2, 3]] output_shape [1, 4, 3, 1] : tensor<1x4x3xf32> into tensor<1x4x3x1xf32>
  %15 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%9, %expanded_5 : tensor<1x4x3x5xf32>, tensor<1x4x3x1xf32>) outs(%8 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %in_22: f32, %out: f32):
    %55 = arith.subf %in, %in_22 : f32
    linalg.yield %55 : f32
  } -> tensor<1x4x3x5xf32>
  %16 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%15 : tensor<1x4x3x5xf32>) outs(%8 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %out: f32):
    %55 = math.exp %in : f32
    linalg.yield %55 : f32
  } -> tensor<1x4x3x5xf32>
  %17 = tensor.empty() : tensor<1x4x3x1xf32>
  %18 = linalg.fill ins(%cst : f32) outs(%17 : tensor<1x4x3x1xf32>) -> tensor<1x4x3x1xf32>
  %19 = linalg.generic {indexing_maps = [#map, #map4], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%16 : tensor<1x4x3x5xf32>) outs(%18 : tensor<1x4x3x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %55 = arith.addf %in, %out : f32
    linalg.yield %55 : f32
  } -> tensor<1x4x3x1xf32>
  %20 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%16, %19 : tensor<1x4x3x5xf32>, tensor<1x4x3x1xf32>) outs(%8 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %in_22: f32, %out: f32):
    %55 = arith.divf %in, %in_22 : f32
    linalg.yield %55 : f32
  } -> tensor<1x4x3x5xf32>
  %collapsed_6 = tensor.collapse_shape %20 [[0, 1], [2], [3]] : tensor<1x4x3x5xf32> into tensor<4x3x5xf32>
  %collapsed_7 = tensor.collapse_shape %3 [[0, 1, 2], [3], [4]] : tensor<1x2x2x5x6xf32> into tensor<4x5x6xf32>
  %21 = tensor.empty() : tensor<4x3x6xf32>
  %22 = linalg.fill ins(%cst : f32) outs(%21 : tensor<4x3x6xf32>) -> tensor<4x3x6xf32>
  %23 = linalg.batch_matmul ins(%collapsed_6, %collapsed_7 : tensor<4x3x5xf32>, tensor<4x5x6xf32>) outs(%22 : tensor<4x3x6xf32>) -> tensor<4x3x6xf32>
  %expanded_8 = tensor.expand_shape %23 [[0, 1], [2], [3]] output_shape [1, 4, 3, 6] : tensor<4x3x6xf32> into tensor<1x4x3x6xf32>
  %24 = tensor.empty() : tensor<1x4x3x6xf32>
  %25 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_8, %arg3 : tensor<1x4x3x6xf32>, tensor<1x4x3x6xf32>) outs(%24 : tensor<1x4x3x6xf32>) {
  ^bb0(%in: f32, %in_22: f32, %out: f32):
    %55 = arith.mulf %in, %in_22 : f32
    linalg.yield %55 : f32
  } -> tensor<1x4x3x6xf32>
  %26 = tensor.empty() : tensor<f32>
  %27 = linalg.fill ins(%cst : f32) outs(%26 : tensor<f32>) -> tensor<f32>
  %28 = linalg.generic {indexing_maps = [#map, #map5], iterator_types = ["reduction", "reduction", "reduction", "reduction"]} ins(%25 : tensor<1x4x3x6xf32>) outs(%27 : tensor<f32>) {
  ^bb0(%in: f32, %out: f32):
    %55 = arith.addf %in, %out : f32
    linalg.yield %55 : f32
  } -> tensor<f32>
  %29 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%cst_1, %arg3 : tensor<1x4x3x6xf32>, tensor<1x4x3x6xf32>) outs(%24 : tensor<1x4x3x6xf32>) {
  ^bb0(%in: f32, %in_22: f32, %out: f32):
    %55 = arith.mulf %in, %in_22 : f32
    linalg.yield %55 : f32
  } -> tensor<1x4x3x6xf32>
  %collapsed_9 = tensor.collapse_shape %29 [[0, 1], [2], [3]] : tensor<1x4x3x6xf32> into tensor<4x3x6xf32>
  %30 = tensor.empty() : tensor<4x5x3xf32>
  %transposed_10 = linalg.transpose ins(%collapsed_6 : tensor<4x3x5xf32>) outs(%30 : tensor<4x5x3xf32>) permutation = [0, 2, 1] 
  %31 = tensor.empty() : tensor<4x5x6xf32>
  %32 = linalg.fill ins(%cst : f32) outs(%31 : tensor<4x5x6xf32>) -> tensor<4x5x6xf32>
  %33 = linalg.batch_matmul ins(%transposed_10, %collapsed_9 : tensor<4x5x3xf32>, tensor<4x3x6xf32>) outs(%32 : tensor<4x5x6xf32>) -> tensor<4x5x6xf32>
  %34 = tensor.empty() : tensor<4x6x5xf32>
  %transposed_11 = linalg.transpose ins(%collapsed_7 : tensor<4x5x6xf32>) outs(%34 : tensor<4x6x5xf32>) permutation = [0, 2, 1] 
  %35 = linalg.batch_matmul ins(%collapsed_9, %transposed_11 : tensor<4x3x6xf32>, tensor<4x6x5xf32>) outs(%6 : tensor<4x3x5xf32>) -> tensor<4x3x5xf32>
  %expanded_12 = tensor.expand_shape %35 [[0, 1], [2], [3]] output_shape [1, 4, 3, 5] : tensor<4x3x5xf32> into tensor<1x4x3x5xf32>
  %36 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_12, %20 : tensor<1x4x3x5xf32>, tensor<1x4x3x5xf32>) outs(%8 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %in_22: f32, %out: f32):
    %55 = arith.mulf %in, %in_22 : f32
    linalg.yield %55 : f32
  } -> tensor<1x4x3x5xf32>
  %37 = linalg.generic {indexing_maps = [#map, #map4], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%36 : tensor<1x4x3x5xf32>) outs(%18 : tensor<1x4x3x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %55 = arith.addf %in, %out : f32
    linalg.yield %55 : f32
  } -> tensor<1x4x3x1xf32>
  %38 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%20, %37 : tensor<1x4x3x5xf32>, tensor<1x4x3x1xf32>) outs(%8 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %in_22: f32, %out: f32):
    %55 = arith.mulf %in, %in_22 : f32
    linalg.yield %55 : f32
  } -> tensor<1x4x3x5xf32>
  %39 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%36, %38 : tensor<1x4x3x5xf32>, tensor<1x4x3x5xf32>) outs(%8 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %in_22: f32, %out: f32):
    %55 = arith.subf %in, %in_22 : f32
    linalg.yield %55 : f32
  } -> tensor<1x4x3x5xf32>
  %40 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%39 : tensor<1x4x3x5xf32>) outs(%8 : tensor<1x4x3x5xf32>) {
  ^bb0(%in: f32, %out: f32):
    %55 = arith.mulf %in, %cst_3 : f32
    linalg.yield %55 : f32
  } -> tensor<1x4x3x5xf32>
  %collapsed_13 = tensor.collapse_shape %40 [[0, 1], [2], [3]] : tensor<1x4x3x5xf32> into tensor<4x3x5xf32>
  %41 = tensor.empty() : tensor<4x2x3xf32>
  %transposed_14 = linalg.transpose ins(%collapsed : tensor<4x3x2xf32>) outs(%41 : tensor<4x2x3xf32>) permutation = [0, 2, 1] 
  %42 = tensor.empty() : tensor<4x2x5xf32>
  %43 = linalg.fill ins(%cst : f32) outs(%42 : tensor<4x2x5xf32>) -> tensor<4x2x5xf32>
  %44 = linalg.batch_matmul ins(%transposed_14, %collapsed_13 : tensor<4x2x3xf32>, tensor<4x3x5xf32>) outs(%43 : tensor<4x2x5xf32>) -> tensor<4x2x5xf32>
  %45 = tensor.empty() : tensor<4x5x2xf32>
  %transposed_15 = linalg.transpose ins(%collapsed_4 : tensor<4x2x5xf32>) outs(%45 : tensor<4x5x2xf32>) permutation = [0, 2, 1] 
  %46 = tensor.empty() : tensor<4x3x2xf32>
  %47 = linalg.fill ins(%cst : f32) outs(%46 : tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
  %48 = linalg.batch_matmul ins(%collapsed_13, %transposed_15 : tensor<4x3x5xf32>, tensor<4x5x2xf32>) outs(%47 : tensor<4x3x2xf32>) -> tensor<4x3x2xf32>
  %expanded_16 = tensor.expand_shape %44 [[0, 1], [2], [3]] output_shape [1, 4, 2, 5] : tensor<4x2x5xf32> into tensor<1x4x2x5xf32>
  %expanded_17 = tensor.expand_shape %48 [[0, 1], [2], [3]] output_shape [1, 4, 3, 2] : tensor<4x3x2xf32> into tensor<1x4x3x2xf32>
  %49 = tensor.empty() : tensor<1x4x5x2xf32>
  %transposed_18 = linalg.transpose ins(%expanded_16 : tensor<1x4x2x5xf32>) outs(%49 : tensor<1x4x5x2xf32>) permutation = [0, 1, 3, 2] 
  %expanded_19 = tensor.expand_shape %33 [[0, 1, 2], [3], [4]] output_shape [1, 2, 2, 5, 6] : tensor<4x5x6xf32> into tensor<1x2x2x5x6xf32>
  %50 = tensor.empty() : tensor<1x2x1x5x6xf32>
  %51 = linalg.fill ins(%cst : f32) outs(%50 : tensor<1x2x1x5x6xf32>) -> tensor<1x2x1x5x6xf32>
  %52 = linalg.generic {indexing_maps = [#map2, #map6], iterator_types = ["parallel", "parallel", "reduction", "parallel", "parallel"]} ins(%expanded_19 : tensor<1x2x2x5x6xf32>) outs(%51 : tensor<1x2x1x5x6xf32>) {
  ^bb0(%in: f32, %out: f32):
    %55 = arith.addf %in, %out : f32
    linalg.yield %55 : f32
  } -> tensor<1x2x1x5x6xf32>
  %collapsed_20 = tensor.collapse_shape %52 [[0], [1], [2, 3], [4]] : tensor<1x2x1x5x6xf32> into tensor<1x2x5x6xf32>
  %extracted_slice = tensor.extract_slice %transposed_18[0, 0, 0, 0] [1, 2, 5, 2] [1, 1, 1, 1] : tensor<1x4x5x2xf32> to tensor<1x2x5x2xf32>
  %extracted_slice_21 = tensor.extract_slice %transposed_18[0, 2, 0, 0] [1, 2, 5, 2] [1, 1, 1, 1] : tensor<1x4x5x2xf32> to tensor<1x2x5x2xf32>
  %53 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_21 : tensor<1x2x5x2xf32>) outs(%0 : tensor<1x2x5x2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %55 = arith.mulf %in, %cst_2 : f32
    linalg.yield %55 : f32
  } -> tensor<1x2x5x2xf32>
  %54 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice, %53 : tensor<1x2x5x2xf32>, tensor<1x2x5x2xf32>) outs(%0 : tensor<1x2x5x2xf32>) {
  ^bb0(%in: f32, %in_22: f32, %out: f32):
    %55 = arith.addf %in, %in_22 : f32
    linalg.yield %55 : f32
  } -> tensor<1x2x5x2xf32>
  fsdp.return %28, %expanded_17, %54, %collapsed_20 : tensor<f32>, tensor<1x4x3x2xf32>, tensor<1x2x5x2xf32>, tensor<1x2x5x6xf32>
}
