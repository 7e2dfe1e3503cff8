// A reduction that sends a view of what another one brings. Behind its wait that
// is a tensor as any other; before it only the whole is known.
//
// RUN: fsdp-opt %s --pass-pipeline='builtin.module(fsdp.program(fsdp-plan-arena,fsdp-schedule-step{order=in_order},fsdp-plan-arena))' | FileCheck %s
// RUN: not fsdp-opt %s --pass-pipeline='builtin.module(fsdp.program(fsdp-plan-arena,fsdp-schedule-step{cluster=%clusters/h100-sxm.json}))' 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: not fsdp-opt %s --pass-pipeline='builtin.module(fsdp.program(fsdp-plan-arena,fsdp-schedule-step{cluster=%clusters/h100-sxm.json order=fsdp}))' 2>&1 | FileCheck %s --check-prefix=REFUSED
//
// CHECK: %[[R:.*]] = fsdp.wait
// CHECK: %[[V:.*]] = fsdp.view %[[R]]
// CHECK: fsdp.start(%[[V]]) on all_reduce
//
// REFUSED: [[@LINE+14]]:8: error: 'fsdp.all_reduce' op expected to send what another transfer brings whole, got a view
// REFUSED: [[@LINE+11]]:8: note: the other transfer is here

fsdp.mesh @mesh [#fsdp.axis<"replicate" = 2>, #fsdp.axis<"shard" = 2>]
func.func private @grad(%x: tensor<128xf32>, %out: tensor<128xf32>) -> tensor<128xf32> {
  return %out : tensor<128xf32>
}
func.func private @update(%g: tensor<32xf32>, %out: tensor<32xf32>) -> tensor<32xf32> {
  return %out : tensor<32xf32>
}
fsdp.program @step(%x: tensor<128xf32>) -> tensor<32xf32> {
  %d = fsdp.launch @grad(%x) : (tensor<128xf32>) -> tensor<128xf32>
  %r = fsdp.reduce_scatter %d on @mesh["shard"] : tensor<128xf32> -> tensor<64xf32>
  %v = fsdp.view %r[32] : tensor<64xf32> -> tensor<32xf32>
  %a = fsdp.all_reduce %v on @mesh["replicate"] divisor 4 : tensor<32xf32>
  %n = fsdp.launch @update(%a) : (tensor<32xf32>) -> tensor<32xf32>
  fsdp.return %n : tensor<32xf32>
}
