// An attention whose probabilities the loss reads, too.
#loc1 = loc("attn")
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, 0)>
#map3 = affine_map<(d0, d1, d2, d3) -> ()>
#map4 = affine_map<() -> ()>
module attributes {fsdp.modules = [{class = "M", fqn = ""}, {class = "A", fqn = "attn"}], fsdp.verified = "verified: graph and MLIR, 2 batches"} {
  func.func @forward_backward(%arg0: tensor<1x1x2x2xf32> {fsdp.param = {fqn = "attn.q", init = {kind = "normal", mean = 0.000000e+00 : f64, std = 1.000000e+00 : f64}, requires_grad = true, tied = []}} loc("attn"), %arg1: tensor<1x1x3x2xf32> {fsdp.param = {fqn = "attn.k", init = {kind = "normal", mean = 0.000000e+00 : f64, std = 1.000000e+00 : f64}, requires_grad = true, tied = []}} loc("attn"), %arg2: tensor<1x1x3x2xf32> {fsdp.param = {fqn = "attn.v", init = {kind = "normal", mean = 0.000000e+00 : f64, std = 1.000000e+00 : f64}, requires_grad = true, tied = []}} loc("attn"), %arg3: tensor<1x1x2x2xf32> {fsdp.input = {name = "w"}} loc("attn")) -> (tensor<f32> {fsdp.loss}, tensor<1x1x2x2xf32> {fsdp.grad = {fqn = "attn.q"}}, tensor<1x1x3x2xf32> {fsdp.grad = {fqn = "attn.k"}}, tensor<1x1x3x2xf32> {fsdp.grad = {fqn = "attn.v"}}) {
    %cst = arith.constant 0.000000e+00 : f32 loc(#loc)
    %c0_i64 = arith.constant 0 : i64 loc(#loc1)
    %cst_0 = arith.constant 0xFF800000 : f32 loc(#loc1)
    %cst_1 = arith.constant dense<1.000000e+00> : tensor<1x1x2x2xf32> loc(#loc1)
    %cst_2 = arith.constant dense<1.000000e+00> : tensor<1x1x2x3xf32> loc(#loc1)
    %0 = tensor.empty() : tensor<1x1x2x3xf32> loc(#loc1)
    %transposed = linalg.transpose ins(%arg1 : tensor<1x1x3x2xf32>) outs(%0 : tensor<1x1x2x3xf32>) permutation = [0, 1, 3, 2]  loc(#loc1)
    %collapsed = tensor.collapse_shape %arg0 [[0], [1, 2], [3]] : tensor<1x1x2x2xf32> into tensor<1x2x2xf32> loc(#loc1)
    %collapsed_3 = tensor.collapse_shape %transposed [[0], [1, 2], [3]] : tensor<1x1x2x3xf32> into tensor<1x2x3xf32> loc(#loc1)
    %1 = tensor.empty() : tensor<1x2x3xf32> loc(#loc1)
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<1x2x3xf32>) -> tensor<1x2x3xf32> loc(#loc1)
    %3 = linalg.batch_matmul ins(%collapsed, %collapsed_3 : tensor<1x2x2xf32>, tensor<1x2x3xf32>) outs(%2 : tensor<1x2x3xf32>) -> tensor<1x2x3xf32> loc(#loc1)
    %expanded = tensor.expand_shape %3 [[0], [1, 2], [3]] output_shape [1, 1, 2, 3] : tensor<1x2x3xf32> into tensor<1x1x2x3xf32> loc(#loc1)
    %4 = tensor.empty() : tensor<1x1x2xi64> loc(#loc1)
    %5 = linalg.fill ins(%c0_i64 : i64) outs(%4 : tensor<1x1x2xi64>) -> tensor<1x1x2xi64> loc(#loc1)
    %6 = tensor.empty() : tensor<1x1x2xf32> loc(#loc1)
    %7 = linalg.fill ins(%cst_0 : f32) outs(%6 : tensor<1x1x2xf32>) -> tensor<1x1x2xf32> loc(#loc1)
    %8:2 = linalg.generic {indexing_maps = [#map, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%expanded : tensor<1x1x2x3xf32>) outs(%7, %5 : tensor<1x1x2xf32>, tensor<1x1x2xi64>) {
    ^bb0(%in: f32 loc("attn"), %out: f32 loc("attn"), %out_19: i64 loc("attn")):
      %41 = linalg.index 3 : index loc(#loc1)
      %42 = arith.index_cast %41 : index to i64 loc(#loc1)
      %43 = arith.maximumf %in, %out : f32 loc(#loc1)
      %44 = arith.cmpf ogt, %in, %out : f32 loc(#loc1)
      %45 = arith.select %44, %42, %out_19 : i64 loc(#loc1)
      linalg.yield %43, %45 : f32, i64 loc(#loc1)
    } -> (tensor<1x1x2xf32>, tensor<1x1x2xi64>) loc(#loc1)
    %expanded_4 = tensor.expand_shape %8#0 [[0], [1], [2, 3]] output_shape [1, 1, 2, 1] : tensor<1x1x2xf32> into tensor<1x1x2x1xf32> loc(#loc1)
    %9 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded, %expanded_4 : tensor<1x1x2x3xf32>, tensor<1x1x2x1xf32>) outs(%0 : tensor<1x1x2x3xf32>) {
    ^bb0(%in: f32 loc("attn"), %in_19: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.subf %in, %in_19 : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<1x1x2x3xf32> loc(#loc1)
    %10 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%9 : tensor<1x1x2x3xf32>) outs(%0 : tensor<1x1x2x3xf32>) {
    ^bb0(%in: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = math.exp %in : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<1x1x2x3xf32> loc(#loc1)
    %11 = tensor.empty() : tensor<1x1x2x1xf32> loc(#loc1)
    %12 = linalg.fill ins(%cst : f32) outs(%11 : tensor<1x1x2x1xf32>) -> tensor<1x1x2x1xf32> loc(#loc1)
    %13 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%10 : tensor<1x1x2x3xf32>) outs(%12 : tensor<1x1x2x1xf32>) {
    ^bb0(%in: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.addf %in, %out : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<1x1x2x1xf32> loc(#loc1)
    %14 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%10, %13 : tensor<1x1x2x3xf32>, tensor<1x1x2x1xf32>) outs(%0 : tensor<1x1x2x3xf32>) {
    ^bb0(%in: f32 loc("attn"), %in_19: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.divf %in, %in_19 : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<1x1x2x3xf32> loc(#loc1)
    %collapsed_5 = tensor.collapse_shape %14 [[0], [1, 2], [3]] : tensor<1x1x2x3xf32> into tensor<1x2x3xf32> loc(#loc1)
    %collapsed_6 = tensor.collapse_shape %arg2 [[0], [1, 2], [3]] : tensor<1x1x3x2xf32> into tensor<1x3x2xf32> loc(#loc1)
    %15 = tensor.empty() : tensor<1x2x2xf32> loc(#loc1)
    %16 = linalg.fill ins(%cst : f32) outs(%15 : tensor<1x2x2xf32>) -> tensor<1x2x2xf32> loc(#loc1)
    %17 = linalg.batch_matmul ins(%collapsed_5, %collapsed_6 : tensor<1x2x3xf32>, tensor<1x3x2xf32>) outs(%16 : tensor<1x2x2xf32>) -> tensor<1x2x2xf32> loc(#loc1)
    %expanded_7 = tensor.expand_shape %17 [[0], [1, 2], [3]] output_shape [1, 1, 2, 2] : tensor<1x2x2xf32> into tensor<1x1x2x2xf32> loc(#loc1)
    %18 = tensor.empty() : tensor<1x1x2x2xf32> loc(#loc1)
    %19 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_7, %arg3 : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) outs(%18 : tensor<1x1x2x2xf32>) {
    ^bb0(%in: f32 loc("attn"), %in_19: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.mulf %in, %in_19 : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<1x1x2x2xf32> loc(#loc1)
    %20 = tensor.empty() : tensor<f32> loc(#loc1)
    %21 = linalg.fill ins(%cst : f32) outs(%20 : tensor<f32>) -> tensor<f32> loc(#loc1)
    %22 = linalg.generic {indexing_maps = [#map, #map3], iterator_types = ["reduction", "reduction", "reduction", "reduction"]} ins(%19 : tensor<1x1x2x2xf32>) outs(%21 : tensor<f32>) {
    ^bb0(%in: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.addf %in, %out : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<f32> loc(#loc1)
    %23 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%14, %14 : tensor<1x1x2x3xf32>, tensor<1x1x2x3xf32>) outs(%0 : tensor<1x1x2x3xf32>) {
    ^bb0(%in: f32 loc("attn"), %in_19: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.mulf %in, %in_19 : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<1x1x2x3xf32> loc(#loc1)
    %24 = linalg.generic {indexing_maps = [#map, #map3], iterator_types = ["reduction", "reduction", "reduction", "reduction"]} ins(%23 : tensor<1x1x2x3xf32>) outs(%21 : tensor<f32>) {
    ^bb0(%in: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.addf %in, %out : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<f32> loc(#loc1)
    %25 = linalg.generic {indexing_maps = [#map4, #map4, #map4], iterator_types = []} ins(%22, %24 : tensor<f32>, tensor<f32>) outs(%20 : tensor<f32>) {
    ^bb0(%in: f32 loc("attn"), %in_19: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.addf %in, %in_19 : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<f32> loc(#loc1)
    %26 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%cst_2, %14 : tensor<1x1x2x3xf32>, tensor<1x1x2x3xf32>) outs(%0 : tensor<1x1x2x3xf32>) {
    ^bb0(%in: f32 loc("attn"), %in_19: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.mulf %in, %in_19 : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<1x1x2x3xf32> loc(#loc1)
    %27 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%26, %26 : tensor<1x1x2x3xf32>, tensor<1x1x2x3xf32>) outs(%0 : tensor<1x1x2x3xf32>) {
    ^bb0(%in: f32 loc("attn"), %in_19: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.addf %in, %in_19 : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<1x1x2x3xf32> loc(#loc1)
    %28 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%cst_1, %arg3 : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) outs(%18 : tensor<1x1x2x2xf32>) {
    ^bb0(%in: f32 loc("attn"), %in_19: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.mulf %in, %in_19 : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<1x1x2x2xf32> loc(#loc1)
    %collapsed_8 = tensor.collapse_shape %28 [[0], [1, 2], [3]] : tensor<1x1x2x2xf32> into tensor<1x2x2xf32> loc(#loc1)
    %29 = tensor.empty() : tensor<1x3x2xf32> loc(#loc1)
    %transposed_9 = linalg.transpose ins(%collapsed_5 : tensor<1x2x3xf32>) outs(%29 : tensor<1x3x2xf32>) permutation = [0, 2, 1]  loc(#loc1)
    %30 = linalg.fill ins(%cst : f32) outs(%29 : tensor<1x3x2xf32>) -> tensor<1x3x2xf32> loc(#loc1)
    %31 = linalg.batch_matmul ins(%transposed_9, %collapsed_8 : tensor<1x3x2xf32>, tensor<1x2x2xf32>) outs(%30 : tensor<1x3x2xf32>) -> tensor<1x3x2xf32> loc(#loc1)
    %transposed_10 = linalg.transpose ins(%collapsed_6 : tensor<1x3x2xf32>) outs(%1 : tensor<1x2x3xf32>) permutation = [0, 2, 1]  loc(#loc1)
    %32 = linalg.batch_matmul ins(%collapsed_8, %transposed_10 : tensor<1x2x2xf32>, tensor<1x2x3xf32>) outs(%2 : tensor<1x2x3xf32>) -> tensor<1x2x3xf32> loc(#loc1)
    %expanded_11 = tensor.expand_shape %31 [[0], [1, 2], [3]] output_shape [1, 1, 3, 2] : tensor<1x3x2xf32> into tensor<1x1x3x2xf32> loc(#loc1)
    %expanded_12 = tensor.expand_shape %32 [[0], [1, 2], [3]] output_shape [1, 1, 2, 3] : tensor<1x2x3xf32> into tensor<1x1x2x3xf32> loc(#loc1)
    %33 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%27, %expanded_12 : tensor<1x1x2x3xf32>, tensor<1x1x2x3xf32>) outs(%0 : tensor<1x1x2x3xf32>) {
    ^bb0(%in: f32 loc("attn"), %in_19: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.addf %in, %in_19 : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<1x1x2x3xf32> loc(#loc1)
    %34 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%33, %14 : tensor<1x1x2x3xf32>, tensor<1x1x2x3xf32>) outs(%0 : tensor<1x1x2x3xf32>) {
    ^bb0(%in: f32 loc("attn"), %in_19: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.mulf %in, %in_19 : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<1x1x2x3xf32> loc(#loc1)
    %35 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%34 : tensor<1x1x2x3xf32>) outs(%12 : tensor<1x1x2x1xf32>) {
    ^bb0(%in: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.addf %in, %out : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<1x1x2x1xf32> loc(#loc1)
    %36 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%14, %35 : tensor<1x1x2x3xf32>, tensor<1x1x2x1xf32>) outs(%0 : tensor<1x1x2x3xf32>) {
    ^bb0(%in: f32 loc("attn"), %in_19: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.mulf %in, %in_19 : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<1x1x2x3xf32> loc(#loc1)
    %37 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%34, %36 : tensor<1x1x2x3xf32>, tensor<1x1x2x3xf32>) outs(%0 : tensor<1x1x2x3xf32>) {
    ^bb0(%in: f32 loc("attn"), %in_19: f32 loc("attn"), %out: f32 loc("attn")):
      %41 = arith.subf %in, %in_19 : f32 loc(#loc1)
      linalg.yield %41 : f32 loc(#loc1)
    } -> tensor<1x1x2x3xf32> loc(#loc1)
    %collapsed_13 = tensor.collapse_shape %37 [[0], [1, 2], [3]] : tensor<1x1x2x3xf32> into tensor<1x2x3xf32> loc(#loc1)
    %transposed_14 = linalg.transpose ins(%collapsed : tensor<1x2x2xf32>) outs(%15 : tensor<1x2x2xf32>) permutation = [0, 2, 1]  loc(#loc1)
    %38 = linalg.batch_matmul ins(%transposed_14, %collapsed_13 : tensor<1x2x2xf32>, tensor<1x2x3xf32>) outs(%2 : tensor<1x2x3xf32>) -> tensor<1x2x3xf32> loc(#loc1)
    %transposed_15 = linalg.transpose ins(%collapsed_3 : tensor<1x2x3xf32>) outs(%29 : tensor<1x3x2xf32>) permutation = [0, 2, 1]  loc(#loc1)
    %39 = linalg.batch_matmul ins(%collapsed_13, %transposed_15 : tensor<1x2x3xf32>, tensor<1x3x2xf32>) outs(%16 : tensor<1x2x2xf32>) -> tensor<1x2x2xf32> loc(#loc1)
    %expanded_16 = tensor.expand_shape %38 [[0], [1, 2], [3]] output_shape [1, 1, 2, 3] : tensor<1x2x3xf32> into tensor<1x1x2x3xf32> loc(#loc1)
    %expanded_17 = tensor.expand_shape %39 [[0], [1, 2], [3]] output_shape [1, 1, 2, 2] : tensor<1x2x2xf32> into tensor<1x1x2x2xf32> loc(#loc1)
    %40 = tensor.empty() : tensor<1x1x3x2xf32> loc(#loc1)
    %transposed_18 = linalg.transpose ins(%expanded_16 : tensor<1x1x2x3xf32>) outs(%40 : tensor<1x1x3x2xf32>) permutation = [0, 1, 3, 2]  loc(#loc1)
    return %25, %expanded_17, %transposed_18, %expanded_11 : tensor<f32>, tensor<1x1x2x2xf32>, tensor<1x1x3x2xf32>, tensor<1x1x3x2xf32> loc(#loc1)
  } loc(#loc1)
} loc(#loc)
#loc = loc(unknown)
