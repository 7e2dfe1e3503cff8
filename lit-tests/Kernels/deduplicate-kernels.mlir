// RUN: fsdp-opt %s --fsdp-deduplicate-kernels | FileCheck %s

// @b is @a with other names; @c has another constant, @d another type.

// CHECK-LABEL: fsdp.program @step
// CHECK:         fsdp.launch @a
// CHECK:         fsdp.launch @a
// CHECK:         fsdp.launch @c
// CHECK:         fsdp.launch @d
// CHECK:       func.func private @a
// CHECK-NOT:   func.func private @b
// CHECK:       func.func private @c
// CHECK:       func.func private @d
fsdp.program @step(%x: tensor<4xf32>, %y: tensor<8xf32>) -> tensor<4xf32> {
  %0 = fsdp.launch @a(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fsdp.launch @b(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = fsdp.launch @c(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = fsdp.launch @d(%y) : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %2 : tensor<4xf32>
}
func.func private @a(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.constant dense<1.0> : tensor<4xf32>
  %r = bufferization.materialize_in_destination %c in %out : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func private @b(%other: tensor<4xf32>, %dest: tensor<4xf32>) -> tensor<4xf32> {
  %same = arith.constant dense<1.0> : tensor<4xf32>
  %stored = bufferization.materialize_in_destination %same in %dest : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %stored : tensor<4xf32>
}
func.func private @c(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.constant dense<2.0> : tensor<4xf32>
  %r = bufferization.materialize_in_destination %c in %out : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func private @d(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %c = arith.constant dense<1.0> : tensor<8xf32>
  %r = bufferization.materialize_in_destination %c in %out : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
