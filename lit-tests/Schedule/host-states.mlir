// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp-offload-optimizer,fsdp-layout-state,fsdp.program(fsdp-plan-arena,fsdp-schedule-step{order=fsdp cluster=%clusters/h100-sxm.json},fsdp-plan-arena,fsdp-verify-schedule))' | FileCheck %s
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp-offload-optimizer,fsdp-layout-state,fsdp.program(fsdp-plan-arena,fsdp-schedule-step{order=scheduled cluster=%clusters/h100-sxm.json},fsdp-plan-arena,fsdp-verify-schedule))' | FileCheck %s
// RUN: sed 's/"memory_gib": 224/"memory_gib": 0.00000001/' %clusters/h100-sxm.json > %t.json
// RUN: not fsdp-opt %s --pass-pipeline='builtin.module(fsdp-offload-optimizer,fsdp-layout-state,fsdp.program(fsdp-plan-arena,fsdp-schedule-step{cluster=%t.json},fsdp-plan-arena,fsdp-verify-schedule))' 2>&1 | FileCheck %s --check-prefix=LIMIT
// LIMIT: error: expected at most 10 bytes of states on the host (memory_gib of links.host of cluster {{.*}}), got 16

// The state is reloaded into the update and its new value is copied to where it was, on queues of their own; the host
// must have room for it.
// CHECK-LABEL: fsdp.program @train
// CHECK-SAME:    host = 256
// CHECK:         %[[R:.*]] = fsdp.start({{.*}}) on h2d
// CHECK:         %[[M:.*]] = fsdp.wait %[[R]]
// CHECK:         %[[U:.*]]:3 = fsdp.launch @update(%{{.*}}, %{{.*}}, %[[M]], %{{.*}})
// CHECK:         %[[D:.*]] = fsdp.start(%[[U]]#1) on d2h
// CHECK:           fsdp.offload
// CHECK-SAME:      fsdp.offsets = array<i64: 0>
// CHECK:         %[[H:.*]] = fsdp.wait %[[D]]
// CHECK:         fsdp.return %[[U]]#0, %[[H]], %[[U]]#2
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
