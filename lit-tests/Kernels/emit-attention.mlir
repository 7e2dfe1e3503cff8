// RUN: fsdp-opt %s --fsdp-emit-attention | FileCheck %s

// Each attention gets the function of its tiles, a work item per batch; @done
// has code already, @other is no attention.

fsdp.program @step(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %d: tensor<2x3x6xf32>) {
  %0:2 = fsdp.launch @forward(%q, %k, %v) : (tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>) -> (tensor<2x3x6xf32>, tensor<12xf32>)
  %1 = fsdp.launch @backward(%q, %k, %v, %0#0, %d, %0#1) : (tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>, tensor<2x3x6xf32>, tensor<2x3x6xf32>, tensor<12xf32>) -> tensor<2x4x6xf32>
  %2:2 = fsdp.launch @done(%q, %k, %v) : (tensor<2x3x5xf32>, tensor<2x4x5xf32>, tensor<2x4x6xf32>) -> (tensor<2x3x6xf32>, tensor<12xf32>)
  %3 = fsdp.launch @other(%q) : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  fsdp.return
}
// CHECK-LABEL: func.func private @forward(
// CHECK-SAME:    fsdp.impl = {cpu = #fsdp.cpu_kernel<@forward_cpu, grid = 2, grain = 1, scratch = {{[1-9][0-9]*}}, traffic = 664>}
// CHECK:         fsdp.attention
// CHECK-LABEL: func.func private @forward_cpu(%{{.*}}: index, %{{.*}}: index, %{{.*}}: memref<1xi8>
// CHECK:         scf.for
// CHECK:         math.exp
// CHECK:         return{{$}}
func.func private @forward(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %o: tensor<2x3x6xf32>, %s: tensor<12xf32>) -> (tensor<2x3x6xf32>, tensor<12xf32>) {
  %out, %stats = fsdp.attention <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured() [] scale 0.5 {
  ^bb0(%x: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %x : f32
  } out(<0, [18, 6, 1]>) : tensor<2x3x6xf32>, tensor<12xf32>
  %a = bufferization.materialize_in_destination %out in %o : (tensor<2x3x6xf32>, tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %b = bufferization.materialize_in_destination %stats in %s : (tensor<12xf32>, tensor<12xf32>) -> tensor<12xf32>
  return %a, %b : tensor<2x3x6xf32>, tensor<12xf32>
}
// CHECK-LABEL: func.func private @backward(
// CHECK-SAME:    fsdp.impl = {cpu = #fsdp.cpu_kernel<@backward_cpu, grid = 2,
// CHECK-LABEL: func.func private @backward_cpu(
// CHECK:         math.exp
func.func private @backward(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %out: tensor<2x3x6xf32>, %dout: tensor<2x3x6xf32>, %stats: tensor<12xf32>, %o: tensor<2x4x6xf32>) -> tensor<2x4x6xf32> {
  %g = fsdp.attention_backward <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) out(%out <0, [18, 6, 1]> : tensor<2x3x6xf32>) dout(%dout <0, [18, 6, 1]> : tensor<2x3x6xf32>) stats(%stats : tensor<12xf32>) captured() [] scale 0.5 {
  ^bb0(%s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %s : f32
  } gradient {
  ^bb0(%ds: f32, %s: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %ds : f32
  } dv(<0, [24, 6, 1]> : tensor<2x4x6xf32>)
  %r = bufferization.materialize_in_destination %g in %o : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  return %r : tensor<2x4x6xf32>
}
// CHECK-LABEL: func.func private @done(
// CHECK-SAME:    fsdp.impl = {cpu = #fsdp.cpu_kernel<@code,
// CHECK-NOT:   @done_cpu
func.func private @done(%q: tensor<2x3x5xf32>, %k: tensor<2x4x5xf32>, %v: tensor<2x4x6xf32>, %o: tensor<2x3x6xf32>, %s: tensor<12xf32>) -> (tensor<2x3x6xf32>, tensor<12xf32>)
    attributes {fsdp.impl = {cpu = #fsdp.cpu_kernel<@code, grid = 1, grain = 1, scratch = 0, traffic = 32>}} {
  %out, %stats = fsdp.attention <batch = [2], queries = 3, keys = 4, head = 5, value = 6> q(%q <0, [15, 5, 1]> : tensor<2x3x5xf32>) k(%k <0, [20, 5, 1]> : tensor<2x4x5xf32>) v(%v <0, [24, 6, 1]> : tensor<2x4x6xf32>) captured() [] scale 0.5 {
  ^bb0(%x: f32, %b0: index, %i: index, %j: index):
    fsdp.yield %x : f32
  } out(<0, [18, 6, 1]>) : tensor<2x3x6xf32>, tensor<12xf32>
  %a = bufferization.materialize_in_destination %out in %o : (tensor<2x3x6xf32>, tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %b = bufferization.materialize_in_destination %stats in %s : (tensor<12xf32>, tensor<12xf32>) -> tensor<12xf32>
  return %a, %b : tensor<2x3x6xf32>, tensor<12xf32>
}
// CHECK:       func.func private @other(
// CHECK-NOT:   fsdp.impl
// CHECK-NOT:   @other_cpu
func.func private @other(%x: tensor<2x3x5xf32>, %o: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %r = bufferization.materialize_in_destination %x in %o : (tensor<2x3x5xf32>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  return %r : tensor<2x3x5xf32>
}
