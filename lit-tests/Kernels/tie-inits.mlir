// RUN: fsdp-opt %s --fsdp-tie-inits | FileCheck %s

// @scatter and @product start at an input: they work in its place. @reads also
// reads the input elsewhere, @afresh starts at nothing.

// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.launch @scatter(%{{.*}}, %{{.*}}) tied [1]
// CHECK:         fsdp.launch @product(%{{.*}}, %{{.*}}) tied [1]
// CHECK:         fsdp.launch @reads(%{{.*}}, %{{.*}}) : (
// CHECK:         fsdp.launch @afresh(%{{.*}}) : (
fsdp.program @step(%places: tensor<4xi64>, %x: tensor<4x4xf32>, %t: tensor<9xf32>) -> (tensor<9xf32>, tensor<4x4xf32>, tensor<9xf32>, tensor<9xf32>) {
  %0 = fsdp.launch @scatter(%places, %t) : (tensor<4xi64>, tensor<9xf32>) -> tensor<9xf32>
  %1 = fsdp.launch @product(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = fsdp.launch @reads(%places, %t) : (tensor<4xi64>, tensor<9xf32>) -> tensor<9xf32>
  %3 = fsdp.launch @afresh(%places) : (tensor<4xi64>) -> tensor<9xf32>
  fsdp.return %0, %1, %2, %3 : tensor<9xf32>, tensor<4x4xf32>, tensor<9xf32>, tensor<9xf32>
}

// CHECK-LABEL: func.func private @scatter
// CHECK-SAME:    %{{.*}}: tensor<4xi64>, %{{.*}}: tensor<9xf32>, %[[OUT:.*]]: tensor<9xf32>
// CHECK:         %[[R:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[OUT]])
// CHECK-NOT:     bufferization.materialize_in_destination
// CHECK:         return %[[R]]
func.func private @scatter(%places: tensor<4xi64>, %t: tensor<9xf32>, %out: tensor<9xf32>) -> tensor<9xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %one = arith.constant 1.0 : f32
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %t) -> (tensor<9xf32>) {
    %p = tensor.extract %places[%i] : tensor<4xi64>
    %j = arith.index_cast %p : i64 to index
    %u = tensor.insert %one into %a[%j] : tensor<9xf32>
    scf.yield %u : tensor<9xf32>
  }
  %s = bufferization.materialize_in_destination %r in %out : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xf32>
  return %s : tensor<9xf32>
}

// CHECK-LABEL: func.func private @product
// CHECK-SAME:    %[[X:.*]]: tensor<4x4xf32>, %{{.*}}: tensor<4x4xf32>, %[[OUT:.*]]: tensor<4x4xf32>
// CHECK:         linalg.matmul ins(%[[X]], %[[X]] : {{.*}}) outs(%[[OUT]] :
func.func private @product(%x: tensor<4x4xf32>, %c: tensor<4x4xf32>, %out: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %r = linalg.matmul ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = bufferization.materialize_in_destination %r in %out : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %s : tensor<4x4xf32>
}

// CHECK-LABEL: func.func private @reads
// CHECK:         bufferization.materialize_in_destination
func.func private @reads(%places: tensor<4xi64>, %t: tensor<9xf32>, %out: tensor<9xf32>) -> tensor<9xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %t) -> (tensor<9xf32>) {
    %v = tensor.extract %t[%i] : tensor<9xf32>
    %u = tensor.insert %v into %a[%c0] : tensor<9xf32>
    scf.yield %u : tensor<9xf32>
  }
  %s = bufferization.materialize_in_destination %r in %out : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xf32>
  return %s : tensor<9xf32>
}

func.func private @afresh(%places: tensor<4xi64>, %out: tensor<9xf32>) -> tensor<9xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<9xf32>
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %e) -> (tensor<9xf32>) {
    %u = tensor.insert %one into %a[%i] : tensor<9xf32>
    scf.yield %u : tensor<9xf32>
  }
  %s = bufferization.materialize_in_destination %r in %out : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xf32>
  return %s : tensor<9xf32>
}
