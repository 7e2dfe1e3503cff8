// RUN: fsdp-opt %s --fsdp-isolate-kernels | FileCheck %s

// @done has code; @pad has not and is copied, its destination writable; what
// nothing launches is left alone.

fsdp.program @step(%x: tensor<4xf32>) {
  %0 = fsdp.launch @done(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fsdp.launch @pad(%x) : (tensor<4xf32>) -> tensor<6xf32>
  %2 = fsdp.launch @join(%x) : (tensor<4xf32>) -> tensor<8xf32>
  fsdp.return
}
func.func private @done(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32>
    attributes {fsdp.impl = {cpu = #fsdp.cpu_kernel<@done_cpu, grid = 1, grain = 1, scratch = 0, traffic = 32>}} {
  %s = bufferization.materialize_in_destination %x in %out : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}
// CHECK-LABEL: func.func private @pad(
// CHECK:         tensor.pad
func.func private @pad(%x: tensor<4xf32>, %out: tensor<6xf32>) -> tensor<6xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<4xf32> to tensor<6xf32>
  %s = bufferization.materialize_in_destination %p in %out : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  return %s : tensor<6xf32>
}
func.func private @join(%x: tensor<4xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %c = tensor.concat dim(0) %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %s = bufferization.materialize_in_destination %c in %out : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}
func.func private @unused(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
// CHECK:       module @fallback {
// CHECK-NOT:     @done
// CHECK-LABEL:   func.func @pad_cpu(
// CHECK-SAME:      %{{.*}}: tensor<4xf32> {bufferization.writable = false}, %{{.*}}: tensor<6xf32> {bufferization.writable = true})
// CHECK-LABEL:   func.func @join_cpu(
// CHECK-NOT:     tensor.concat
// CHECK:         tensor.insert_slice
// CHECK:         tensor.insert_slice
// CHECK-NOT:     @unused
