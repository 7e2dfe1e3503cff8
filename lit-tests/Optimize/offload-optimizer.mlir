// RUN: fsdp-opt %s --fsdp-offload-optimizer | FileCheck %s
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp-offload-optimizer,fsdp-layout-state,fsdp.program(fsdp-plan-arena,fsdp-schedule-step{order=in_order},fsdp-plan-arena,fsdp-verify-schedule))' | FileCheck %s --check-prefix=PLACED
// Twice is once.
// RUN: fsdp-opt %s --fsdp-offload-optimizer --fsdp-offload-optimizer | FileCheck %s

// A state per element goes to the host, that of one element stays. Places are
// given anew.
// CHECK-LABEL: fsdp.state @h0.param parameter of @h0 : tensor<4xf32>{{$}}
// CHECK-NEXT:  fsdp.state @h0.m optimizer "m" of @h0 : !fsdp.host<tensor<4xf32>> init
// CHECK-NEXT:  fsdp.state @step optimizer "step" : tensor<f32> init

// Copies stand next to the update. One that is passed on is not copied.
// CHECK-LABEL: fsdp.program @train
// CHECK-SAME:    %[[M:[^:]*]]: !fsdp.host<tensor<4xf32>> {fsdp.state = @h0.m}
// CHECK-SAME:    !fsdp.host<tensor<4xf32>> {fsdp.state = @h0.m}
// CHECK:         fsdp.launch @grad
// CHECK:         %[[R:.*]] = fsdp.reload %[[M]]
// CHECK-NEXT:    %[[U:.*]]:3 = fsdp.launch @update(%{{.*}}, %{{.*}}, %[[R]], %{{.*}})
// CHECK-NEXT:    %[[H:.*]] = fsdp.offload %[[U]]#1
// CHECK-NEXT:    fsdp.return %[[U]]#0, %[[H]], %[[U]]#2
// CHECK-LABEL: fsdp.program @pass
// CHECK-NEXT:    fsdp.return %{{.*}} : !fsdp.host<tensor<4xf32>>
// CHECK-LABEL: fsdp.program eval @eval
// CHECK-NOT:     host

// The new value is where the old one was, and the host's arena holds no more.
// PLACED-LABEL: fsdp.program @train
// PLACED-SAME:    host = 256
// PLACED:         fsdp.offload
// PLACED-SAME:    fsdp.offsets = array<i64: 0>
func.func private @grad(%w: tensor<4xf32>, %x: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  return %o : tensor<4xf32>
}
func.func private @update(%w: tensor<4xf32>, %g: tensor<4xf32>, %m: tensor<4xf32>, %s: tensor<f32>, %a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<f32>) {
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<f32>
}
fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 4 [
  <"w", tensor<4xf32> at 0>
] {trainable, unit = ""}
fsdp.state @h0.param parameter of @h0 : tensor<4xf32> at 0
fsdp.state @h0.m optimizer "m" of @h0 : tensor<4xf32> at 256 init 0.0 : f64
fsdp.state @step optimizer "step" : tensor<f32> at 512 init 0.0 : f64
fsdp.program @train(%w: tensor<4xf32> {fsdp.state = @h0.param}, %m: tensor<4xf32> {fsdp.state = @h0.m},
                    %s: tensor<f32> {fsdp.state = @step}, %x: tensor<4xf32> {fsdp.input = {name = "x"}})
    -> (tensor<4xf32> {fsdp.state = @h0.param}, tensor<4xf32> {fsdp.state = @h0.m}, tensor<f32> {fsdp.state = @step}) {
  %g = fsdp.launch @grad(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %u:3 = fsdp.launch @update(%w, %g, %m, %s) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<f32>)
  fsdp.return %u#0, %u#1, %u#2 : tensor<4xf32>, tensor<4xf32>, tensor<f32>
}
fsdp.program @pass(%m: tensor<4xf32> {fsdp.state = @h0.m}) -> (tensor<4xf32> {fsdp.state = @h0.m}) {
  fsdp.return %m : tensor<4xf32>
}
fsdp.program eval @eval(%w: tensor<4xf32> {fsdp.state = @h0.param}) -> (tensor<4xf32> {fsdp.output = {name = "y"}}) {
  %y = fsdp.launch @grad(%w, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fsdp.return %y : tensor<4xf32>
}
