// RUN: fsdp-opt %s --fsdp-verify-schedule --verify-diagnostics
// RUN: not fsdp-opt %s --fsdp-plan-step='cluster=%clusters/h100-sxm.json' 2>&1 | FileCheck %s
// CHECK: error: 'fsdp.launch' op expected a kernel with a body, got a declaration
// RUN: fsdp-opt %s --fsdp-schedule-step='cluster=%clusters/h100-sxm.json' --verify-diagnostics

// What a kernel costs and does is in its body.
fsdp.mesh @mesh [#fsdp.axis<"shard" = 2>]
// expected-note @below {{that is here}}
func.func private @k(%x: tensor<64xf32>, %o: tensor<64xf32>) -> tensor<64xf32>
func.func @step(%p: tensor<64xf32> {fsdp.offset = 0 : i64}) -> (tensor<64xf32> {fsdp.loss})
    attributes {fsdp.arena = {bytes = 512 : i64,
      state_offset = 0 : i64, state_bytes = 256 : i64, communicated_offset = 256 : i64, communicated_bytes = 0 : i64,
      transient_offset = 256 : i64, transient_bytes = 256 : i64}} {
  // expected-error @below {{expected a kernel with a body, got a declaration}}
  %a = fsdp.launch @k(%p) {fsdp.offsets = array<i64: 256>} : (tensor<64xf32>) -> tensor<64xf32>
  return %a : tensor<64xf32>
}
