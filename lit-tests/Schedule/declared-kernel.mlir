// RUN: fsdp-opt %s --fsdp-verify-schedule --verify-diagnostics
// RUN: not fsdp-opt %s --fsdp-plan-step='cluster=%clusters/h100-sxm.json' 2>&1 | FileCheck %s
// CHECK: error: 'fsdp.launch' op expected a kernel with a body, got a declaration
// RUN: fsdp-opt %s --fsdp-schedule-step='cluster=%clusters/h100-sxm.json' --verify-diagnostics

// What a kernel costs and does is in its body.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{that is here}}
func.func private @k(%x: tensor<64xf32>, %o: tensor<64xf32>) -> tensor<64xf32>
fsdp.program @step(%p: tensor<64xf32> {fsdp.offset = 0 : i64}) -> (tensor<64xf32> {fsdp.loss})
    attributes {arena = #fsdp.arena<bytes = 512, inputs = 256, transient = 256>} {
  // expected-error @below {{expected a kernel with a body, got a declaration}}
  %a = fsdp.launch @k(%p) {fsdp.offsets = array<i64: 256>} : (tensor<64xf32>) -> tensor<64xf32>
  fsdp.return %a : tensor<64xf32>
}
