// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp.program(fsdp-offload-activations,fsdp-plan-arena,fsdp-schedule-step{order=in_order},fsdp-plan-arena,fsdp-verify-schedule))' | FileCheck %s --check-prefixes=CHECK,INORDER
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp.program(fsdp-offload-activations,fsdp-plan-arena,fsdp-schedule-step{cluster=%clusters/h100-sxm.json},fsdp-plan-arena,fsdp-verify-schedule))' | FileCheck %s --check-prefixes=CHECK,SCHEDULED
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp.program(fsdp-offload-activations,fsdp-plan-arena,fsdp-schedule-step{cluster=%clusters/h100-sxm.json order=fsdp},fsdp-plan-arena,fsdp-verify-schedule))' | FileCheck %s --check-prefixes=CHECK,SCHEDULED
// RUN: not fsdp-opt %s --pass-pipeline='builtin.module(fsdp.program(fsdp-offload-activations,fsdp-plan-arena,fsdp-schedule-step{cluster=%clusters/cpu-2core.json}))' 2>&1 | FileCheck %s --check-prefix=NOHOST

// Copies run on queues of their own; who fetches comes behind who stored, and
// what lies on the host has an arena there.
// NOHOST: error: expected links.host in the description of cluster cpu-2core, since the step offloads to the host, got none

// CHECK-LABEL: fsdp.program @step
// CHECK-SAME:    arena = #fsdp.arena<{{.*}}host = 33554432,
// CHECK:         fsdp.launch @f
// CHECK:         %[[D:.*]] = fsdp.start({{.*}}) on d2h event 0
// INORDER:       %[[H:.*]] = fsdp.wait %[[D]]
// INORDER-SAME:    fsdp.offsets = array<i64: 0>
// INORDER:       %[[U:.*]] = fsdp.start(%[[H]]) on h2d event 1
// SCHEDULED:     %[[U:.*]] = fsdp.start() on h2d event 1 after(%[[D]]
// CHECK:         fsdp.reload
// CHECK:         %[[X:.*]] = fsdp.wait %[[U]]
// CHECK:         fsdp.launch @b(%{{.*}}, %[[X]])
func.func private @f(%x: tensor<8388608xf32>, %o: tensor<8388608xf32>) -> tensor<8388608xf32> {
  return %o : tensor<8388608xf32>
}
func.func private @loss(%x: tensor<8388608xf32>, %o: tensor<f32>) -> tensor<f32> {
  return %o : tensor<f32>
}
func.func private @b(%l: tensor<f32>, %x: tensor<8388608xf32>, %o: tensor<8388608xf32>) -> tensor<8388608xf32> {
  return %o : tensor<8388608xf32>
}
fsdp.program @step(%x: tensor<8388608xf32>) -> (tensor<f32> {fsdp.loss}, tensor<8388608xf32>) {
  %f = fsdp.launch @f(%x) {fsdp.offload = array<i64: 0>} : (tensor<8388608xf32>) -> tensor<8388608xf32>
  %l = fsdp.launch @loss(%f) : (tensor<8388608xf32>) -> tensor<f32>
  %b = fsdp.launch @b(%l, %f) : (tensor<f32>, tensor<8388608xf32>) -> tensor<8388608xf32>
  fsdp.return %l, %b : tensor<f32>, tensor<8388608xf32>
}
