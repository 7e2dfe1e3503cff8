// RUN: fsdp-opt %s --fsdp-match-matmuls | FileCheck %s --implicit-check-not=fsdp.tf32
// RUN: fsdp-opt %s --fsdp-match-matmuls=tf32=true | FileCheck %s --check-prefix=TF32

// Every kernel is launched; only those that are one product are matched.

fsdp.program @step(%a: tensor<5x7xf32>, %b: tensor<7x6xf32>, %at: tensor<7x5xf32>, %c: tensor<5x6xf32>, %i: tensor<5x7xi64>, %j: tensor<7x6xi64>, %na: tensor<5x7xbf16>, %nb: tensor<7x6xbf16>) {
  %0 = fsdp.launch @plain(%a, %b) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  %1 = fsdp.launch @transposed(%at, %b) : (tensor<7x5xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  %2 = fsdp.launch @scaled(%a, %b) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  %3 = fsdp.launch @added(%a, %b, %c) tied [2] : (tensor<5x7xf32>, tensor<7x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  %4 = fsdp.launch @of_tanh(%a, %b) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  %5 = fsdp.launch @integers(%i, %j) : (tensor<5x7xi64>, tensor<7x6xi64>) -> tensor<5x6xi64>
  %6 = fsdp.launch @of_bf16(%na, %nb) : (tensor<5x7xbf16>, tensor<7x6xbf16>) -> tensor<5x6xf32>
  fsdp.return
}

// TF32: func.func private @plain{{.*}} fsdp.tf32
// TF32: func.func private @transposed{{.*}} fsdp.tf32
// What is no product, or not of f32 factors, is left alone.
// TF32: func.func private @of_tanh
// TF32-NOT: fsdp.tf32

// CHECK-LABEL: func.func private @plain
// CHECK-SAME:    fsdp.matmul = #fsdp.matmul<
func.func private @plain(%a: tensor<5x7xf32>, %b: tensor<7x6xf32>, %out: tensor<5x6xf32>) -> tensor<5x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x6xf32>) -> tensor<5x6xf32>
  %r = linalg.matmul ins(%a, %b : tensor<5x7xf32>, tensor<7x6xf32>) outs(%f : tensor<5x6xf32>) -> tensor<5x6xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  return %s : tensor<5x6xf32>
}

// CHECK-LABEL: func.func private @transposed
// CHECK-SAME:    fsdp.matmul = #fsdp.matmul<
func.func private @transposed(%a: tensor<7x5xf32>, %b: tensor<7x6xf32>, %out: tensor<5x6xf32>) -> tensor<5x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<5x7xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<7x5xf32>) outs(%e0 : tensor<5x7xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<5x7xf32>
  %e = tensor.empty() : tensor<5x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x6xf32>) -> tensor<5x6xf32>
  %r = linalg.matmul ins(%t, %b : tensor<5x7xf32>, tensor<7x6xf32>) outs(%f : tensor<5x6xf32>) -> tensor<5x6xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  return %s : tensor<5x6xf32>
}

// CHECK-LABEL: func.func private @scaled
// CHECK-SAME:    fsdp.matmul = #fsdp.matmul<{{.*}}2.500000e-01
func.func private @scaled(%a: tensor<5x7xf32>, %b: tensor<7x6xf32>, %out: tensor<5x6xf32>) -> tensor<5x6xf32> {
  %zero = arith.constant 0.0 : f32
  %quarter = arith.constant 0.25 : f32
  %e0 = tensor.empty() : tensor<5x7xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<5x7xf32>) outs(%e0 : tensor<5x7xf32>) {
  ^bb0(%v: f32, %o: f32):
    %q = arith.mulf %v, %quarter : f32
    linalg.yield %q : f32
  } -> tensor<5x7xf32>
  %e = tensor.empty() : tensor<5x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x6xf32>) -> tensor<5x6xf32>
  %r = linalg.matmul ins(%t, %b : tensor<5x7xf32>, tensor<7x6xf32>) outs(%f : tensor<5x6xf32>) -> tensor<5x6xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  return %s : tensor<5x6xf32>
}

// CHECK-LABEL: func.func private @added
// CHECK-SAME:    fsdp.matmul = #fsdp.matmul<
func.func private @added(%a: tensor<5x7xf32>, %b: tensor<7x6xf32>, %c: tensor<5x6xf32>, %out: tensor<5x6xf32>) -> tensor<5x6xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<5x7xf32>, tensor<7x6xf32>) outs(%out : tensor<5x6xf32>) -> tensor<5x6xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  return %s : tensor<5x6xf32>
}

// CHECK-LABEL: func.func private @of_tanh
// CHECK-NOT:     fsdp.matmul
// CHECK:         math.tanh
func.func private @of_tanh(%a: tensor<5x7xf32>, %b: tensor<7x6xf32>, %out: tensor<5x6xf32>) -> tensor<5x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x6xf32>) -> tensor<5x6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<5x7xf32>, tensor<7x6xf32>) outs(%f : tensor<5x6xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %t = math.tanh %v : f32
    %p = arith.mulf %t, %w : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  } -> tensor<5x6xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  return %s : tensor<5x6xf32>
}

// CHECK-LABEL: func.func private @integers
// CHECK-NOT:     fsdp.matmul
// CHECK:         linalg.matmul
func.func private @integers(%a: tensor<5x7xi64>, %b: tensor<7x6xi64>, %out: tensor<5x6xi64>) -> tensor<5x6xi64> {
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<5x6xi64>
  %f = linalg.fill ins(%zero : i64) outs(%e : tensor<5x6xi64>) -> tensor<5x6xi64>
  %r = linalg.matmul ins(%a, %b : tensor<5x7xi64>, tensor<7x6xi64>) outs(%f : tensor<5x6xi64>) -> tensor<5x6xi64>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<5x6xi64>, tensor<5x6xi64>) -> tensor<5x6xi64>
  return %s : tensor<5x6xi64>
}

// CHECK-LABEL: func.func private @of_bf16
// CHECK-SAME:    fsdp.matmul = #fsdp.matmul<
func.func private @of_bf16(%a: tensor<5x7xbf16>, %b: tensor<7x6xbf16>, %out: tensor<5x6xf32>) -> tensor<5x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x6xf32>) -> tensor<5x6xf32>
  %r = linalg.matmul ins(%a, %b : tensor<5x7xbf16>, tensor<7x6xbf16>) outs(%f : tensor<5x6xf32>) -> tensor<5x6xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  return %s : tensor<5x6xf32>
}
