#map = affine_map<() -> ()>
#map1 = affine_map<(d0) -> (d0)>
#map2 = affine_map<(d0) -> ()>
module {
  func.func @optimizer(%arg0: tensor<?xf32> {fsdp.optimizer = {name = "param", role = "param"}}, %arg1: tensor<?xf32> {fsdp.optimizer = {name = "grad", role = "grad"}}, %arg2: tensor<?xf32> {fsdp.optimizer = {init = 0.000000e+00 : f64, name = "exp_avg", role = "state"}}, %arg3: tensor<?xf32> {fsdp.optimizer = {init = 0.000000e+00 : f64, name = "exp_avg_sq", role = "state"}}, %arg4: tensor<f32> {fsdp.optimizer = {init = 0.000000e+00 : f64, name = "step", role = "state"}}, %arg5: tensor<f32> {fsdp.optimizer = {default = 4.000000e-03 : f64, name = "lr", role = "scalar"}}) -> (tensor<?xf32> {fsdp.optimizer = {name = "param", role = "param"}}, tensor<?xf32> {fsdp.optimizer = {init = 0.000000e+00 : f64, name = "exp_avg", role = "state"}}, tensor<?xf32> {fsdp.optimizer = {init = 0.000000e+00 : f64, name = "exp_avg_sq", role = "state"}}, tensor<f32> {fsdp.optimizer = {init = 0.000000e+00 : f64, name = "step", role = "state"}}) attributes {fsdp.optimizer_spec = "adamw:beta1=0.9,beta2=0.95,eps=1e-08,weight_decay=0.1"} {
    %cst = arith.constant dense<1> : tensor<i64>
    %cst_0 = arith.constant 1.000000e+00 : f64
    %cst_1 = arith.constant 1.000000e-01 : f32
    %cst_2 = arith.constant 0.94999999999999996 : f64
    %cst_3 = arith.constant 0.949999988 : f32
    %cst_4 = arith.constant 5.000000e-02 : f32
    %cst_5 = arith.constant 9.000000e-01 : f64
    %cst_6 = arith.constant 9.99999993E-9 : f32
    %c0 = arith.constant 0 : index
    %dim = tensor.dim %arg0, %c0 : tensor<?xf32>
    %0 = tensor.empty() : tensor<f64>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = []} ins(%arg4 : tensor<f32>) outs(%0 : tensor<f64>) {
    ^bb0(%in: f32, %out: f64):
      %31 = arith.extf %in : f32 to f64
      linalg.yield %31 : f64
    } -> tensor<f64>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = []} ins(%1 : tensor<f64>) outs(%0 : tensor<f64>) {
    ^bb0(%in: f64, %out: f64):
      %31 = arith.addf %in, %cst_0 : f64
      linalg.yield %31 : f64
    } -> tensor<f64>
    %3 = tensor.empty() : tensor<f32>
    %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = []} ins(%arg5 : tensor<f32>) outs(%3 : tensor<f32>) {
    ^bb0(%in: f32, %out: f32):
      %31 = arith.mulf %in, %cst_1 : f32
      linalg.yield %31 : f32
    } -> tensor<f32>
    %5 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = []} ins(%cst, %4 : tensor<i64>, tensor<f32>) outs(%3 : tensor<f32>) {
    ^bb0(%in: i64, %in_7: f32, %out: f32):
      %31 = arith.sitofp %in : i64 to f32
      %32 = arith.subf %31, %in_7 : f32
      linalg.yield %32 : f32
    } -> tensor<f32>
    %6 = tensor.empty(%dim) : tensor<?xf32>
    %7 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel"]} ins(%arg0, %5 : tensor<?xf32>, tensor<f32>) outs(%6 : tensor<?xf32>) {
    ^bb0(%in: f32, %in_7: f32, %out: f32):
      %31 = arith.mulf %in, %in_7 : f32
      linalg.yield %31 : f32
    } -> tensor<?xf32>
    %8 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel"]} ins(%arg1, %arg2 : tensor<?xf32>, tensor<?xf32>) outs(%6 : tensor<?xf32>) {
    ^bb0(%in: f32, %in_7: f32, %out: f32):
      %31 = arith.subf %in, %in_7 : f32
      linalg.yield %31 : f32
    } -> tensor<?xf32>
    %9 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%8 : tensor<?xf32>) outs(%6 : tensor<?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %31 = arith.mulf %in, %cst_1 : f32
      linalg.yield %31 : f32
    } -> tensor<?xf32>
    %10 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel"]} ins(%arg2, %9 : tensor<?xf32>, tensor<?xf32>) outs(%6 : tensor<?xf32>) {
    ^bb0(%in: f32, %in_7: f32, %out: f32):
      %31 = arith.addf %in, %in_7 : f32
      linalg.yield %31 : f32
    } -> tensor<?xf32>
    %11 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%arg3 : tensor<?xf32>) outs(%6 : tensor<?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %31 = arith.mulf %in, %cst_3 : f32
      linalg.yield %31 : f32
    } -> tensor<?xf32>
    %12 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel"]} ins(%arg1, %arg1 : tensor<?xf32>, tensor<?xf32>) outs(%6 : tensor<?xf32>) {
    ^bb0(%in: f32, %in_7: f32, %out: f32):
      %31 = arith.mulf %in, %in_7 : f32
      linalg.yield %31 : f32
    } -> tensor<?xf32>
    %13 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%12 : tensor<?xf32>) outs(%6 : tensor<?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %31 = arith.mulf %in, %cst_4 : f32
      linalg.yield %31 : f32
    } -> tensor<?xf32>
    %14 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel"]} ins(%13, %11 : tensor<?xf32>, tensor<?xf32>) outs(%6 : tensor<?xf32>) {
    ^bb0(%in: f32, %in_7: f32, %out: f32):
      %31 = arith.addf %in, %in_7 : f32
      linalg.yield %31 : f32
    } -> tensor<?xf32>
    %15 = linalg.generic {indexing_maps = [#map, #map], iterator_types = []} ins(%2 : tensor<f64>) outs(%0 : tensor<f64>) {
    ^bb0(%in: f64, %out: f64):
      %31 = math.powf %cst_5, %in : f64
      linalg.yield %31 : f64
    } -> tensor<f64>
    %16 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = []} ins(%cst, %15 : tensor<i64>, tensor<f64>) outs(%0 : tensor<f64>) {
    ^bb0(%in: i64, %in_7: f64, %out: f64):
      %31 = arith.sitofp %in : i64 to f64
      %32 = arith.subf %31, %in_7 : f64
      linalg.yield %32 : f64
    } -> tensor<f64>
    %17 = linalg.generic {indexing_maps = [#map, #map], iterator_types = []} ins(%2 : tensor<f64>) outs(%0 : tensor<f64>) {
    ^bb0(%in: f64, %out: f64):
      %31 = math.powf %cst_2, %in : f64
      linalg.yield %31 : f64
    } -> tensor<f64>
    %18 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = []} ins(%cst, %17 : tensor<i64>, tensor<f64>) outs(%0 : tensor<f64>) {
    ^bb0(%in: i64, %in_7: f64, %out: f64):
      %31 = arith.sitofp %in : i64 to f64
      %32 = arith.subf %31, %in_7 : f64
      linalg.yield %32 : f64
    } -> tensor<f64>
    %19 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = []} ins(%arg5, %16 : tensor<f32>, tensor<f64>) outs(%0 : tensor<f64>) {
    ^bb0(%in: f32, %in_7: f64, %out: f64):
      %31 = arith.extf %in : f32 to f64
      %32 = arith.divf %31, %in_7 : f64
      linalg.yield %32 : f64
    } -> tensor<f64>
    %20 = linalg.generic {indexing_maps = [#map, #map], iterator_types = []} ins(%18 : tensor<f64>) outs(%0 : tensor<f64>) {
    ^bb0(%in: f64, %out: f64):
      %31 = math.sqrt %in : f64
      linalg.yield %31 : f64
    } -> tensor<f64>
    %21 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%14 : tensor<?xf32>) outs(%6 : tensor<?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %31 = math.sqrt %in : f32
      linalg.yield %31 : f32
    } -> tensor<?xf32>
    %22 = linalg.generic {indexing_maps = [#map, #map], iterator_types = []} ins(%20 : tensor<f64>) outs(%3 : tensor<f32>) {
    ^bb0(%in: f64, %out: f32):
      %31 = arith.truncf %in : f64 to f32
      linalg.yield %31 : f32
    } -> tensor<f32>
    %23 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel"]} ins(%21, %22 : tensor<?xf32>, tensor<f32>) outs(%6 : tensor<?xf32>) {
    ^bb0(%in: f32, %in_7: f32, %out: f32):
      %31 = arith.divf %in, %in_7 : f32
      linalg.yield %31 : f32
    } -> tensor<?xf32>
    %24 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%23 : tensor<?xf32>) outs(%6 : tensor<?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %31 = arith.addf %in, %cst_6 : f32
      linalg.yield %31 : f32
    } -> tensor<?xf32>
    %25 = linalg.generic {indexing_maps = [#map, #map], iterator_types = []} ins(%19 : tensor<f64>) outs(%0 : tensor<f64>) {
    ^bb0(%in: f64, %out: f64):
      %31 = arith.negf %in : f64
      linalg.yield %31 : f64
    } -> tensor<f64>
    %26 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel"]} ins(%10, %24 : tensor<?xf32>, tensor<?xf32>) outs(%6 : tensor<?xf32>) {
    ^bb0(%in: f32, %in_7: f32, %out: f32):
      %31 = arith.divf %in, %in_7 : f32
      linalg.yield %31 : f32
    } -> tensor<?xf32>
    %27 = linalg.generic {indexing_maps = [#map, #map], iterator_types = []} ins(%25 : tensor<f64>) outs(%3 : tensor<f32>) {
    ^bb0(%in: f64, %out: f32):
      %31 = arith.truncf %in : f64 to f32
      linalg.yield %31 : f32
    } -> tensor<f32>
    %28 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel"]} ins(%26, %27 : tensor<?xf32>, tensor<f32>) outs(%6 : tensor<?xf32>) {
    ^bb0(%in: f32, %in_7: f32, %out: f32):
      %31 = arith.mulf %in, %in_7 : f32
      linalg.yield %31 : f32
    } -> tensor<?xf32>
    %29 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel"]} ins(%28, %7 : tensor<?xf32>, tensor<?xf32>) outs(%6 : tensor<?xf32>) {
    ^bb0(%in: f32, %in_7: f32, %out: f32):
      %31 = arith.addf %in, %in_7 : f32
      linalg.yield %31 : f32
    } -> tensor<?xf32>
    %30 = linalg.generic {indexing_maps = [#map, #map], iterator_types = []} ins(%2 : tensor<f64>) outs(%3 : tensor<f32>) {
    ^bb0(%in: f64, %out: f32):
      %31 = arith.truncf %in : f64 to f32
      linalg.yield %31 : f32
    } -> tensor<f32>
    return %29, %10, %14, %30 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>
  }
}
