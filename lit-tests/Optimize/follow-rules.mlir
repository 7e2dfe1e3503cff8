// RUN: fsdp-opt %s --split-input-file --pass-pipeline='builtin.module(fsdp.program(fsdp-plan-arena{draft=true},fsdp-follow-rules))' --remarks-filter='.*' 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t
// RUN: fsdp-opt %s --split-input-file --pass-pipeline='builtin.module(fsdp.program(fsdp-plan-arena{draft=true},fsdp-follow-rules{reshard-after-forward=false}))' | FileCheck %s --check-prefix=KEEP
// RUN: fsdp-opt %s --split-input-file --pass-pipeline='builtin.module(fsdp.program(fsdp-plan-arena{draft=true},fsdp-follow-rules{recompute=full}))' | FileCheck %s --check-prefix=FULL

// What a checkpointed module makes for itself and backward reads is computed again: not what it hands on (%c), what is
// saved (%s), and what nobody reads again (%d).
// REMARK: [Passed] Recompute | Category:fsdp-follow-rules | Remark="{{.*}} less are kept for backward, inside of checkpointed h.0"
// REMARK-NOT: Recompute
func.func private @f(%x: tensor<64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  return %x : tensor<64xf32>
}
func.func private @b(%x: tensor<64xf32>, %y: tensor<64xf32>, %z: tensor<64xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  return %x : tensor<64xf32>
}
func.func private @loss(%x: tensor<64xf32>, %o: tensor<f32>) -> tensor<f32> {
  return %o : tensor<f32>
}
// CHECK-LABEL: fsdp.program @train
fsdp.program @train(%x: tensor<64xf32>) -> (tensor<f32> {fsdp.loss}, tensor<64xf32>) {
  // CHECK: fsdp.launch @f(%{{.*}}) {fsdp.checkpoint = {{.*}}, fsdp.recompute = array<i64: 0>}
  // CHECK-NOT: fsdp.recompute
  %a = fsdp.launch @f(%x) {fsdp.checkpoint = #fsdp.checkpoint<module = "h.0">} : (tensor<64xf32>) -> tensor<64xf32>
  %s = fsdp.launch @f(%a) {fsdp.checkpoint = #fsdp.checkpoint<module = "h.0", saved = true>} : (tensor<64xf32>) -> tensor<64xf32>
  %d = fsdp.launch @f(%s) {fsdp.checkpoint = #fsdp.checkpoint<module = "h.0">} : (tensor<64xf32>) -> tensor<64xf32>
  %c = fsdp.launch @f(%d) {fsdp.checkpoint = #fsdp.checkpoint<module = "h.0">} : (tensor<64xf32>) -> tensor<64xf32>
  %l = fsdp.launch @loss(%c) : (tensor<64xf32>) -> tensor<f32>
  %g = fsdp.launch @b(%a, %s, %c) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  fsdp.return %l, %g : tensor<f32>, tensor<64xf32>
}

// -----

// If that is asked, of gathers the second goes, and of launches those are repeated that save memory: not the last stretch
// of forward, with which backward begins.
// CHECK: fsdp.program @two
// CHECK-NOT: fsdp.keep
// KEEP: fsdp.program @two
// KEEP: for forward :
// KEEP: for backward {fsdp.keep}
// FULL: fsdp.program @two
// FULL: fsdp.launch @g({{.*}}) {fsdp.recompute = array<i64: 0>}
// FULL-NOT: fsdp.keep
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
func.func private @g(%x: tensor<64xf32>, %w: tensor<8xf32>, %o: tensor<64xf32>) -> tensor<64xf32> {
  %y = linalg.tanh ins(%x : tensor<64xf32>) outs(%o : tensor<64xf32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}
func.func private @loss(%x: tensor<64xf32>, %o: tensor<f32>) -> tensor<f32> {
  return %o : tensor<f32>
}
fsdp.program @two(%p: tensor<4xf32>, %x: tensor<64xf32>) -> (tensor<f32> {fsdp.loss}, tensor<64xf32>) {
  %w = fsdp.all_gather %p on @mesh["shard"] for forward : tensor<4xf32> -> tensor<8xf32>
  %f1 = fsdp.launch @g(%x, %w) : (tensor<64xf32>, tensor<8xf32>) -> tensor<64xf32>
  %f2 = fsdp.launch @g(%f1, %w) : (tensor<64xf32>, tensor<8xf32>) -> tensor<64xf32>
  %f3 = fsdp.launch @g(%f2, %w) : (tensor<64xf32>, tensor<8xf32>) -> tensor<64xf32>
  %f4 = fsdp.launch @g(%f3, %w) : (tensor<64xf32>, tensor<8xf32>) -> tensor<64xf32>
  %f5 = fsdp.launch @g(%f4, %w) : (tensor<64xf32>, tensor<8xf32>) -> tensor<64xf32>
  %f6 = fsdp.launch @g(%f5, %w) : (tensor<64xf32>, tensor<8xf32>) -> tensor<64xf32>
  %f7 = fsdp.launch @g(%f6, %w) : (tensor<64xf32>, tensor<8xf32>) -> tensor<64xf32>
  %f8 = fsdp.launch @g(%f7, %w) : (tensor<64xf32>, tensor<8xf32>) -> tensor<64xf32>
  %l = fsdp.launch @loss(%f8) : (tensor<64xf32>) -> tensor<f32>
  %w2 = fsdp.all_gather %p on @mesh["shard"] for backward : tensor<4xf32> -> tensor<8xf32>
  %r = fsdp.launch @g(%f8, %w2) : (tensor<64xf32>, tensor<8xf32>) -> tensor<64xf32>
  %s = fsdp.launch @g(%f1, %w2) : (tensor<64xf32>, tensor<8xf32>) -> tensor<64xf32>
  fsdp.return %l, %s : tensor<f32>, tensor<64xf32>
}
