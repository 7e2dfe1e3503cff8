// A program that does not use a state on the host leaves it its memory all the same: the cluster must have some.
//
// RUN: not fsdp-opt %s --pass-pipeline='builtin.module(fsdp.program(fsdp-plan-arena,fsdp-schedule-step{cluster=%clusters/cpu-2core.json}))' 2>&1 | FileCheck %s
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp.program(fsdp-plan-arena,fsdp-schedule-step{cluster=%clusters/h100-sxm.json},fsdp-plan-arena,fsdp-verify-schedule))'
// CHECK: error: expected links.host in the description of cluster cpu-2core, since the step offloads to the host, got none

fsdp.mesh @mesh [#fsdp.axis<"shard" = 1>]
fsdp.flat_param @h0 on @mesh shard ["shard"] replicate [] state f32 gather f32 reduce f32 numel 4 [
  <"w", tensor<4xf32> at 0>
] {trainable, unit = ""}
fsdp.state @h0.m optimizer "m" of @h0 : !fsdp.host<tensor<4xf32>> at 0 init 0.0 : f64
func.func private @f(%x: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32> {
  return %o : tensor<4xf32>
}
fsdp.program eval @evaluate(%x: tensor<4xf32> {fsdp.input = {name = "x"}}) -> (tensor<4xf32> {fsdp.output = {name = "y"}}) {
  %y = fsdp.launch @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.return %y : tensor<4xf32>
}
