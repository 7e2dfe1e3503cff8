// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp-offload-parameters,fsdp.program(fsdp-keep-gathered,fsdp-recompute-activations))' | FileCheck %s
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp-offload-parameters,fsdp.program(fsdp-keep-gathered,fsdp-recompute-activations),fsdp-layout-state,fsdp.program(fsdp-plan-arena,fsdp-schedule-step{order=scheduled cluster=%clusters/h100-sxm.json},fsdp-plan-arena,fsdp-verify-schedule))' -o /dev/null

// Plans of parameters that come from the host: a gather that has to come earlier brings its copy along.
// CHECK-LABEL: fsdp.program accumulate @recomputed
// CHECK:         fsdp.all_reduce
// CHECK-NEXT:    %[[R:.*]] = fsdp.reload
// CHECK-NEXT:    %[[B:.*]] = fsdp.all_gather %[[R]]
// CHECK-NEXT:    %[[Y:.*]] = fsdp.launch @forward(%[[B]],
// CHECK-NEXT:    fsdp.launch @forward(%[[Y]],

// One that is kept leaves no copy behind.
// CHECK-LABEL: fsdp.program accumulate @kept
// CHECK-COUNT-1: fsdp.reload
// CHECK-NOT:     fsdp.reload
// CHECK:         fsdp.return
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 8 [
  <"w", tensor<8xf32> at 0>
] {unit = ""}
fsdp.state @h0.param parameter of @h0 : tensor<4xf32> at 0
func.func private @forward(%w: tensor<8xf32>, %x: tensor<8xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {
  %r = linalg.add ins(%w, %x : tensor<8xf32>, tensor<8xf32>) outs(%o : tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func private @loss(%y: tensor<8xf32>, %o: tensor<f32>) -> tensor<f32> {
  return %o : tensor<f32>
}
fsdp.program accumulate @recomputed(%w: tensor<4xf32> {fsdp.state = @h0.param}, %x: tensor<8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}) {
  %a = fsdp.all_gather %w on @mesh["shard"] : tensor<4xf32> -> tensor<8xf32>
  %y = fsdp.launch @forward(%a, %x) {fsdp.recompute = array<i64: 0>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %l0 = fsdp.launch @loss(%y) : (tensor<8xf32>) -> tensor<f32>
  %l = fsdp.all_reduce %l0 on @mesh["shard"] divisor 2 : tensor<f32>
  %c = fsdp.launch @forward(%y, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %b = fsdp.all_gather %w on @mesh["shard"] for backward : tensor<4xf32> -> tensor<8xf32>
  %d = fsdp.launch @forward(%b, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %l : tensor<f32>
}
fsdp.program accumulate @kept(%w: tensor<4xf32> {fsdp.state = @h0.param}, %x: tensor<8xf32> {fsdp.input = {name = "x"}})
    -> (tensor<f32> {fsdp.loss}) {
  %a = fsdp.all_gather %w on @mesh["shard"] : tensor<4xf32> -> tensor<8xf32>
  %y = fsdp.launch @forward(%a, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %l0 = fsdp.launch @loss(%y) : (tensor<8xf32>) -> tensor<f32>
  %l = fsdp.all_reduce %l0 on @mesh["shard"] divisor 2 : tensor<f32>
  %b = fsdp.all_gather %w on @mesh["shard"] for backward {fsdp.keep} : tensor<4xf32> -> tensor<8xf32>
  %d = fsdp.launch @forward(%b, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  fsdp.return %l : tensor<f32>
}
