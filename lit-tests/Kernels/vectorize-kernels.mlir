// RUN: fsdp-opt %s --fsdp-vectorize-kernels --remarks-filter='.*' 2>&1 | FileCheck %s

#id = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>
#both = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d1)>

// CHECK: remark: [Missed] Vectorized | Category:fsdp-vectorize-kernels | Function=branch | Reason="it contains scf.if"

fsdp.program @step(%x: tensor<37xf32>, %y: tensor<37xi32>, %flag: tensor<i1>, %z: tensor<4100x48xf32>) {
  %0 = fsdp.launch @tanh(%x) : (tensor<37xf32>) -> tensor<37xf32>
  %1 = fsdp.launch @sum(%x) : (tensor<37xf32>) -> tensor<f32>
  %2 = fsdp.launch @divide(%y, %y) : (tensor<37xi32>, tensor<37xi32>) -> tensor<37xi32>
  %3 = fsdp.launch @mask(%x) : (tensor<37xf32>) -> tensor<37xi1>
  %4:2 = fsdp.launch @two(%x, %x) : (tensor<37xf32>, tensor<37xf32>) -> (tensor<37xf32>, tensor<37xf32>)
  %6 = fsdp.launch @rows(%z) : (tensor<4100x48xf32>) -> tensor<48xf32>
  %7 = fsdp.launch @largest(%z) : (tensor<4100x48xf32>) -> tensor<48xf32>
  %5 = fsdp.launch @branch(%flag, %x) : (tensor<i1>, tensor<37xf32>) -> tensor<37xf32>
  fsdp.return
}

// One vector of 32, and a masked rest of 5.

// CHECK-LABEL: func.func private @tanh
// CHECK-SAME:    fsdp.impl = {cpu = #fsdp.cpu_kernel<{{.*}}@tanh_cpu
// CHECK-LABEL: func.func private @tanh_cpu
// CHECK:         scf.for
// CHECK:           scf.if
// CHECK:             vector.load {{.*}} vector<32xf32>
// CHECK:             math.tanh {{.*}} : vector<32xf32>
// CHECK:             vector.store
// CHECK:           } else {
// CHECK:             vector.constant_mask [5]
// CHECK:             vector.maskedload
// CHECK:             vector.maskedstore
func.func private @tanh(%x: tensor<37xf32>, %out: tensor<37xf32>) -> tensor<37xf32> {
  %e = tensor.empty() : tensor<37xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<37xf32>) outs(%e : tensor<37xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = math.tanh %v : f32
    linalg.yield %s : f32
  } -> tensor<37xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<37xf32>, tensor<37xf32>) -> tensor<37xf32>
  return %s : tensor<37xf32>
}

// 32 partial sums, lanes that do not exist left out, then a tree.

// CHECK-LABEL: func.func private @sum_cpu
// CHECK:         arith.addf {{.*}} : vector<32xf32>
// CHECK:         arith.addf {{.*}} : vector<32xf32>
// CHECK:         arith.select {{.*}} : vector<32xi1>, vector<32xf32>
// CHECK:         %[[LOW:.*]] = vector.extract_strided_slice %{{.*}} {offsets = [0], sizes = [16]
// CHECK:         %[[HIGH:.*]] = vector.extract_strided_slice %{{.*}} {offsets = [16], sizes = [16]
// CHECK:         arith.addf %[[LOW]], %[[HIGH]] : vector<16xf32>
// CHECK:         arith.addf {{.*}} : vector<1xf32>
func.func private @sum(%x: tensor<37xf32>, %out: tensor<f32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]}
      ins(%x : tensor<37xf32>) outs(%f : tensor<f32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %o : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}

// Lanes that do not exist must not divide by zero; whole vectors need no care.

// CHECK-LABEL: func.func private @divide_cpu
// CHECK:         scf.if
// CHECK-NOT:       arith.select
// CHECK:           arith.divsi
// CHECK:         } else {
// CHECK:           %[[ONE:.*]] = arith.constant dense<1> : vector<32xi32>
// CHECK:           %[[SAFE:.*]] = arith.select %{{.*}}, %{{.*}}, %[[ONE]]
// CHECK:           arith.divsi %{{.*}}, %[[SAFE]]
func.func private @divide(%x: tensor<37xi32>, %y: tensor<37xi32>, %out: tensor<37xi32>) -> tensor<37xi32> {
  %e = tensor.empty() : tensor<37xi32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<37xi32>, tensor<37xi32>) outs(%e : tensor<37xi32>) {
  ^bb0(%v: i32, %w: i32, %o: i32):
    %s = arith.divsi %v, %w : i32
    linalg.yield %s : i32
  } -> tensor<37xi32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<37xi32>, tensor<37xi32>) -> tensor<37xi32>
  return %s : tensor<37xi32>
}

// Bools are bytes in memory.

// CHECK-LABEL: func.func private @mask_cpu
// CHECK-SAME:    memref<37xi8>
// CHECK:         arith.extui {{.*}} : vector<32xi1> to vector<32xi8>
func.func private @mask(%x: tensor<37xf32>, %out: tensor<37xi1>) -> tensor<37xi1> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<37xi1>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<37xf32>) outs(%e : tensor<37xi1>) {
  ^bb0(%v: f32, %o: i1):
    %s = arith.cmpf ogt, %v, %zero : f32
    linalg.yield %s : i1
  } -> tensor<37xi1>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<37xi1>, tensor<37xi1>) -> tensor<37xi1>
  return %s : tensor<37xi1>
}

// Both results are computed before either is stored: one may lie where the other
// reads.

// CHECK-LABEL: func.func private @two_cpu
// CHECK:         vector.load
// CHECK:         vector.load
// CHECK:         vector.store
// CHECK:         vector.store
// CHECK:         } else {
func.func private @two(%x: tensor<37xf32>, %y: tensor<37xf32>, %a: tensor<37xf32>, %b: tensor<37xf32>) -> (tensor<37xf32>, tensor<37xf32>) {
  %e = tensor.empty() : tensor<37xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<37xf32>) outs(%e : tensor<37xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.negf %v : f32
    linalg.yield %s : f32
  } -> tensor<37xf32>
  %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%r, %y : tensor<37xf32>, tensor<37xf32>) outs(%e : tensor<37xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %s = arith.addf %v, %w : f32
    linalg.yield %s : f32
  } -> tensor<37xf32>
  %s = bufferization.materialize_in_destination %r in %a : (tensor<37xf32>, tensor<37xf32>) -> tensor<37xf32>
  %u = bufferization.materialize_in_destination %t in %b : (tensor<37xf32>, tensor<37xf32>) -> tensor<37xf32>
  return %s, %u : tensor<37xf32>, tensor<37xf32>
}

// 4100 rows: 164 blocks of 25. No size from 16 to 32 divides 164, so that the
// last of the blocks of 32 is shorter. The sum of a block begins at zero.

// CHECK-LABEL: func.func private @rows_cpu
// CHECK:         %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<32xf32>
// CHECK:         scf.for {{.*}} iter_args(%[[ALL:.*]] = %{{.*}}) -> (vector<32xf32>)
// CHECK:           %[[OUTER:.*]] = scf.for {{.*}} iter_args(%[[BLOCKS:.*]] = %[[ZERO]])
// CHECK:             %[[BLOCK:.*]] = scf.for {{.*}} iter_args(%[[ROW:.*]] = %[[ZERO]])
// CHECK:               %[[X:.*]] = vector.load
// CHECK:               arith.addf %[[X]], %[[ROW]]
// CHECK:             arith.addf %[[BLOCKS]], %[[BLOCK]]
// CHECK:           arith.addf %[[ALL]], %[[OUTER]]
func.func private @rows(%x: tensor<4100x48xf32>, %out: tensor<48xf32>) -> tensor<48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %r = linalg.generic {indexing_maps = [#both, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<4100x48xf32>) outs(%f : tensor<48xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %v, %o : f32
    linalg.yield %s : f32
  } -> tensor<48xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<48xf32>, tensor<48xf32>) -> tensor<48xf32>
  return %s : tensor<48xf32>
}

// The largest needs no blocks.

// CHECK-LABEL: func.func private @largest_cpu
// CHECK:         scf.if
// CHECK:           scf.for
// CHECK-NOT:         scf.for
// CHECK:             arith.maximumf
// CHECK:         } else {
func.func private @largest(%x: tensor<4100x48xf32>, %out: tensor<48xf32>) -> tensor<48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %r = linalg.generic {indexing_maps = [#both, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<4100x48xf32>) outs(%f : tensor<48xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.maximumf %v, %o : f32
    linalg.yield %s : f32
  } -> tensor<48xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<48xf32>, tensor<48xf32>) -> tensor<48xf32>
  return %s : tensor<48xf32>
}

// CHECK-LABEL: func.func private @branch(
// CHECK-NOT:     fsdp.impl
// CHECK:         scf.if
func.func private @branch(%flag: tensor<i1>, %x: tensor<37xf32>, %out: tensor<37xf32>) -> tensor<37xf32> {
  %c = tensor.extract %flag[] : tensor<i1>
  %zeros = arith.constant dense<0.0> : tensor<37xf32>
  %r = scf.if %c -> (tensor<37xf32>) {
    scf.yield %x : tensor<37xf32>
  } else {
    scf.yield %zeros : tensor<37xf32>
  }
  %s = bufferization.materialize_in_destination %r in %out : (tensor<37xf32>, tensor<37xf32>) -> tensor<37xf32>
  return %s : tensor<37xf32>
}
