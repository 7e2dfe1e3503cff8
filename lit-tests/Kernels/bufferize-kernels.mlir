// RUN: fsdp-opt %s --fsdp-bufferize-kernels | FileCheck %s

// Results are written to the destination, without memory of their own.

// CHECK-LABEL: func.func @elements
// CHECK-SAME:    %[[X:.*]]: memref<4xf32>, %[[OUT:.*]]: memref<4xf32>
// CHECK-NOT:     memref.alloc
// CHECK:         linalg.generic {{.*}} ins(%[[X]] : {{.*}}) outs(%[[OUT]] :
// CHECK:         return %[[OUT]]
func.func @elements(%x: tensor<4xf32> {bufferization.writable = false}, %out: tensor<4xf32> {bufferization.writable = true}) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.tanh %a : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// A loop that carries more than its result: in place as well.

// CHECK-LABEL: func.func @scan
// CHECK-SAME:    %[[X:.*]]: memref<4xf32>, %[[OUT:.*]]: memref<4xf32>
// CHECK-NOT:     memref.alloc
// CHECK-NOT:     linalg.generic
// CHECK:         scf.for {{.*}} iter_args(%[[T:.*]] = %[[OUT]],
// CHECK:           memref.store %{{.*}}, %[[T]]
// CHECK:           scf.yield %[[T]],
// CHECK-NOT:     memref.copy
func.func @scan(%x: tensor<4xf32> {bufferization.writable = false}, %out: tensor<4xf32> {bufferization.writable = true}) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %e = tensor.empty() : tensor<4xf32>
  %r:2 = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %e, %s = %zero) -> (tensor<4xf32>, f32) {
    %v = tensor.extract %x[%i] : tensor<4xf32>
    %n = arith.addf %s, %v : f32
    %u = tensor.insert %n into %t[%i] : tensor<4xf32>
    scf.yield %u, %n : tensor<4xf32>, f32
  }
  %s = bufferization.materialize_in_destination %r#0 in %out : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// So is a loop that scatters into zeros.

// CHECK-LABEL: func.func @scatter
// CHECK-SAME:    %[[X:.*]]: memref<4xf32>, %[[P:.*]]: memref<4xindex>, %[[OUT:.*]]: memref<9xf32>
// CHECK-NOT:     memref.alloc
// CHECK:         linalg.fill {{.*}} outs(%[[OUT]] :
// CHECK:         scf.for {{.*}} iter_args(%[[T:.*]] = %[[OUT]])
// CHECK:           memref.store %{{.*}}, %[[T]]
// CHECK-NOT:     linalg.generic
func.func @scatter(%x: tensor<4xf32> {bufferization.writable = false}, %p: tensor<4xindex> {bufferization.writable = false}, %out: tensor<9xf32> {bufferization.writable = true}) -> tensor<9xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %e = tensor.empty() : tensor<9xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<9xf32>) -> tensor<9xf32>
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %f) -> (tensor<9xf32>) {
    %v = tensor.extract %x[%i] : tensor<4xf32>
    %at = tensor.extract %p[%i] : tensor<4xindex>
    %u = tensor.insert %v into %t[%at] : tensor<9xf32>
    scf.yield %u : tensor<9xf32>
  }
  %s = bufferization.materialize_in_destination %r in %out : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xf32>
  return %s : tensor<9xf32>
}

// A copy is a loop, no call of a helper.

// CHECK-LABEL: func.func @copy
// CHECK-NOT:     memref.copy
// CHECK:         linalg.generic
func.func @copy(%x: tensor<4xf32> {bufferization.writable = false}, %out: tensor<4xf32> {bufferization.writable = true}) -> tensor<4xf32> {
  %s = bufferization.materialize_in_destination %x in %out : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}
