// RUN: fsdp-opt %s --fsdp-offload-parameters | FileCheck %s
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp-offload-parameters,fsdp-layout-state,fsdp.program(fsdp-plan-arena,fsdp-schedule-step{order=in_order},fsdp-plan-arena,fsdp-verify-schedule))' | FileCheck %s --check-prefix=PLACED
// Twice is once.
// RUN: fsdp-opt %s --fsdp-offload-parameters --fsdp-offload-parameters | FileCheck %s

// CHECK-LABEL: fsdp.state @h0.param parameter of @h0 : !fsdp.host<tensor<4xf32>>{{$}}

// A copy for forward's gather, and one for backward's and the update.
// CHECK-LABEL: fsdp.program @train
// CHECK-SAME:    %[[W:[^:]*]]: !fsdp.host<tensor<4xf32>> {fsdp.state = @h0.param}
// CHECK:         %[[R:.*]] = fsdp.reload %[[W]]
// CHECK-NEXT:    fsdp.all_gather %[[R]]
// CHECK:         fsdp.launch @loss
// CHECK:         %[[B:.*]] = fsdp.reload %[[W]]
// CHECK-NEXT:    fsdp.all_gather %[[B]]
// CHECK:         %[[U:.*]] = fsdp.launch @update(%[[B]],
// CHECK-NEXT:    %[[H:.*]] = fsdp.offload %[[U]]
// CHECK-NEXT:    fsdp.return %{{.*}}, %[[H]]

// A gradient that does not depend on what forward read: forward's copy could come after the new value, so there is one.
// CHECK-LABEL: fsdp.program @linear
// CHECK:         %[[R:.*]] = fsdp.reload
// CHECK-NEXT:    fsdp.launch @piece(%[[R]],
// CHECK-NOT:     fsdp.reload
// CHECK:         fsdp.launch @update(%[[R]],

// Of a program that writes nothing one for each half; without a backward, one.
// CHECK-LABEL: fsdp.program accumulate @accumulate
// CHECK-COUNT-2: fsdp.reload
// CHECK:         fsdp.return
// CHECK-LABEL: fsdp.program eval @eval
// CHECK-COUNT-1: fsdp.reload
// CHECK-NOT:     fsdp.reload
// CHECK:         fsdp.return

// PLACED-LABEL: fsdp.program @train
// PLACED-SAME:    host = 256
// PLACED:         fsdp.offload
// PLACED-SAME:    fsdp.offsets = array<i64: 0>
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"w", tensor<8xf32> at 0>
] {trainable, unit = ""}
fsdp.state @h0.param parameter of @h0 : tensor<4xf32> at 0
func.func private @forward(%w: tensor<8xf32>, %x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  return %o : tensor<8xf32>
}
func.func private @piece(%w: tensor<4xf32>, %x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  return %o : tensor<8xf32>
}
func.func private @loss(%y: tensor<8xf32>, %o: tensor<f32>) -> tensor<f32> {
  return %o : tensor<f32>
}
func.func private @grad(%x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  return %o : tensor<8xf32>
}
func.func private @update(%w: tensor<4xf32>, %g: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  return %o : tensor<4xf32>
}
fsdp.program @train(%w: tensor<4xf32> {fsdp.state = @h0.param}, %x: tensor<8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.state = @h0.param}) {
  %a = fsdp.all_gather %w on @mesh["shard"] : tensor<4xf32> -> tensor<8xf32>
  %y = fsdp.launch @forward(%a, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %p = fsdp.launch @loss(%y) : (tensor<8xf32>) -> tensor<f32>
  %l = fsdp.all_reduce %p on @mesh["shard"] divisor 2 : tensor<f32>
  %b = fsdp.all_gather %w on @mesh["shard"] for backward : tensor<4xf32> -> tensor<8xf32>
  %d = fsdp.launch @forward(%b, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %g = fsdp.reduce_scatter %d on @mesh["shard"] divisor 2 : tensor<8xf32> -> tensor<4xf32>
  %u = fsdp.launch @update(%w, %g) tied [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fsdp.return %l, %u : tensor<f32>, tensor<4xf32>
}
fsdp.program @linear(%w: tensor<4xf32> {fsdp.state = @h0.param}, %x: tensor<8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}, tensor<4xf32> {fsdp.state = @h0.param}) {
  %y = fsdp.launch @piece(%w, %x) : (tensor<4xf32>, tensor<8xf32>) -> tensor<8xf32>
  %p = fsdp.launch @loss(%y) : (tensor<8xf32>) -> tensor<f32>
  %l = fsdp.all_reduce %p on @mesh["shard"] divisor 2 : tensor<f32>
  %d = fsdp.launch @grad(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %g = fsdp.reduce_scatter %d on @mesh["shard"] divisor 2 : tensor<8xf32> -> tensor<4xf32>
  %u = fsdp.launch @update(%w, %g) tied [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fsdp.return %l, %u : tensor<f32>, tensor<4xf32>
}
fsdp.program accumulate @accumulate(%w: tensor<4xf32> {fsdp.state = @h0.param}, %x: tensor<8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}) {
  %a = fsdp.all_gather %w on @mesh["shard"] : tensor<4xf32> -> tensor<8xf32>
  %y = fsdp.launch @forward(%a, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %p = fsdp.launch @loss(%y) : (tensor<8xf32>) -> tensor<f32>
  %l = fsdp.all_reduce %p on @mesh["shard"] divisor 2 : tensor<f32>
  %b = fsdp.all_gather %w on @mesh["shard"] for backward : tensor<4xf32> -> tensor<8xf32>
  %d = fsdp.launch @forward(%b, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %l : tensor<f32>
}
fsdp.program eval @eval(%w: tensor<4xf32> {fsdp.state = @h0.param}, %x: tensor<8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<8xf32> {fsdp.output = {name = "y"}}) {
  %a = fsdp.all_gather %w on @mesh["shard"] : tensor<4xf32> -> tensor<8xf32>
  %y = fsdp.launch @forward(%a, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %z = fsdp.launch @forward(%a, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %z : tensor<8xf32>
}
